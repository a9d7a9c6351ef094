"""The working vertices of a corrective solve: which come in, and the minimum over their hull.

Only the rows of vertices whose weight changed are evaluated against all points, in one block; the
next gradient is then one matrix-vector product. When nearly every point would come in, the hull is
the simplex itself and the kernel matrix is made at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
import torch

from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.pairwise import EXHAUSTED, STUCK, pairwise_steps, reflect, survey
from fwnet.estimators.svm.records import BinaryProblem
from fwnet.estimators.svm.store import GramMap, KernelStore
from fwnet.iterates import Iterate
from fwnet.problems import Problem
from fwnet.trace import Clock, Status

TINY = 384  # points for which the whole kernel matrix and an exact solve are the quickest
# Vertices of the first round, times √n, and the least that a later round adds: with many features
# a first block is dear, and so is a round.
_NARROW_ROUNDS, _WIDE_ROUNDS = (7.0, 128), (5.0, 256)
_EXACT = 3000  # working vertices up to which slow pairwise steps are replaced by an exact solve
_MANY = 1000  # working vertices from which a round is not solved to the end
_PATIENCE = 8  # rounds without a tenth of progress in the gap that end a run
_UNTIMED = 5 * 10**7  # weights that pairwise steps see between two looks at the clock
_CROWD = 0.35  # share of support vectors in the first round from which all points are taken
_DOUBLE = 2.5  # the time of kernel values in float64, over that in float32


class HingeGap(NamedTuple):
    """ρ = αᵀQα and (P − D)/P of the classifier w = Σ αᵢyᵢφᵢ/ρ."""

    rho: float
    gap: float


def hinge_gap(
    problem: BinaryProblem, alpha: Array, gradient: Array, violations: Array | None = None
) -> HingeGap:
    """Return ρ and (P − D)/P for α and Qα; fill the violations (n,), see `pairwise.survey`."""
    violations = np.empty(len(alpha)) if violations is None else violations
    return HingeGap(*survey(problem.box, alpha, gradient, violations))


@final
class Work:
    """The working vertices of one solve, their kernel matrix and its budgets.

    Arguments:
        problem: labels, C and the order in which vertices are tried first.
        kernel: rows of the kernel matrix.
        limits: when to stop.
        mode: "pairwise" (the whole kernel matrix), "corrective" (working vertices) or "auto".
        certificate: returns the `HingeGap` of α, given α and Qα, from kernel values in float64.
        soft: stop after the first round if errors make up more than this share of the objective:
            then many points will be support vectors.

    Attributes:
        found: the last `HingeGap`; certified, whether one was a certificate.
        violations: √C|1 − ∇f/ρ| of each point (n,), see `pairwise.survey`.
        steps: pairwise steps taken so far; spent, those before each round.
        whole: whether all vertices are working.
        halt: why the solve must stop here, or None. A round that the clock breaks off counts for
            nothing.
    """

    found: HingeGap

    def __init__(
        self,
        problem: BinaryProblem,
        kernel: GramMap,
        limits: Limits,
        mode: str,
        certificate: Callable[[Array, Array], HingeGap],
        soft: float = np.inf,
    ) -> None:
        self.hinge, self.store, self.limits, self.certificate = problem, kernel, limits, certificate
        self.certified, self.violations = False, np.empty(len(problem.y))
        self.soft, self.spent = soft, list[int]()
        self.halt: Status | None = None
        n, dtype = len(problem.y), kernel.kernel.dtype
        self.steps, self.rounds, self.goal, self.idle = 0, 0, 0.1, False
        self.gaps: list[float] = []
        self.curvature = np.empty(0)  # diagonal of Q on the working vertices
        self.most = max(256, int(np.sqrt(limits.megabytes * 2**20 / (2 * dtype.itemsize))))
        self.working, self.kernel = np.empty(0, np.int64), np.empty((0, 0), dtype)
        self.crowd = _CROWD if kernel.fits and mode == "auto" else np.inf
        chosen = mode == "pairwise" or (mode == "auto" and kernel.complete)
        self.whole = kernel.fits and (chosen or n <= TINY)
        self.tiny = self.whole and n <= TINY and dtype == np.float64
        self.first, self.least = _WIDE_ROUNDS if kernel.kernel.wide else _NARROW_ROUNDS

    def start(self, problem: Problem, alpha0: Array | None) -> Iterate:
        """Return the iterate at alpha0; without one, the minimum over the first vertices.

        Out of time, all the weight is on the first of them.
        """
        if alpha0 is not None:
            return problem.at(torch.from_numpy(alpha0))
        p, first, alpha = self.hinge, self.hinge.order[0], np.zeros(len(self.hinge.y))
        alpha[first] = 1.0
        self.store.kernel.clock = self.limits.clock
        try:
            self._begin(alpha)
            row = self.kernel[first if self.whole else 0, : len(self.working)]
            gradient = np.zeros(len(alpha))
            gradient[self.working] = p.y[first] * p.y[self.working] * (row + p.bias)
            gradient[first] += 1.0 / p.box[first]
            found, image = self._corrected(problem, alpha, gradient, float(gradient[first]))
            self.rounds = 1
            return Iterate(torch.from_numpy(found), image)
        except OutOfTime:
            self.store.kernel.clock = Clock()
            return problem.at(torch.from_numpy(alpha))
        finally:
            self.store.kernel.clock = Clock()

    def round(
        self, problem: Problem, alpha: Array, gradient: Array
    ) -> tuple[Array, torch.Tensor] | None:
        """Return weights and their gradient; None if there is nothing to do, or no time."""
        self.spent.append(self.steps)
        self.store.kernel.clock = self.limits.clock
        rho, gap = self.found
        self.halt = self._reason(alpha, gradient, rho)
        try:
            if self.halt is None and self._admits(alpha, gap):
                found = self._corrected(problem, alpha, gradient, rho)
                self.rounds += 1
                return found
        except OutOfTime:
            self.halt = "max_seconds"
        finally:
            self.store.kernel.clock = Clock()
        return None

    def _reason(self, alpha: Array, gradient: Array, rho: float) -> Status | None:
        """Why to stop before the next round."""
        if self.steps >= self.limits.max_steps:
            return "max_steps"
        if self.limits.clock.left <= self._certificate_seconds(alpha, gradient, rho):
            return "max_seconds"
        if self.certified and self.store.kernel.dtype == np.float32:
            return "stalled"  # float32 is too coarse for this tol
        if self.rounds == 1 and self.soft < np.inf:
            errors = float(alpha @ (alpha / self.hinge.box))
            if errors > self.soft * max(rho, errors):  # a ρ below the errors is rounding
                return "stopped"
        return None

    def _certificate_seconds(self, alpha: Array, gradient: Array, rho: float) -> float:
        """How long the gap will take in float64, where the kernel values here are float32."""
        kernel = self.store.kernel
        if np.isinf(self.limits.clock.max_seconds) or kernel.dtype == np.float64:
            return 0.0
        support = int(np.count_nonzero(alpha))
        near = int(np.count_nonzero(gradient - alpha / self.hinge.box < 1.001 * rho))
        return _DOUBLE * kernel.seconds_for(support * (0.5 * support + near))

    def _admits(self, alpha: Array, gap: float) -> bool:
        """Admit the vertices of this round; False where nothing is left to do."""
        if self.rounds:
            return self._widen(alpha, gap)
        self._begin(alpha)
        return True

    def _begin(self, alpha: Array) -> None:
        """Take the first vertices."""
        if self.whole:
            self._take_all()
            self.goal = 0.5 * self.limits.tol  # no vertex will come in
            return
        support, order = np.flatnonzero(alpha), self.hinge.order
        size = min(int(self.first * np.sqrt(len(alpha))), self.most // 2)
        first = order[:size]
        if len(support) > 1:  # else it is the first of the order
            first = np.union1d(support[: self.most // 2], first)
        self._admit(first)

    def _widen(self, alpha: Array, gap: float) -> bool:
        """Admit the points outside that violate their optimality condition most."""
        tol, outside = self.limits.tol, self.violations
        outside[self.working] = 0.0
        wanting = int(np.count_nonzero(outside > 1e-10))
        # Steps on few vertices cost less than another round; on many, the round decides.
        self.goal = max(0.5 * tol, 0.01 * gap if len(self.working) > _MANY else 0.0)
        self.gaps.append(gap)
        if wanting == 0:
            far = self.gaps[-_PATIENCE:]
            stalled = len(far) == _PATIENCE and far[-1] > 0.9 * far[0]
            return not (self.idle or stalled)
        extra = min(wanting, max(self.least, len(self.working) // 2), self.most // 2)
        if len(self.working) + extra > self.most:
            self._trim(alpha, self.most - extra)
        self._admit(np.argpartition(outside, -extra)[-extra:])
        return True

    def _corrected(
        self, problem: Problem, alpha: Array, gradient: Array, rho: float
    ) -> tuple[Array, torch.Tensor]:
        """Return the weights at the minimum over the hull, and their gradient."""
        w, n = self.working, len(alpha)
        found, slopes = alpha[w], gradient[w]
        covered = len(w) == n or float(alpha.sum() - found.sum()) < 1e-12
        outside = (0.0, 0.0) if covered else self._outside(alpha, gradient, rho)
        y, box = (
            (self.hinge.y, self.hinge.box) if self.whole else (self.hinge.y[w], self.hinge.box[w])
        )
        status = self._pairwise(y, box, found, slopes, np.array([rho, *outside, 0.0]))
        slow = status == EXHAUSTED and self.steps < self.limits.max_steps and len(w) <= _EXACT
        new = found
        if not self.whole:
            new = alpha.copy()
            new[w] = found
        image = torch.from_numpy(slopes)
        if not (self.whole and covered):
            image = self._image(problem, alpha, new, gradient)
        if covered and (slow or self.tiny):
            return self._exact(problem, new, image)
        return new, image

    def _image(self, problem: Problem, alpha: Array, new: Array, gradient: Array) -> torch.Tensor:
        """Return the gradient at the new weights, from the one at alpha after the first round."""
        if isinstance(self.store, KernelStore):
            self.store.keep = self.working
        if not self.rounds:
            self._guess_crowd(new)
            image = problem.image(torch.from_numpy(new))
            assert image is not None
            return image
        change = problem.image(torch.from_numpy(new - alpha))
        assert change is not None
        return change + torch.from_numpy(gradient)

    def _outside(self, alpha: Array, gradient: Array, rho: float) -> tuple[float, float]:
        """Return what the points outside the working set add to αᵀα/C and to the primal errors."""
        rest = np.ones(len(alpha), bool)
        rest[self.working] = False
        box, shares = self.hinge.box[rest], alpha[rest] / self.hinge.box[rest]
        slack = np.maximum(0.0, 1.0 - (gradient[rest] - shares) / rho)
        return float(alpha[rest] @ shares), float(np.sum(box * slack * slack))

    def _pairwise(self, y: Array, box: Array, alpha: Array, gradient: Array, state: Array) -> int:
        """Take compiled pairwise steps in place, in pieces between looks at the clock."""
        size = len(alpha)
        left = min(self.limits.max_steps - self.steps, 5 * size + 1000)
        steps, status = 0, EXHAUSTED
        while status == EXHAUSTED and steps < left and not (steps and self.limits.clock.is_over):
            some = min(left - steps, max(1, _UNTIMED // size))
            limits = np.array([self.goal, some, max(16, size // 100), self.hinge.bias])
            taken, status = pairwise_steps(
                self.kernel, y, box, alpha, gradient, self.curvature, state, limits
            )
            steps += int(taken)
        self.steps += steps
        self.idle = (status == STUCK or steps == 0) and self.goal <= 0.5 * self.limits.tol
        return int(status)

    def _guess_crowd(self, alpha: Array) -> None:
        """Take all points if the first round says that most of them will come in."""
        many = np.count_nonzero(alpha) > self.crowd * len(self.working)
        seconds = self.store.kernel.seconds_for(len(alpha) ** 2 / 2)
        if many and seconds < 0.3 * self.limits.clock.left:
            self.whole = True
            self._take_all()

    def _exact(
        self, problem: Problem, alpha: Array, image: torch.Tensor
    ) -> tuple[Array, torch.Tensor]:
        """Return the exact weights on the hull, where they are an improvement."""
        p, w = self.hinge, self.working
        before = hinge_gap(p, alpha, image.numpy())
        try:
            start = p.y[w] * alpha[w] / before.rho
            u = p.y[w] * exact_weights(self.kernel, p.part(w), p.bias, start, self.limits.clock)
        except (np.linalg.LinAlgError, OutOfTime):
            return alpha, image
        u = np.maximum(u, 0.0)
        found = alpha.copy()
        found[w] = u / u.sum()
        there = problem.image(torch.from_numpy(found))
        assert there is not None
        after = hinge_gap(p, found, there.numpy())
        if after.rho < before.rho or after.gap < before.gap:  # ρ is twice the objective
            return found, there
        return alpha, image

    def _take_all(self) -> None:
        self.kernel = self.store.square()
        self.working = np.arange(len(self.hinge.y))
        self.curvature = self._diagonal(self.working)

    def _diagonal(self, index: Array) -> Array:
        p = self.hinge
        return np.asarray(self.store.kernel.diagonal(index) + p.bias + 1.0 / p.box[index])

    def _admit(self, new: Array) -> None:
        old, m = len(self.working), len(self.working) + len(new)
        self.working = np.concatenate([self.working, new])
        self.curvature = np.concatenate([self.curvature, self._diagonal(new)])
        if m > len(self.kernel):  # grow by doubling; the loop uses the first m of each row
            wide = np.empty((max(m, 2 * old),) * 2, self.kernel.dtype)
            wide[:old, :old] = self.kernel[:old, :old]
            self.kernel = wide
        self.kernel[old:m, :m] = self.store.entries(new, self.working)
        reflect(self.kernel, old, m)

    def _trim(self, alpha: Array, size: int) -> None:
        """Keep the `size` working vertices with the largest weights."""
        keep = np.sort(np.argsort(-alpha[self.working], kind="stable")[: max(size, 1)])
        self.working, self.curvature = self.working[keep], self.curvature[keep]
        self.kernel[: len(keep), : len(keep)] = self.kernel[keep[:, None], keep]
