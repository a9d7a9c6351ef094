"""A radius for the ball: the scale that the data give, and a choice by held-out terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from fwnet.estimators.low_rank.certificate import certify
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem
from fwnet.estimators.low_rank.solve import Budget, Solution, solve

_GRID = [4.0**k for k in range(-2, 6)]  # of the natural radius
_FEW = 100  # held-out terms: with fewer, the curve is too bumpy to stop where it rises


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
) -> Iterator[Solution]:
    """Solutions for radii in turn, each from the one before."""
    for radius in radii:
        found = solve(problem, radius, start, budget, generator=generator)
        start = found.W
        yield found


def choose_radius(
    train: FactoredProblem, held_out: FactoredProblem, budget: Budget, generator: torch.Generator
) -> float:
    """The radius of a geometric path around `natural_radius` that does best on held-out terms.

    Steps of 4, then of 2 and of √2 to either side of the best. With many held-out terms the path
    stops once their value has risen twice. A W that did not grow to its ball chooses its own norm.
    """
    unit = natural_radius(train)
    rough = replace(budget, tol=max(1e-2, budget.tol), max_steps=min(40, budget.max_steps))
    values: dict[float, float] = {}
    starts: dict[float, Factors] = {}

    def try_out(radius: float, start: Factors | None) -> None:
        W = solve(train, radius, start, rough, generator=generator).W
        values[radius] = held_out.value(held_out.scores(W.left), W.V)
        starts[radius] = W

    for factor in _GRID:
        tried = list(values.values())
        if held_out.n >= _FEW and len(tried) > 2 and min(tried[-2:]) > tried[-3]:
            break
        try_out(factor * unit, next(reversed(starts.values()), None))
    for factor in (2.0, 2.0**0.5):
        best = _smallest_good(values)
        for radius in (best / factor, best * factor):
            try_out(radius, starts[best])
    best = _smallest_good(values)
    return min(best, float(starts[best].s.sum()) or best)


def _smallest_good(values: dict[float, float]) -> float:
    """The smallest radius whose value is within a hundredth of the best: flat curves are common."""
    limit = min(values.values()) * 1.01
    return min(radius for radius, value in values.items() if value <= limit)
