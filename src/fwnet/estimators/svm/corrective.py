"""Corrective Frank-Wolfe for the SVM dual: many vertices a round, exact weights on their hull.

    min ½ αᵀQα over the simplex,   Q = yyᵀ∘(k + bias) + diag(1/C)

A round asks the oracle for the top vertices instead of one (the points that violate the margin
most), and lets the compiled pairwise loop minimise over the hull of all vertices so far. Only the
rows of vertices that got weight are evaluated against all points, in one block; the whole gradient
is then one matrix-vector product. When nearly
every point would come in, the hull is the simplex itself and the kernel matrix is made at once.
"""

from __future__ import annotations

import time
from typing import final

import numpy as np

from fwnet.estimators.svm.columns import Columns, LinearColumns
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.pairwise import EXHAUSTED, STUCK, pairwise_steps, reflect
from fwnet.estimators.svm.records import BinaryProblem, Budget, Round, Weights, relative_gap

# Vertices of the first round, times √n, and the least that a later round adds: with many features
# a first block is dear, and so is a round.
_NARROW_ROUNDS, _WIDE_ROUNDS = (7.0, 128), (5.0, 256)
_SMALL = 384  # points for which the whole kernel matrix is the quickest
_EXACT = 3000  # working vertices up to which slow pairwise steps make way for an exact solve
_MANY = 1000  # working vertices from which a round is not solved to the end
_PATIENCE = 8  # rounds without a tenth of progress in the gap that end a run
CROWDED = "crowded"
_CROWD = 0.35  # share of support vectors in the first round from which all points are taken


def corrective(
    problem: BinaryProblem,
    columns: Columns | LinearColumns,
    budget: Budget,
    mode: str = "auto",
    alpha0: Array | None = None,
    soft: float = np.inf,
) -> Weights:
    """Solve one binary problem with kernel rows from `columns`, from the weights `alpha0`.

    `mode` is "pairwise" (the whole kernel matrix), "corrective" (working vertices) or "auto". The
    run stops as CROWDED after the first round if errors make up more than a share `soft` of the
    objective: then many points will be support vectors.
    """
    run = _Run(problem, columns, budget, mode, alpha0)
    run.soft = soft
    while not run.stopped:
        run.correct()
        run.look()
    return run.weights()


@final
class _Run:
    def __init__(
        self,
        problem: BinaryProblem,
        columns: Columns | LinearColumns,
        budget: Budget,
        mode: str,
        alpha0: Array | None,
    ) -> None:
        self.problem, self.columns, self.budget = problem, columns, budget
        self.start, self.steps, self.stopped = time.perf_counter(), 0, ""
        self.trace: list[Round] = []
        n, dtype = len(problem.y), columns.kernel.dtype
        self.curvature = np.empty(0)  # diagonal of Q on the working vertices
        self.most = max(256, int(np.sqrt(budget.megabytes * 2**20 / (2 * dtype.itemsize))))
        self.working, self.kernel = np.empty(0, np.int64), np.empty((0, 0), dtype)
        self.crowd = _CROWD if columns.fits and mode == "auto" else np.inf
        chosen = mode == "pairwise" or (mode == "auto" and columns.complete)
        self.whole = columns.fits and (chosen or n <= _SMALL)
        self.alpha, self.scores = np.zeros(n), np.zeros(n)
        self.rho, self.gap, self.goal, self.soft = 1.0, 1.0, 0.1, np.inf
        if alpha0 is None:
            first = problem.order[:1]
            self.alpha[first] = 1.0
        else:
            self.alpha[:] = alpha0
            first = np.flatnonzero(alpha0)
        self.lack = np.empty(n)
        self.first, self.least = _WIDE_ROUNDS if columns.kernel.wide else _NARROW_ROUNDS
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
        state = np.array([self.rho, 0.0, 0.0, 0.0])
        if not covered:
            rest = np.ones(len(p.y), bool)
            rest[w] = False
            slack = np.maximum(0.0, 1.0 - p.y[rest] * self.scores[rest] / self.rho)
            state[1] = np.sum(self.alpha[rest] ** 2 / p.box[rest])
            state[2] = np.sum(p.box[rest] * slack * slack)
        gradient = y * self.scores[w] + alpha / box
        left = self.budget.max_steps - self.steps
        limit = min(left, 5 * len(w) + 1000)
        limits = np.array([self.goal, limit, max(16, len(w) // 100), p.bias])
        before = alpha.copy()
        steps, status = pairwise_steps(
            self.kernel, y, box, alpha, gradient, self.curvature, state, limits
        )
        self.steps += int(steps)
        self.idle = (status == STUCK or steps == 0) and self.goal <= 0.5 * self.budget.tol
        slow = status == EXHAUSTED and self.steps < self.budget.max_steps
        self.alpha[w], self.rho = alpha, float(state[0])
        if self.trace == [] and not self.whole:
            self._first_scores()
        elif self.whole and covered:
            self.scores = y * (gradient - alpha / box)
        else:
            changed = np.flatnonzero(alpha != before)
            self._move_scores(w[changed], alpha[changed] - before[changed])
        if slow and covered and len(w) <= _EXACT:
            self._jump()

    def _first_scores(self) -> None:
        """Guess from the first round how many will come in; take all points, or all the scores."""
        support = np.flatnonzero(self.alpha)
        if len(support) > self.crowd * len(self.working):
            self._take_all()
        errors = float(np.sum(self.alpha**2 / self.problem.box))
        if errors > self.soft * max(self.rho, errors):  # a ρ below the errors is rounding
            self.stopped = CROWDED
        self._refresh()

    def _jump(self) -> None:
        """Replace the weights by the exact ones on the hull, where that is an improvement."""
        p, w, before, scores = self.problem, self.working, self.alpha.copy(), self.scores.copy()
        rho, gap = relative_gap(p, self.alpha, self.scores)
        try:
            start = p.y[w] * self.alpha[w] / rho
            u = p.y[w] * exact_weights(self.kernel, p.part(w), p.bias, start)
        except np.linalg.LinAlgError:
            return
        u = np.maximum(u, 0.0)
        self.alpha[w] = u / u.sum()
        changed = np.flatnonzero(self.alpha != before)
        self._move_scores(changed, self.alpha[changed] - before[changed])
        after = relative_gap(p, self.alpha, self.scores)
        if not after[0] < rho and not after[1] < gap:  # ρ is twice the dual objective
            self.alpha, self.scores = before, scores

    def look(self) -> None:
        """Take the duality gap over all points; stop, or admit the worst violators."""
        budget = self.budget
        self._survey()
        if self.gap <= budget.tol and self.columns.kernel.dtype == np.float64:
            self._refresh()
            self._survey()
        support = int(np.count_nonzero(self.alpha))
        seconds = time.perf_counter() - self.start
        self.trace.append(Round(self.steps, 0.5 / self.rho, self.gap, support, seconds))
        if self.gap <= budget.tol:
            self.stopped = "tolerance"
        elif not np.isfinite(self.gap):
            self.stopped = "precision"
        elif self.steps >= budget.max_steps:
            self.stopped = "max_iter"
        elif not self.stopped and time.perf_counter() >= budget.deadline:
            self.stopped = "max_time"
        if not self.stopped:
            self._widen()

    def _survey(self) -> None:
        self.rho, self.gap = relative_gap(self.problem, self.alpha, self.scores, self.lack)

    def _widen(self) -> None:
        """Admit the points outside that violate their optimality condition most."""
        tol, outside = self.budget.tol, self.lack
        outside[self.working] = 0.0
        wanting = int(np.count_nonzero(outside > 1e-10))
        # Steps on few vertices cost less than another round; on many, the round decides.
        self.goal = max(0.5 * tol, 0.01 * self.gap if len(self.working) > _MANY else 0.0)
        if wanting == 0:
            far = [r.gap for r in self.trace[-_PATIENCE:]]
            stalled = len(far) == _PATIENCE and far[-1] > 0.9 * far[0]
            if self.idle or stalled:
                self.stopped = "precision"
        else:
            extra = min(wanting, max(self.least, len(self.working) // 2), self.most // 2)
            if len(self.working) + extra > self.most:
                self._trim(self.most - extra)
            self._admit(np.argpartition(outside, -extra)[-extra:])

    def weights(self) -> Weights:
        """What was reached."""
        solver = "pairwise" if self.whole else "corrective"
        return Weights(
            self.alpha,
            self.scores,
            self.rho,
            self.gap,
            self.steps,
            self.stopped,
            solver,
            self.trace,
        )

    def _refresh(self) -> None:
        """Compute the scores anew, without the rounding errors of the steps."""
        support = np.flatnonzero(self.alpha)
        self.scores[:] = 0.0
        self._move_scores(support, self.alpha[support])

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
        self.columns.fetch(index, self.working)
        weights = change * self.problem.y[index]
        self.scores += self.columns.combine(index, weights) + self.problem.bias * weights.sum()
