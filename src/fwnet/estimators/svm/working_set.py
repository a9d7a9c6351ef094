"""The working vertices of a corrective solve: which come in, and the minimum over their hull.

Only the rows of vertices whose weight changed are evaluated against all points, in one block; the
next gradient is then one matrix-vector product. When nearly every point would come in, the hull is
the simplex itself and the kernel matrix is made at once. Where it has no room and rows are cheap to
evaluate, blocks of points take turns instead, each with a few steps; see `block_turns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import numpy as np

from fwnet.estimators.svm.block_turns import NEGLIGIBLE, BlockTurns
from fwnet.estimators.svm.gaps import NOTHING, dual_gap, seconds_in_double, vertices
from fwnet.estimators.svm.gram_matrix import FeatureGramMatrix, GramMatrix, StoredGramMatrix
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.margin_problem import DualGap, MarginProblem, record
from fwnet.estimators.svm.pairwise import (
    EXHAUSTED,
    FLAT,
    HUGE,
    STUCK,
    pairwise_steps,
    reflect,
    survey,
)
from fwnet.oracles import Linearization
from fwnet.trace import Recorder, Status

TINY = 384  # points for which the whole kernel matrix and an exact solve are the quickest
# Vertices of the first round over √n, and the fewest that a later round adds. With many features a
# first block costs much, and so does every round.
_NARROW_ROUNDS, _WIDE_ROUNDS, _LEAN_ROUNDS = (7.0, 128), (5.0, 256), (5.0, 512)
_DROPPING = (
    20  # rounds in which vertices without weight are dropped, where the features are at hand
)
_STEPS, _LEAN_STEPS = 5, 40  # pairwise steps a round, times the working vertices
_EXACT = 3000  # working vertices up to which slow pairwise steps are replaced by an exact solve
_PATIENCE = 8  # rounds without a tenth of progress in the gap that end a run
_UNTIMED = 5 * 10**7  # weights that pairwise steps see between two looks at the clock
_CROWD = 0.35  # share of support vectors in the first round from which all points are taken
_COARSE = 0.01  # a gap down to which the trace has a record for each digit
_TURN = 3  # steps for each point of a block
_RESERVE = 0.25  # the most of max_time that is kept for the gap in float64


@final
class WorkingSet:
    """The working points of one solve, their kernel matrix and its budgets.

    A round takes signed weights u (n,) and z (n,), see `MarginProblem`, and returns such.

    Arguments:
        problem: labels or targets, C and the order in which points are tried first.
        gram: the kernel matrix.
        limits: when to stop.
        mode: "pairwise" (the whole kernel matrix), "corrective" (working vertices) or "auto".
        certificate: returns the `DualGap` of u, given u and z, from kernel values in float64.
        soft: stop after the first round if errors make up more than this share of the objective:
            then many points will be support vectors.

    Attributes:
        found: the last `DualGap`.
        certified: whether any `DualGap` was a certificate.
        violations: of each point (n,), see `pairwise.survey`.
        steps: pairwise steps taken so far.
        recorder: of the rounds, each with the steps before it.
        whole: whether all vertices are working.
        halt: why the solve must stop here, or None. A round that the clock breaks off counts for
            nothing.
    """

    found: DualGap
    lin: Linearization  # at the last iterate

    def __init__(
        self,
        problem: MarginProblem,
        gram: GramMatrix,
        limits: Limits,
        mode: str,
        certificate: Callable[[Array, Array], DualGap],
        soft: float = np.inf,
    ) -> None:
        self.problem, self.gram, self.limits = problem, gram, limits
        self.certificate = certificate
        self.certified, self.violations = False, np.empty(len(problem.y))
        self.soft, self.recorder = soft, Recorder(limits.observers)
        self.halt: Status | None = None
        n, dtype = len(problem.y), gram.kernel.dtype
        self.steps, self.rounds, self.goal, self.idle = 0, 0, 0.1, False
        self.gaps: list[float] = []
        self.curvature = np.empty(0)  # diagonal of Q on the working vertices
        room = limits.room(gram.kernel.megabytes) * 2**20
        self.most = max(256, int(math.sqrt(room / (2 * dtype.itemsize))))
        self.working, self.matrix = np.empty(0, np.int64), np.empty((0, 0), dtype)
        self.crowd = _CROWD if gram.transient or (gram.fits and mode == "auto") else np.inf
        chosen = mode == "pairwise" or (mode == "auto" and gram.complete)
        self.whole = gram.fits and (chosen or n <= TINY)
        self.tiny = self.whole and n <= TINY and dtype == np.float64
        self.turns: BlockTurns | None = None
        # Entries are products of features and no row is ever made, so vertices may come and go.
        self.lean = isinstance(gram, FeatureGramMatrix)
        self.first, self.least = _WIDE_ROUNDS if gram.kernel.wide else _NARROW_ROUNDS
        if self.lean:
            self.first, self.least = _LEAN_ROUNDS

    def start(self, u: Array | None) -> tuple[Array, Array | None]:
        """Return u and z; without a u, those of the minimum over the first points.

        z is None if it is not known: out of time, all the weight is on the first of them.
        """
        if u is not None:
            return u, None
        p, first = self.problem, self.problem.order[0]
        u, z = np.zeros(len(p.y)), np.zeros(len(p.y))
        if p.width == HUGE:
            u[first] = p.y[first]
        try:
            with self.gram.kernel.limited(self.limits.clock):
                self._begin(u)
                if p.width == HUGE:
                    row = self.matrix[first if self.whole else 0, : len(self.working)]
                    z[self.working] = u[first] * (row + p.bias)
                    z[first] += u[first] / p.box[first]
                found = self._corrected(u, z, 0.5 * float(u[first] * z[first]))
        except OutOfTime:
            return u, None
        self.rounds = 1
        return found

    def round(self, u: Array, z: Array) -> tuple[Array, Array] | None:
        """Return the next u and z; None if there is nothing to do, or no time."""
        self.halt = self._reason(u, z)
        if self.halt is not None:
            return None
        try:
            with self.gram.kernel.limited(self.limits.clock):
                if not self._admits(u):
                    return None
                steps, found = self.steps, self._corrected(u, z, self.found.value)
        except OutOfTime:
            self.halt = "max_seconds"
            return None
        record(self.recorder, steps, -self.found.dual, self.found.gap)
        self.rounds += 1
        return found

    def _reason(self, u: Array, z: Array) -> Status | None:
        """Why to stop before the next round."""
        if self.steps >= self.limits.max_steps:
            return "max_steps"
        limit = self.limits.clock.max_seconds
        if limit < np.inf:
            shares = u / self.problem.box
            wanted = seconds_in_double(self.gram.kernel, self.problem, self.found, u, z - shares)
            if self.limits.clock.left <= min(wanted, _RESERVE * limit):
                return "max_seconds"
        if self.certified and self.gram.kernel.dtype == np.float32:
            return "stalled"  # float32 is too coarse for this tol
        if self.rounds == 1 and self.soft < np.inf:
            errors = float(u @ (u / self.problem.box))
            # A ρ below the errors is rounding.
            if errors > self.soft * max(2.0 * self.found.value, errors):
                return "stopped"
        return None

    def _admits(self, u: Array) -> bool:
        """Admit the vertices of this round; False where nothing is left to do."""
        if self.rounds:
            return self._widen(u, self.found.gap)
        self._begin(u)
        return True

    def _begin(self, u: Array) -> None:
        """Take the first points."""
        if self.whole:
            self._take_all()
            self.goal = 0.5 * self.limits.tol if len(u) <= TINY else 0.1
            return
        support, order = np.flatnonzero(u), self.problem.order
        size = min(int(self.first * math.sqrt(len(u))), self.most // 2)
        first = order[:size]
        if len(support) > 1:  # else it is the first of the order
            first = np.union1d(support[: self.most // 2], first)
        self._admit(first)

    def _widen(self, u: Array, gap: float) -> bool:
        """Admit the points outside that violate their optimality condition most."""
        if self.turns is not None:
            return self._turn(self.turns.next(self.violations, gap))
        tol, outside = self.limits.tol, self.violations
        if self.lean and gap > _COARSE and self.rounds < _DROPPING:
            self._trim(u, int(np.count_nonzero(u[self.working])))
        outside[self.working] = 0.0
        wanting = int(np.count_nonzero(outside > NEGLIGIBLE))
        # Where no vertex comes in, the first rounds are records of the trace.
        share = 0.1 if self.whole and gap > _COARSE else 0.0
        self.goal = max(0.5 * tol, share * gap)
        self.gaps.append(gap)
        if wanting == 0:
            far = self.gaps[-_PATIENCE:]
            stalled = len(far) == _PATIENCE and far[-1] > 0.9 * far[0]
            return not (self.idle or stalled)
        extra = min(wanting, max(self.least, len(self.working) // 2), self.most // 2)
        if len(self.working) + extra > self.most:
            self._trim(u, self.most - extra)
        self._admit(np.argpartition(outside, -extra)[-extra:])
        return True

    def _turn(self, block: Array | None) -> bool:
        """Make a block the working vertices; False where there is none."""
        if block is None:
            return False
        self.goal = 0.5 * self.limits.tol
        self.working, self.curvature = self.working[:0], self.curvature[:0]
        self._admit(block)
        return True

    def _corrected(self, u: Array, z: Array, value: float) -> tuple[Array, Array]:
        """Return u and z at the minimum over the hull of the working vertices."""
        w, p = self.working, self.problem
        signs, gradient = vertices(p, u, z)
        alpha = signs * u
        y, found, slopes = signs[w], alpha[w], gradient[w]
        total = 0.0 if len(w) == len(u) else float(alpha.sum())
        covered = total - float(found.sum()) <= 1e-12 * total
        outside = NOTHING if covered else self._outside(alpha, gradient, value)
        state = np.array([*outside, value, 0.0])
        status = self._pairwise(y, p.box[w], found, slopes, state)
        slow = status == EXHAUSTED and self.steps < self.limits.max_steps and len(w) <= _EXACT
        slow = slow and self.turns is None
        new = u.copy()
        new[w] = y * found
        if self.whole and covered:
            z = y * (slopes - p.epsilon) + p.centre
        else:
            z = self._product(u, new, z)
        if covered and (slow or self.tiny):
            return self._exact(new, z)
        return new, z

    def _product(self, u: Array, new: Array, z: Array) -> Array:
        """Return z at the new weights, from the one at u after the first round."""
        if isinstance(self.gram, StoredGramMatrix):
            self.gram.keep = self.working
        if self.rounds:
            return z + self.gram.ridged(new - u, self.problem.bias, self.problem.box)
        self._guess_crowd(new)
        return self.gram.ridged(new, self.problem.bias, self.problem.box)

    def _outside(self, alpha: Array, gradient: Array, value: float) -> Array:
        """Return what the points outside the working set add to the sums of `pairwise.survey`."""
        p, rest = self.problem, np.ones(len(alpha), bool)
        rest[self.working] = False
        alpha, gradient, scratch = alpha[rest], gradient[rest], np.empty(len(alpha))
        sums = survey(p.box[rest], alpha, gradient, value, p.width, NOTHING, scratch)[2:]
        return np.array(sums)

    def _pairwise(self, y: Array, box: Array, alpha: Array, gradient: Array, state: Array) -> int:
        """Take compiled pairwise steps in place, in pieces between looks at the clock."""
        size, p, scratch = len(alpha), self.problem, np.empty(len(alpha))
        most = (_LEAN_STEPS if self.lean else _STEPS) * size + 1000
        most = most if self.turns is None else _TURN * size
        left = min(self.limits.max_steps - self.steps, most)
        steps, status = 0, EXHAUSTED
        while status == EXHAUSTED and steps < left and not (steps and self.limits.clock.is_over):
            some = min(left - steps, max(1, _UNTIMED // size))
            flat = FLAT * (2.0 * state[3] if p.width == HUGE else p.size)
            every = max(16, size // 100)
            taken, status = pairwise_steps(
                self.matrix, y, box, alpha, gradient, self.curvature, state, scratch,
                self.goal, some, every, p.bias, p.width, flat,
            )  # fmt: skip
            steps += int(taken)
        self.steps += steps
        self.idle = (status == STUCK or steps == 0) and self.goal <= 0.5 * self.limits.tol
        return int(status)

    def _guess_crowd(self, u: Array) -> None:
        """Take all points, or let blocks take turns, if the first round says that most come in."""
        many = np.count_nonzero(u) > self.crowd * len(self.working)
        if many and self.gram.transient:
            self.turns = BlockTurns(self.problem.order[len(self.working) :], len(u))
            return
        seconds = self.gram.kernel.seconds_for(len(u) ** 2 / 2)
        if many and seconds < 0.3 * self.limits.clock.left:
            self.whole = True
            self._take_all()

    def _exact(self, u: Array, z: Array) -> tuple[Array, Array]:
        """Return the exact weights on the hull, where they are an improvement."""
        p, w = self.problem, self.working
        before = dual_gap(p, u, z)
        try:
            start = p.scale(before) * u[w]
            best = exact_weights(self.matrix, p.part(w), p.bias, start, self.limits.clock)
        except (np.linalg.LinAlgError, OutOfTime):
            return u, z
        found = np.zeros(len(u))
        found[w] = best
        found = p.weights(p.feasible(found))
        there = self.gram.ridged(found, p.bias, p.box)
        after = dual_gap(p, found, there)
        if after.value < before.value or after.gap < before.gap:
            return found, there
        return u, z

    def _take_all(self) -> None:
        assert isinstance(self.gram, StoredGramMatrix)
        self.matrix = self.gram.square()
        self.working = np.arange(len(self.problem.y))
        self.curvature = self._diagonal(self.working)

    def _diagonal(self, index: Array) -> Array:
        p = self.problem
        return np.asarray(self.gram.kernel.diagonal(index) + p.bias + 1.0 / p.box[index])

    def _admit(self, new: Array) -> None:
        old, m = len(self.working), len(self.working) + len(new)
        self.working = np.concatenate([self.working, new])
        self.curvature = np.concatenate([self.curvature, self._diagonal(new)])
        if not old and m > len(self.matrix):
            self.matrix = self.gram.entries(new, new)
            return
        if m > len(self.matrix):  # grow by doubling; the loop uses the first m of each row
            wide = np.empty((max(m, 2 * old),) * 2, self.matrix.dtype)
            wide[:old, :old] = self.matrix[:old, :old]
            self.matrix = wide
        self.matrix[old:m, :m] = self.gram.entries(new, self.working)
        reflect(self.matrix, old, m)

    def _trim(self, u: Array, size: int) -> None:
        """Keep the `size` working vertices with the largest weights."""
        keep = np.sort(np.argsort(-np.abs(u[self.working]), kind="stable")[: max(size, 1)])
        self.working, self.curvature = self.working[keep], self.curvature[keep]
        self.matrix[: len(keep), : len(keep)] = self.matrix[keep[:, None], keep]
