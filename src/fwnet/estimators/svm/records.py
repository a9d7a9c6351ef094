"""What the SVM solvers pass on: a problem, a budget, the rounds, the weights, the certificate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.pairwise import survey
from fwnet.trace import Status

_Problem = TypeVar("_Problem", bound="Problem")  # typing.Self came with Python 3.11


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """A machine with a squared loss beyond a margin: min ½|w|² + ½b² + ½ Σ Cᵢeᵢ².

    The excess eᵢ is 0 or tᵢ − f(xᵢ) with a target tᵢ, so that a piece of the objective is a least
    squares problem. At the optimum Cᵢeᵢ is the coefficient of the point i.
    """

    y: Array  # (n,) float64
    box: Array  # (n,) float64, the C of every point
    order: Array  # (n,) a random permutation: the order of first trial

    @abstractmethod
    def excess(self, scores: Array) -> Array:
        """Return e (n,) for the scores f(xᵢ) (n,)."""

    @abstractmethod
    def aims(self, signs: Array) -> Array:
        """Return the target tᵢ (n,) of each point whose excess has the sign given."""

    @abstractmethod
    def feasible(self, coef: Array) -> Array:
        """Return coefficients (n,), 0 where their sign is none that an excess has."""

    def part(self: _Problem, index: Array) -> _Problem:
        """Return the problem of some of the points."""
        return replace(self, y=self.y[index], box=self.box[index])


@final
@dataclass(frozen=True, eq=False)
class BinaryProblem(Problem):
    """Squared hinge: labels y = ±1, e = y max(0, 1 − y f); f has a bias √bias·b."""

    bias: float = 1.0  # what is added to the kernel: 1, or 0 for no bias

    def excess(self, scores: Array) -> Array:
        """Return y max(0, 1 − y f)."""
        return np.asarray(self.y * np.maximum(0.0, 1.0 - self.y * scores))

    def aims(self, signs: Array) -> Array:
        """Return y."""
        return self.y

    def feasible(self, coef: Array) -> Array:
        """Return the coefficients with the sign of their label."""
        return np.where(coef * self.y > 0, coef, 0.0)


@final
@dataclass(frozen=True, eq=False)
class TubeProblem(Problem):
    """Squared ε-insensitive loss: targets y, e = y − f, less ε, where |y − f| > ε."""

    epsilon: float = 0.0

    def excess(self, scores: Array) -> Array:
        """Return sign(y − f) max(0, |y − f| − ε)."""
        rest = self.y - scores
        return np.asarray(rest - np.clip(rest, -self.epsilon, self.epsilon))

    def aims(self, signs: Array) -> Array:
        """Return y − ε · sign."""
        return np.asarray(self.y - self.epsilon * signs)

    def feasible(self, coef: Array) -> Array:
        """Return the coefficients: either sign will do."""
        return coef


@final
@dataclass(frozen=True)
class Round:
    """What one round reached: steps so far, dual value, relative gap, support, seconds."""

    t: int
    value: float
    gap: float
    support: int
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class Weights:
    """Weights on the simplex with their image: scores = Σ αⱼyⱼ(k(·, xⱼ) + bias), ρ = αᵀQα."""

    alpha: Array  # (n,)
    scores: Array  # (n,)
    rho: float
    gap: float
    steps: int
    stopped: Status
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
    """A solved problem: f(x) = Σ coefᵢ k(xᵢ, x) + intercept, with its certificate."""

    coef: Array  # (n,) Cᵢeᵢ; for labels, yᵢβᵢ
    intercept: float
    gap: float  # (P − D)/P
    steps: int
    stopped: Status
    solver: str
    trace: list[Round]
    w: Array | None = None  # (d,) for a linear kernel
