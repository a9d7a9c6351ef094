"""A radius for the ball: the scale that the data give, and a choice by held-out terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from fwnet.estimators.low_rank.certificate import certify
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem
from fwnet.estimators.low_rank.solve import Budget, solve
from fwnet.trace import Result

_GRID = [4.0**k for k in range(-2, 6)]  # of the natural radius
_FEW = 100  # held-out terms: with fewer, the curve is too bumpy to stop where it rises a little
_CLEARLY = 1.2  # times the smallest value, a rise that is no bump
_SLACK = 1e-3  # of the held-out value at W = 0: differences that nobody notices
_STEPS, _TOL = 25, 1e-2  # of a rough fit; neither more steps nor a smaller gap choose better


def natural_radius(problem: FactoredProblem) -> float:
    """f(0) / σ₁(∇f(0)): the radius at which the first vertex promises to bring f to 0."""
    found = certify(problem, Factors.zero(*problem.shape, problem.dtype), 1.0, 1e-3)
    return found.value / found.gap if found.gap > 0 else 1.0


def path(
    problem: FactoredProblem,
    radii: list[float],
    budget: Budget,
    generator: torch.Generator,
    start: Factors | None = None,
) -> Iterator[Result]:
    """Results for radii in turn, each from the one before."""
    for radius in radii:
        found = solve(problem, radius, start, budget, generator=generator)
        start = Factors.of_result(found)
        yield found


def choose_radius(
    train: FactoredProblem, held_out: FactoredProblem, budget: Budget, generator: torch.Generator
) -> float:
    """The radius of a geometric path around `natural_radius` that does best on held-out terms.

    Steps of 4, then of 2 and of √2 to either side of the best. The path ends where the held-out
    value is good enough, or clearly rises; with many held-out terms, where it has risen twice.
    A W that did not grow to its ball chooses its own norm.
    """
    unit = natural_radius(train)
    steps = min(_STEPS, budget.max_steps)
    rough = replace(budget, tol=max(_TOL, budget.tol), max_steps=steps)
    zero = Factors.zero(*train.shape, train.dtype)
    at_zero = held_out.value(held_out.scores(zero.left), zero.V)
    slack = _SLACK * at_zero
    values: dict[float, float] = {}
    starts: dict[float, Factors] = {}

    def try_out(radius: float, start: Factors | None) -> None:
        W = Factors.of_result(solve(train, radius, start, rough, generator=generator))
        values[radius] = held_out.value(held_out.scores(W.left), W.V)
        starts[radius] = W

    def best() -> float:
        """The smallest radius whose value is nearly the best: flat curves are common."""
        limit = 1.01 * min(values.values()) + slack
        return min(radius for radius, value in values.items() if value <= limit)

    for factor in _GRID:
        try_out(factor * unit, next(reversed(starts.values()), None))
        tried = list(values.values())
        rises = held_out.n >= _FEW and len(tried) > 2 and min(tried[-2:]) > tried[-3]
        # In the smallest balls large features can win over an intercept that is worth more.
        too_large = tried[-1] > _CLEARLY * min(tried) and min(tried) < 0.5 * at_zero
        if rises or too_large or tried[-1] <= slack:
            break
    for factor in (2.0, 2.0**0.5):
        middle = best()
        for radius in (middle / factor, middle * factor):
            try_out(radius, starts[middle])
    chosen = best()
    return min(chosen, float(starts[chosen].s.sum()) or chosen)
