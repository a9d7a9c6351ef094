"""What the SVM solvers pass on: a problem, a budget, the rounds, the weights, the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from fwnet.estimators.kernels import Array
from fwnet.estimators.pairwise import survey


@final
@dataclass(frozen=True, eq=False)
class BinaryProblem:
    """One squared-hinge SVM: labels ±1 and the C of every point, and the order of first trial."""

    y: Array  # (n,) float64
    box: Array  # (n,) float64
    order: Array  # (n,) a random permutation


@final
@dataclass(frozen=True)
class Budget:
    """When to stop: relative duality gap, pairwise steps, seconds on the clock, memory."""

    tol: float
    max_steps: int
    deadline: float
    megabytes: float


@final
@dataclass(frozen=True)
class Round:
    """What one round reached: steps so far, dual value, relative gap, support, seconds."""

    t: int
    value: float
    gap: float
    support: int
    seconds: float
    problem: int = 0  # which of the binary problems


@final
@dataclass(frozen=True, eq=False)
class Weights:
    """Weights on the simplex with their image: scores = Σ αⱼyⱼ(k(·, xⱼ) + 1), ρ = αᵀQα."""

    alpha: Array  # (n,)
    scores: Array  # (n,)
    rho: float
    gap: float
    steps: int
    stopped: str
    solver: str
    trace: list[Round]


def relative_gap(
    problem: BinaryProblem, alpha: Array, scores: Array, lack: Array | None = None
) -> tuple[float, float]:
    """Return ρ and (P − D)/P for the weights and their scores; see `pairwise.survey`."""
    lack = np.empty(len(alpha)) if lack is None else lack
    rho, gap = survey(problem.y, problem.box, alpha, scores, lack)
    return float(rho), float(gap)


@final
@dataclass(frozen=True, eq=False)
class Machine:
    """A solved binary problem: f(x) = Σ coefᵢ k(xᵢ, x) + intercept, with its certificate."""

    coef: Array  # (n,) yᵢβᵢ
    intercept: float
    gap: float  # (P − D)/P
    steps: int
    stopped: str
    solver: str
    trace: list[Round]
    w: Array | None = None  # (d,) for a linear kernel
