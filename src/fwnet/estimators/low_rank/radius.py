"""A radius for the ball: the scale that the data give, and a choice by held-out terms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import final

import torch

from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem, certify
from fwnet.estimators.low_rank.solve import Budget, rough_fit, solve
from fwnet.trace import Clock, Result

_GRID = [4.0**k for k in range(-2, 6)]  # of the natural radius
_FEW = 100  # held-out terms; with fewer, a small rise may be noise
_CLEARLY = 1.2  # times the smallest value: a rise that is not noise
_SLACK = 1e-3  # of the held-out value at W = 0: a negligible difference
_INSIDE = 0.5  # of the radius: a minimum with a smaller norm does not touch its ball
_STEPS, _TOL = 25, 1e-2  # of a rough fit; neither more steps nor a smaller gap choose better


def natural_radius(problem: FactoredProblem) -> float:
    """f(0) / σ₁(∇f(0)): the radius at which the first vertex promises to bring f to 0.

    Example:
        >>> from fwnet.low_rank import ArrayRows, RowProblem, SquaredLoss, natural_radius
        >>> loss = SquaredLoss(torch.eye(2), torch.ones(2))
        >>> problem = RowProblem(ArrayRows(torch.eye(2)), loss)
        >>> round(natural_radius(problem), 3)
        1.0
    """
    found = certify(problem, Factors.zero(*problem.shape, problem.dtype), 1.0, 1e-3)
    radius = found.value / found.gap if found.gap > 0 else 1.0
    if not 0 < radius < math.inf:
        raise ValueError(
            f"{found.value:.3g}, the loss at W = 0, or {found.gap:.3g}, its steepest slope there, "
            f"is out of the range of {problem.dtype}. Scale the features and targets."
        )
    return radius


def path(
    problem: FactoredProblem,
    radii: list[float],
    budget: Budget,
    generator: torch.Generator,
    start: Factors | None = None,
) -> Iterator[Result]:
    """Results for radii in turn, each from the one before.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Budget, RowProblem, SquaredLoss, path
        >>> loss = SquaredLoss(torch.eye(2), torch.ones(2))
        >>> problem = RowProblem(ArrayRows(torch.eye(2)), loss)
        >>> results = path(problem, [0.5, 1.0, 1.5], Budget(tol=1e-4), torch.Generator())
        >>> [round(float(result.value), 2) for result in results]
        [0.28, 0.13, 0.03]
    """
    for radius in radii:
        found = solve(problem, radius, start, budget, generator=generator)
        start = Factors.of_result(found)
        yield found


def choose_radius(
    train: FactoredProblem, held_out: FactoredProblem, budget: Budget, generator: torch.Generator
) -> float:
    """The radius of a geometric path around `natural_radius` that does best on held-out terms.

    Steps of 4, then of 2 and of √2 around the best. The path ends where the held-out value is good
    enough or clearly rises, with many held-out terms where it has risen twice, and where W does
    not reach the boundary of its ball: larger balls have the same minimum, and the norm of that W
    is the answer.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Budget, RowProblem, SquaredLoss, choose_radius
        >>> def noisy(seed):
        ...     generator = torch.Generator().manual_seed(seed)
        ...     X = torch.randn(40, 6, generator=generator)
        ...     return RowProblem(ArrayRows(X), SquaredLoss(X[:, :2].clone(), torch.ones(40)))
        ...
        >>> radius = choose_radius(noisy(0), noisy(1), Budget(tol=1e-2), torch.Generator())
        >>> radius > 1
        True
    """
    path, unit = _Trials(train, held_out, budget, generator), natural_radius(train)
    for factor in _GRID:
        path.try_out(factor * unit)
        if path.is_enough():
            break
    middle = path.best()
    for radius in (middle / 2, middle * 2):
        path.try_out(radius, path.starts[middle])
    middle = path.best()
    beside = min((middle / 2, middle * 2), key=lambda radius: path.values.get(radius, math.inf))
    path.try_out(math.sqrt(middle) * math.sqrt(beside), path.starts[middle])
    chosen = path.best()
    return min(chosen, float(path.starts[chosen].s.sum()) or chosen)


@final
class _Trials:
    """Rough fits for several radii, each from one before, and their held-out values."""

    def __init__(
        self,
        train: FactoredProblem,
        held_out: FactoredProblem,
        budget: Budget,
        generator: torch.Generator,
    ) -> None:
        self.train, self.held_out, self.generator = train, held_out, generator
        steps, tol = min(_STEPS, budget.max_steps), max(_TOL, budget.tol)
        self.budget = replace(budget, tol=tol, max_steps=steps)
        self.clock = Clock(budget.max_seconds)
        self.last = zero = Factors.zero(*train.shape, train.dtype)
        self.at_zero = held_out.value(held_out.scores(zero.left), zero.V)
        self.slack = _SLACK * self.at_zero
        self.inside = False  # whether the last minimum lies inside its ball
        self.values: dict[float, float] = {}
        self.starts: dict[float, Factors] = {}

    def try_out(self, radius: float, start: Factors | None = None) -> None:
        """Fit from a start, or from the last W."""
        start = self.last if start is None else start
        W, steps = rough_fit(self.train, radius, start, self.budget, self.generator, self.clock)
        self.values[radius] = self.held_out.value(self.held_out.scores(W.left), W.V)
        self.starts[radius] = self.last = W
        done = steps < self.budget.max_steps and not self.clock.is_over
        self.inside = done and float(W.s.sum()) < _INSIDE * radius

    def best(self) -> float:
        """The smallest radius whose value is nearly the best: flat curves are common."""
        limit = 1.01 * min(self.values.values()) + self.slack
        return min(radius for radius, value in self.values.items() if value <= limit)

    def is_enough(self) -> bool:
        """Whether larger balls cannot be better, or not by much."""
        tried = list(self.values.values())
        rises = self.held_out.n >= _FEW and len(tried) > 2 and min(tried[-2:]) > tried[-3]
        # In the smallest balls large features can win over an intercept that is worth more.
        too_large = tried[-1] > _CLEARLY * min(tried) and min(tried) < 0.5 * self.at_zero
        good = tried[-1] <= self.slack
        return rises or too_large or good or self.inside or self.clock.is_over
