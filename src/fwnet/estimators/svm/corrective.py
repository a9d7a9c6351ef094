"""Corrective Frank-Wolfe for the SVM dual: many vertices a round, exact weights on their hull.

    min ½ αᵀQα over the simplex,   Q = yyᵀ∘(k + bias) + diag(1/C)

A round asks the oracle for the top vertices instead of one (the points that violate the margin
most), and lets the compiled pairwise loop minimise over the hull of all vertices so far. Only the
rows of vertices that got weight are evaluated against all points, in one block; the whole gradient
is then one matrix-vector product. When nearly
every point would come in, the hull is the simplex itself and the kernel matrix is made at once.
"""

from __future__ import annotations

from typing import final

import numpy as np

from fwnet.estimators.svm.columns import Columns, LinearColumns
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.pairwise import EXHAUSTED, STUCK, pairwise_steps, reflect
from fwnet.estimators.svm.records import BinaryProblem, DualPoint, record, relative_gap
from fwnet.trace import Clock, Status, Trace

# Vertices of the first round, times √n, and the least that a later round adds: with many features
# a first block is dear, and so is a round.
_NARROW_ROUNDS, _WIDE_ROUNDS = (7.0, 128), (5.0, 256)
_SMALL = 384  # points for which the whole kernel matrix is the quickest
_EXACT = 3000  # working vertices up to which slow pairwise steps are replaced by an exact solve
_MANY = 1000  # working vertices from which a round is not solved to the end
_PATIENCE = 8  # rounds without a tenth of progress in the gap that end a run
_DOUBLE = 2.5  # the time of kernel values in float64, over that in float32
_UNTIMED = 5 * 10**7  # weights that pairwise steps see between two looks at the clock
_CROWD = 0.35  # share of support vectors in the first round from which all points are taken


def corrective(
    problem: BinaryProblem,
    columns: Columns | LinearColumns,
    limits: Limits,
    mode: str = "auto",
    alpha0: Array | None = None,
    soft: float = np.inf,
) -> DualPoint:
    """Solve one binary problem with kernel rows from `columns`, from the weights `alpha0`.

    `mode` is "pairwise" (the whole kernel matrix), "corrective" (working vertices) or "auto". The
    run is "stopped" after the first round if errors make up more than a share `soft` of the
    objective: then many points will be support vectors. A round that the clock breaks off counts
    for nothing, and before the first one is over, the weight is on a single point.
    """
    run = _CorrectiveRun(problem, columns, limits, mode)
    run.soft = soft
    while run.status is None:
        run.round(alpha0)
    return run.point()


@final
class _CorrectiveRun:
    status: Status | None

    def __init__(
        self,
        problem: BinaryProblem,
        columns: Columns | LinearColumns,
        limits: Limits,
        mode: str,
    ) -> None:
        self.problem, self.columns, self.limits = problem, columns, limits
        self.clock, self.steps, self.status = Clock(), 0, None
        self.trace = Trace()
        n, dtype = len(problem.y), columns.kernel.dtype
        self.curvature = np.empty(0)  # diagonal of Q on the working vertices
        self.most = max(256, int(np.sqrt(limits.megabytes * 2**20 / (2 * dtype.itemsize))))
        self.working, self.kernel = np.empty(0, np.int64), np.empty((0, 0), dtype)
        self.crowd = _CROWD if columns.fits and mode == "auto" else np.inf
        chosen = mode == "pairwise" or (mode == "auto" and columns.complete)
        self.whole = columns.fits and (chosen or n <= _SMALL)
        self.alpha, self.scores = np.zeros(n), np.zeros(n)
        self.violations = np.empty(n)
        self.rho, self.gap, self.goal, self.soft = 1.0, 1.0, 0.1, np.inf
        self.first, self.least = _WIDE_ROUNDS if columns.kernel.wide else _NARROW_ROUNDS
        columns.kernel.clock = limits.clock

    def round(self, alpha0: Array | None) -> None:
        """Correct the weights, take the gap, admit vertices: all of it, or nothing."""
        alpha, scores = self.alpha.copy(), self.scores.copy()
        try:
            if not self.trace:
                self._begin(alpha0)
            self.correct()
            self.look()
        except OutOfTime:
            self.status = "max_seconds"
            self.columns.kernel.clock = Clock()
            if self.trace:
                self.alpha, self.scores = alpha, scores
                self._survey()
            else:
                self.alpha[:] = 0.0
                self.alpha[self.problem.order[0]] = 1.0
                self._refresh()
                self._survey()
                self._record()
        if self.status is None:
            try:
                self._widen()
            except OutOfTime:
                self.status = "max_seconds"

    def _begin(self, alpha0: Array | None) -> None:
        """Take the first vertices, and the weights to start from."""
        problem, n = self.problem, len(self.problem.y)
        if alpha0 is None:
            first = problem.order[:1]
            self.alpha[first] = 1.0
        else:
            self.alpha[:] = alpha0
            first = np.flatnonzero(alpha0)
        if self.whole:
            self._take_all()
        else:
            size = min(int(self.first * np.sqrt(n)), self.most // 2)
            self._admit(np.union1d(first[: self.most // 2], problem.order[:size]))
        if self.whole or alpha0 is not None:
            self._move_scores(first, self.alpha[first])
        else:  # the others follow when the first weights are known
            row = self.kernel[int(np.flatnonzero(self.working == first[0])[0])]
            self.scores[self.working] = problem.y[first] * (row[: len(self.working)] + problem.bias)
        self._survey()

    def correct(self) -> None:
        """Minimise over the hull of the working vertices; move the scores of all points."""
        p, w = self.problem, self.working
        alpha, y, box = self.alpha[w], p.y[w], p.box[w]
        covered = len(w) == len(p.y) or float(self.alpha.sum() - alpha.sum()) < 1e-12
        state = np.array([self.rho, *((0.0, 0.0) if covered else self._outside()), 0.0])
        gradient = y * self.scores[w] + alpha / box
        before = alpha.copy()
        status = self._pairwise(y, box, alpha, gradient, state)
        slow = status == EXHAUSTED and self.steps < self.limits.max_steps
        self.alpha[w], self.rho = alpha, float(state[0])
        if not self.trace and not self.whole:
            self._first_scores()
        elif self.whole and covered:
            self.scores = y * (gradient - alpha / box)
        else:
            changed = np.flatnonzero(alpha != before)
            self._move_scores(w[changed], alpha[changed] - before[changed])
        if slow and covered and len(w) <= _EXACT:
            self._solve_exactly()

    def _outside(self) -> tuple[float, float]:
        """Return what the points outside the working set add to αᵀα/C and to the primal errors."""
        p, rest = self.problem, np.ones(len(self.alpha), bool)
        rest[self.working] = False
        slack = np.maximum(0.0, 1.0 - p.y[rest] * self.scores[rest] / self.rho)
        errors = np.sum(p.box[rest] * slack * slack)
        return float(np.sum(self.alpha[rest] ** 2 / p.box[rest])), float(errors)

    def _pairwise(self, y: Array, box: Array, alpha: Array, gradient: Array, state: Array) -> int:
        """Take compiled pairwise steps in place, in pieces between looks at the clock."""
        size = len(alpha)
        left = min(self.limits.max_steps - self.steps, 5 * size + 1000)
        steps, status = 0, EXHAUSTED
        while status == EXHAUSTED and steps < left and not (steps and self.limits.clock.is_over):
            some = min(left - steps, max(1, _UNTIMED // size))
            limits = np.array([self.goal, some, max(16, size // 100), self.problem.bias])
            taken, status = pairwise_steps(
                self.kernel, y, box, alpha, gradient, self.curvature, state, limits
            )
            steps += int(taken)
        self.steps += steps
        self.idle = (status == STUCK or steps == 0) and self.goal <= 0.5 * self.limits.tol
        return int(status)

    def _first_scores(self) -> None:
        """Guess from the first round how many will come in; take all points, or all the scores."""
        support = np.flatnonzero(self.alpha)
        n = len(self.alpha)
        many = len(support) > self.crowd * len(self.working)
        if many and self.columns.kernel.seconds_for(n * n / 2) < 0.3 * self.limits.clock.left:
            self._take_all()
        errors = float(np.sum(self.alpha**2 / self.problem.box))
        if errors > self.soft * max(self.rho, errors):  # a ρ below the errors is rounding
            self.status = "stopped"
        self._refresh()

    def _solve_exactly(self) -> None:
        """Replace the weights by the exact ones on the hull, where that is an improvement."""
        p, w, before, scores = self.problem, self.working, self.alpha.copy(), self.scores.copy()
        rho, gap = relative_gap(p, self.alpha, self.scores)
        try:
            start = p.y[w] * self.alpha[w] / rho
            u = p.y[w] * exact_weights(self.kernel, p.part(w), p.bias, start, self.limits.clock)
        except (np.linalg.LinAlgError, OutOfTime):
            return
        u = np.maximum(u, 0.0)
        self.alpha[w] = u / u.sum()
        changed = np.flatnonzero(self.alpha != before)
        self._move_scores(changed, self.alpha[changed] - before[changed])
        after = relative_gap(p, self.alpha, self.scores)
        if not after[0] < rho and not after[1] < gap:  # ρ is twice the dual objective
            self.alpha, self.scores = before, scores

    def look(self) -> None:
        """Take the duality gap over all points, and stop if that is near enough."""
        self._survey()
        if self.gap <= self.limits.tol and self.columns.kernel.dtype == np.float64:
            self._refresh()
            self._survey()
        self._record()
        status = self.limits.status(self.gap, self.steps, reserve=self._certificate_seconds())
        if self.status is None or status != "max_seconds":
            self.status = status or self.status

    def _record(self) -> None:
        record(self.trace, self.steps, -0.5 / self.rho, self.gap, self.clock)

    def _certificate_seconds(self) -> float:
        """How long the gap will take in float64, where the kernel values here are float32."""
        if np.isinf(self.limits.clock.max_seconds) or self.columns.kernel.dtype == np.float64:
            return 0.0
        support = int(np.count_nonzero(self.alpha))
        near = int(np.count_nonzero(self.problem.y * self.scores < 1.001 * self.rho))
        return _DOUBLE * self.columns.kernel.seconds_for(support * (0.5 * support + near))

    def _survey(self) -> None:
        self.rho, self.gap = relative_gap(self.problem, self.alpha, self.scores, self.violations)

    def _widen(self) -> None:
        """Admit the points outside that violate their optimality condition most."""
        tol, outside = self.limits.tol, self.violations
        outside[self.working] = 0.0
        wanting = int(np.count_nonzero(outside > 1e-10))
        # Steps on few vertices cost less than another round; on many, the round decides.
        self.goal = max(0.5 * tol, 0.01 * self.gap if len(self.working) > _MANY else 0.0)
        if wanting == 0:
            far = [r.gap for r in self.trace[-_PATIENCE:]]
            stalled = len(far) == _PATIENCE and far[-1] > 0.9 * far[0]
            if self.idle or stalled:
                self.status = "stalled"
        else:
            extra = min(wanting, max(self.least, len(self.working) // 2), self.most // 2)
            if len(self.working) + extra > self.most:
                self._trim(self.most - extra)
            self._admit(np.argpartition(outside, -extra)[-extra:])

    def point(self) -> DualPoint:
        """What was reached."""
        assert self.status is not None
        return DualPoint(
            self.alpha,
            self.scores,
            self.rho,
            self.gap,
            self.steps,
            self.status,
            self.trace,
            "pairwise" if self.whole else "corrective",
        )

    def _refresh(self) -> None:
        """Compute the scores anew, without the rounding errors of the steps."""
        support = np.flatnonzero(self.alpha)
        self.scores = self._moved(support, self.alpha[support])

    def _take_all(self) -> None:
        self.whole, self.kernel = True, self.columns.square()
        self.working = np.arange(len(self.problem.y))
        self.curvature = self._diagonal(self.working)

    def _diagonal(self, index: Array) -> Array:
        return (
            self.columns.kernel.diagonal(index) + self.problem.bias + 1.0 / self.problem.box[index]
        )

    def _admit(self, new: Array) -> None:
        old, m = len(self.working), len(self.working) + len(new)
        self.working = np.concatenate([self.working, new])
        self.curvature = np.concatenate([self.curvature, self._diagonal(new)])
        if m > len(self.kernel):  # grow by doubling; the loop uses the first m of each row
            wide = np.empty((max(m, 2 * old),) * 2, self.kernel.dtype)
            wide[:old, :old] = self.kernel[:old, :old]
            self.kernel = wide
        self.kernel[old:m, :m] = self.columns.rows(new, self.working)
        reflect(self.kernel, old, m)

    def _trim(self, size: int) -> None:
        """Keep the `size` working vertices with the largest weights."""
        keep = np.sort(np.argsort(-self.alpha[self.working], kind="stable")[: max(size, 1)])
        self.working, self.curvature = self.working[keep], self.curvature[keep]
        self.kernel[: len(keep), : len(keep)] = self.kernel[keep[:, None], keep]

    def _move_scores(self, index: Array, change: Array) -> None:
        self.scores = self.scores + self._moved(index, change)

    def _moved(self, index: Array, change: Array) -> Array:
        """By how much a change of some weights moves the scores of all points."""
        self.columns.fetch(index, self.working)
        weights = change * self.problem.y[index]
        return self.columns.combine(index, weights) + self.problem.bias * weights.sum()
