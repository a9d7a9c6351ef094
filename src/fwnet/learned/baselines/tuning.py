"""Tuned: a method with one constant, and the grid from which validation problems choose it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.learned.baselines.base import Baseline
from fwnet.problems import Problem


@final
@dataclass(frozen=True)
class Tuned:
    """A baseline for each value of a constant.

    Arguments:
        make: constant -> baseline.
        grid: the constants that compete.

    Example:
        >>> from fwnet.learned import baselines
        >>> tuned = baselines.Tuned(lambda rate: baselines.AdamSoftmax(rate), (0.03, 0.1, 0.3))
        >>> tuned.grid
        (0.03, 0.1, 0.3)
    """

    make: Callable[[float], Baseline]
    grid: tuple[float, ...]

    @property
    def name(self) -> str:
        """Its name in tables."""
        return self.make(self.grid[0]).name


@final
@dataclass(frozen=True)
class Choice:
    """Which constant was chosen, and the score of each: mean log10 of its evaluations.

    Example:
        >>> from fwnet.learned import baselines
        >>> baselines.Choice(constant=0.1, scores={0.03: 1.9, 0.1: 1.5, 0.3: 1.7}).constant
        0.1
    """

    constant: float
    scores: dict[float, float]


def tune(
    tuned: Tuned,
    problems: Sequence[Problem],
    targets: Sequence[Tensor],  # (tolerances, *batch) each
    domain: Domain,
    max_steps: int,
) -> tuple[Baseline, Choice]:
    """The constant with the fewest gradient evaluations to the targets on validation problems.

    A target that is not reached counts as ten times the budget.

    Arguments:
        tuned: the method and its grid.
        problems: from the validation family.
        targets: values of f to reach, one row a tolerance, for each problem.
        domain: of the problems.
        max_steps: budget of a run.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> fista = baselines.FISTA().run(problem, Simplex(), 200)
        >>> tuned = baselines.Tuned(lambda growth: baselines.MirrorDescent(growth), (1.1, 2.0))
        >>> goals = [1.01 * fista.values[-1:]]
        >>> best, choice = baselines.tune(tuned, [problem], goals, Simplex(), 100)
        >>> choice.constant in tuned.grid
        True
    """
    scores = {}
    for constant in tuned.grid:
        baseline = tuned.make(constant)
        spent = []
        for problem, target in zip(problems, targets, strict=True):
            run = baseline.run(problem, domain, max_steps, target.amin(0))
            reached = torch.stack([run.first(row) for row in target])
            paid = run.gradients[reached.clamp_min(0)].clamp_min(1)
            spent.append(torch.where(reached < 0, 10.0 * max_steps, paid).log10().flatten())
        scores[constant] = float(torch.cat(spent).mean())
    best = min(scores, key=lambda constant: (scores[constant], math.log(constant)))
    return tuned.make(best), Choice(best, scores)
