"""What the SVM solvers pass on: a problem, and its solution with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar, final

import numpy as np

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.pairwise import HUGE, ONE_SIDED
from fwnet.trace import Recorder, Status, StepRecord, Trace

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
class MarginProblem:
    """A machine whose scores should lie in intervals: min ½|w|² + ½b² + ½ Σ Cᵢeᵢ².

        labels y = ±1   [1, ∞) or (−∞, −1]: the squared hinge
        targets y       [y − ε, y + ε]: the squared ε-insensitive loss

    The excess is eᵢ = tᵢ − f(xᵢ) with the nearest point tᵢ of the interval. Inside it is 0; outside
    tᵢ is an end, so that a piece of the objective is a least squares problem. At the optimum Cᵢeᵢ
    is the coefficient of point i.

    The dual is a quadratic of signed weights u:

        value = ½ uᵀz − centreᵀu + ε|u|₁,   z = (K + bias + diag(1/C))u

    Frank-Wolfe sees vertices, each a point with a sign, and weights |u| on them; 0 is a vertex too.
    A point has the sign of its label, or both signs. Here the weights are the coefficients, and the
    value is −D; `BinaryProblem` differs.
    """

    y: Array  # (n,) float64
    box: Array  # (n,) float64, the C of every point
    order: Array  # (n,) a random permutation: the order of first trial
    bias: float = 1.0  # what is added to the kernel: 1, or 0 for no bias
    epsilon: float = 0.0
    labels: bool = False  # whether y are labels

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The ends (n,) of the intervals."""
        if self.labels:
            far = np.inf * self.y
            return np.minimum(self.y, far), np.maximum(self.y, far)
        return self.y - self.epsilon, self.y + self.epsilon

    @property
    def width(self) -> float:
        """The distance of the two ends, as `pairwise` encodes it."""
        return ONE_SIDED if self.labels else 2.0 * self.epsilon

    @property
    def centre(self) -> Array | float:
        """The linear term of the dual."""
        return self.y

    @property
    def size(self) -> float:
        """How large weights and gradients are: the unit of their rounding errors."""
        return float(np.abs(self.y).max(initial=0.0))

    @property
    def radius(self) -> float:
        """A bound of |u|₁: Σ C|e| <= (ΣC · Σ Ce²)^½, and Σ Ce² <= 2P is at most that of f = 0."""
        excess = self.excess(np.zeros(len(self.y)))
        return math.sqrt(self.box.sum() * float(self.box @ (excess * excess)))

    def excess(self, scores: Array) -> Array:
        """Return e (n,) for the scores f(xᵢ) (n,)."""
        low, high = self.ends
        return np.asarray(np.minimum(np.maximum(scores, low), high) - scores)

    def room(self, scores: Array) -> Array:
        """Return how far each score is inside its interval (n,), negative if it is outside."""
        low, high = self.ends
        return np.asarray(np.minimum(scores - low, high - scores))

    def aims(self, signs: Array) -> Array:
        """Return the end tᵢ (n,) for each point whose excess has the sign given."""
        return np.asarray(self.y - self.epsilon * signs)

    def feasible(self, coef: Array) -> Array:
        """Return coefficients (n,), 0 where their sign is none that an excess has."""
        return np.where(coef * self.y > 0, coef, 0.0) if self.labels else coef

    def sides(self, u: Array, rest: Array) -> Array:
        """Return the sign of each point's vertex (n,), where the gradient z − centre is `rest`.

        Of two vertices, that with weight or, without, that with the smaller gradient.
        """
        if self.labels:
            return self.y
        return np.where(u != 0, np.sign(u), np.where(rest > 0, -1.0, 1.0))

    def scale(self, found: DualGap) -> float:
        """Return what turns u into coefficients."""
        return 1.0

    def weights(self, coef: Array) -> Array:
        """Return signed weights u of coefficients."""
        return coef

    def intercept(self, coef: Array) -> float:
        """Return b."""
        return self.bias * float(coef.sum())

    def bound(self, found: DualGap) -> float:
        """Return a bound of the value above its minimum: P(P − D)/P, or |D|(P − D)/P if larger.

        P >= |D| but for rounding, which must not let a gap above tol pass for one below it.
        """
        return max(found.primal, abs(found.value)) * found.gap

    def part(self: _Problem, index: Array) -> _Problem:
        """Return the problem of some of the points."""
        return replace(self, y=self.y[index], box=self.box[index])


@final
@dataclass(frozen=True, eq=False)
class BinaryProblem(MarginProblem):
    """Labels, with the dual over the simplex of |u|: the value is ½ρ.

    The coefficients u/ρ have D = 1/(2ρ). As D* <= P, the value is above its minimum by at most its
    share (P − D)/P.
    """

    labels: bool = True
    centre, width, size = 0.0, HUGE, 1.0

    def scale(self, found: DualGap) -> float:
        """Return 1/ρ."""
        return 0.5 / found.value

    def weights(self, coef: Array) -> Array:
        """Return the coefficients over the sum of their sizes."""
        return np.asarray(coef / np.abs(coef).sum())

    def bound(self, found: DualGap) -> float:
        """Return ½ρ(P − D)/P."""
        return found.value * found.gap

    def unscaled(self) -> MarginProblem:
        """Return the same machine with coefficients for weights.

        On the simplex, some points get weight only if others lose it. There a block of points finds
        its coefficients while those of all others stay as they are.
        """
        return MarginProblem(self.y, self.box, self.order, self.bias, labels=True)


@final
@dataclass(frozen=True, eq=False)
class Expansion:
    """A solved problem: f(x) = Σ uᵢ k(xᵢ, x) + intercept, with its certificate.

    Arguments:
        coef: u = Ce `(n,)`; for labels, yᵢβᵢ.
        intercept: b.
        solver: which one ran.
        status: why it stopped.
        trace: a record each round, with −D and (P − D)/P; the last one is that of this solution.
        w: `(d,)` for a linear kernel.
    """

    coef: Array
    intercept: float
    solver: str
    status: Status
    trace: Trace
    w: Array | None = None

    @property
    def steps(self) -> int:
        """How many steps the solver took."""
        return self.trace[-1].t

    @property
    def gap(self) -> float:
        """(P − D)/P."""
        return float(self.trace[-1].gap)

    def certified(self, gap: float, tol: float) -> Expansion:
        """Return the same with another gap; above tol, it was not the tolerance that stopped."""
        self.trace.replace_last(self.trace[-1]._replace(gap=gap))
        stalled = self.status == "converged" and not gap <= tol
        return replace(self, status="stalled") if stalled else self

    def after(self, earlier: Expansion) -> Expansion:
        """Return the end of a solve that went on from an earlier one."""
        trace, last = Trace(), earlier.trace[-1]
        for r in earlier.trace:
            trace.append(r)
        for r in self.trace:
            trace.append(r._replace(t=r.t + last.t, seconds=r.seconds + last.seconds))
        return replace(self, trace=trace)


def record(recorder: Recorder, t: int, value: float, gap: float) -> None:
    """Keep and show what a round reached; a round takes many steps, so it has no step size."""
    recorder(StepRecord(t, value, gap, math.nan, recorder.clock.seconds))
