"""What the SVM solvers pass on: a problem, and its solution with a certificate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar, final

import numpy as np
import torch

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.pairwise import HUGE, ONE_SIDED
from fwnet.trace import MESSAGES, Clock, Result, Status, StepRecord, Trace

_Problem = TypeVar("_Problem", bound="MarginProblem")  # typing.Self came with Python 3.11


class DualGap(NamedTuple):
    """The dual's value, which is minimised, P, and (P − D)/P."""

    value: float
    primal: float
    gap: float

    @property
    def dual(self) -> float:
        """D."""
        return self.primal * (1.0 - self.gap)


@dataclass(frozen=True, eq=False)
class MarginProblem(ABC):
    """A machine with a squared loss beyond a margin: min ½|w|² + ½b² + ½ Σ Cᵢeᵢ².

    The excess eᵢ is 0 or tᵢ − f(xᵢ) with a target tᵢ, so that a piece of the objective is a least
    squares problem. At the optimum Cᵢeᵢ is the coefficient of the point i.

    The dual is a quadratic of signed weights u, which are the coefficients or, on a simplex, a
    multiple of them:

        value = ½ uᵀz − centreᵀu + ε|u|₁,   z = (K + bias + diag(1/C))u

    Frank-Wolfe sees vertices, each a point with a sign, and weights |u| on them.
    """

    y: Array  # (n,) float64
    box: Array  # (n,) float64, the C of every point
    order: Array  # (n,) a random permutation: the order of first trial
    bias: float = 1.0  # what is added to the kernel: 1, or 0 for no bias
    epsilon: float = 0.0

    @abstractmethod
    def excess(self, scores: Array) -> Array:
        """Return e (n,) for the scores f(xᵢ) (n,)."""

    @abstractmethod
    def aims(self, signs: Array) -> Array:
        """Return the target tᵢ (n,) of each point whose excess has the sign given."""

    @abstractmethod
    def feasible(self, coef: Array) -> Array:
        """Return coefficients (n,), 0 where their sign is none that an excess has."""

    @property
    @abstractmethod
    def width(self) -> float:
        """How far the two margins of a point are apart; HUGE on a simplex."""

    @property
    @abstractmethod
    def size(self) -> float:
        """How large weights and gradients are: the unit of their rounding errors."""

    @abstractmethod
    def sides(self, u: Array, rest: Array) -> Array:
        """Return the sign of each point's vertex (n,), where the gradient z − centre is `rest`."""

    @abstractmethod
    def room(self, scores: Array) -> Array:
        """Return how far each point is within its margins (n,), negative if it has a loss."""

    @property
    def centre(self) -> Array | float:
        """The linear term of the dual."""
        return self.y

    @property
    def radius(self) -> float:
        """A bound of |u|₁: Σ C|e| <= (ΣC · Σ Ce²)^½, and Σ Ce² <= 2P is at most that of f = 0."""
        excess = self.excess(np.zeros(len(self.y)))
        return math.sqrt(self.box.sum() * float(self.box @ (excess * excess)))

    def scale(self, found: DualGap) -> float:
        """Return what turns u into coefficients."""
        return 1.0

    def bound(self, found: DualGap) -> float:
        """Return a bound of the value above its minimum: P(P − D)/P, or |D|(P − D)/P if larger.

        P >= |D| but for rounding, which must not let a gap above tol pass for one below it.
        """
        return max(found.primal, abs(found.value)) * found.gap

    def weights(self, coef: Array) -> Array:
        """Return signed weights u of coefficients."""
        return coef

    def part(self: _Problem, index: Array) -> _Problem:
        """Return the problem of some of the points."""
        return replace(self, y=self.y[index], box=self.box[index])


class HingeProblem(MarginProblem):
    """Squared hinge: labels y = ±1, e = y max(0, 1 − y f); f has a bias √bias·b."""

    size = 1.0

    def excess(self, scores: Array) -> Array:
        """Return y max(0, 1 − y f)."""
        return np.asarray(self.y * np.maximum(0.0, 1.0 - self.y * scores))

    def aims(self, signs: Array) -> Array:
        """Return y."""
        return self.y

    def feasible(self, coef: Array) -> Array:
        """Return the coefficients with the sign of their label."""
        return np.where(coef * self.y > 0, coef, 0.0)

    def sides(self, u: Array, rest: Array) -> Array:
        """Return y."""
        return self.y

    def room(self, scores: Array) -> Array:
        """Return y f − 1."""
        return np.asarray(self.y * scores - 1.0)


@final
@dataclass(frozen=True, eq=False)
class BinaryProblem(HingeProblem):
    """The squared hinge, its dual over the simplex of |u|, with u = y|u|: the value is ½ρ.

    The coefficients u/ρ have D = 1/(2ρ). As D* <= P, the value is above its minimum by at most its
    share (P − D)/P.
    """

    centre = 0.0
    width = HUGE

    def scale(self, found: DualGap) -> float:
        """Return 1/ρ."""
        return 0.5 / found.value

    def bound(self, found: DualGap) -> float:
        """Return ½ρ(P − D)/P."""
        return found.value * found.gap

    def weights(self, coef: Array) -> Array:
        """Return the coefficients over the sum of their sizes."""
        return np.asarray(coef / np.abs(coef).sum())

    def unscaled(self) -> ConeProblem:
        """Return the same machine with coefficients for weights."""
        return ConeProblem(self.y, self.box, self.order, self.bias)


@final
@dataclass(frozen=True, eq=False)
class ConeProblem(HingeProblem):
    """The squared hinge, its dual over the cone yu >= 0: u are the coefficients, the value is −D.

    On the simplex, some points get weight only if others lose it. Here a block of points finds its
    coefficients while those of all others stay as they are.
    """

    width = ONE_SIDED


@final
@dataclass(frozen=True, eq=False)
class TubeProblem(MarginProblem):
    """Squared ε-insensitive loss: targets y, e = y − f, less ε, where |y − f| > ε.

    The value of the dual is −D, and u are the coefficients. Every point has a vertex for each sign,
    and 0 is a vertex too.
    """

    @property
    def width(self) -> float:
        """2ε."""
        return 2.0 * self.epsilon

    @property
    def size(self) -> float:
        """The largest target."""
        return float(np.abs(self.y).max(initial=0.0))

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

    def sides(self, u: Array, rest: Array) -> Array:
        """Return the sign of u or, where u = 0, of the vertex with the smaller gradient."""
        return np.where(u != 0, np.sign(u), np.where(rest > 0, -1.0, 1.0))

    def room(self, scores: Array) -> Array:
        """Return ε − |y − f|."""
        return np.asarray(self.epsilon - np.abs(self.y - scores))


@final
@dataclass(frozen=True, eq=False)
class Expansion:
    """A solved problem: f(x) = Σ uᵢ k(xᵢ, x) + intercept, with its certificate.

    Arguments:
        result: x = u, value −D, gap (P − D)/P.
        intercept: b.
        solver: which one ran.
        w: `(d,)` for a linear kernel.
    """

    result: Result
    intercept: float
    solver: str
    w: Array | None = None

    @property
    def coef(self) -> Array:
        """u = Ce `(n,)`; for labels, yᵢβᵢ."""
        return np.asarray(self.result.x.numpy())

    @property
    def gap(self) -> float:
        """(P − D)/P."""
        return float(self.result.gap)

    @property
    def trace(self) -> Trace:
        """A record each round."""
        return self.result.trace

    @property
    def status(self) -> Status:
        """Why the solver stopped."""
        assert isinstance(self.result.status, str)  # one problem, no batch
        return self.result.status

    @property
    def steps(self) -> int:
        """How many steps it took."""
        assert isinstance(self.result.steps, int)
        return self.result.steps

    def after(self, earlier: Expansion) -> Expansion:
        """Return the end of a solve that went on from an earlier one."""
        trace, last = Trace(), earlier.trace[-1]
        for r in earlier.trace:
            trace.append(r)
        for r in self.trace:
            trace.append(r._replace(t=r.t + last.t, seconds=r.seconds + last.seconds))
        steps = earlier.steps + self.steps
        return replace(self, result=replace(self.result, steps=steps, trace=trace))


def result_of(x: Array, status: Status, steps: int, trace: Trace) -> Result:
    """Return the result whose value and gap are those of the last record."""
    value, gap = torch.from_numpy(np.array(trace[-1][1:3], dtype=np.float64)).unbind()
    return Result(torch.from_numpy(x), value, gap, status, steps, trace, MESSAGES[status])


def record(trace: Trace, t: int, value: float, gap: float, clock: Clock) -> None:
    """Add what a round reached; a round takes many steps, so it has no step size."""
    trace.append(StepRecord(t, value, gap, math.nan, clock.seconds))
