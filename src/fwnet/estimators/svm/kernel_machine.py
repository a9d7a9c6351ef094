"""Kernel SVMs: `fwnet.FrankWolfe` on an `SVMDual`, with the precision chosen and certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch

from fwnet.domains import L1Ball
from fwnet.estimators.svm.certificate import (
    certified_linear,
    combination,
    kernel_gap,
    sampled_error,
    scores_in_double,
)
from fwnet.estimators.svm.corrective import corrective_solver, simplex_solver, unsigned
from fwnet.estimators.svm.encoding import EXACT, Encoding
from fwnet.estimators.svm.gaps import dual_gap, seconds_in_double
from fwnet.estimators.svm.gram_matrix import DualMatrix, GramMatrix, StoredGramMatrix
from fwnet.estimators.svm.kernels import Array, KernelRows, KernelSpec
from fwnet.estimators.svm.limits import BY_PRECISION, Limits, OutOfTime, check_time
from fwnet.estimators.svm.margin_problem import (
    BinaryProblem,
    DualGap,
    Expansion,
    MarginProblem,
    record,
)
from fwnet.estimators.svm.pairwise import HUGE
from fwnet.estimators.svm.working_set import TINY, WorkingSet
from fwnet.problems import Quadratic, SVMDual
from fwnet.trace import Clock

Certificate = Callable[[Array, Array], DualGap]
_FAR = 1e14  # γ|x|² beyond which exponents are rounding in double precision
_GRACE, _GRACE_SHARE = 0.5, 0.03  # seconds, or share of max_time, for a gap taken after it
_SLACK = 1e-3  # share of tol that float32 kernel values may be off by; the gap includes it
_SINGLE = 1e-5  # the smallest tol that float32 kernel values are trusted with


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Training points with their kernel, and the rows in float32 or float64 that are kept."""

    X: Any
    spec: KernelSpec
    gram: StoredGramMatrix
    encoding: Encoding | None  # of X; None for kernels without one

    @classmethod
    def prepare(cls, X: Any, spec: KernelSpec, limits: Limits, dtype: Any = None) -> Points:
        """Choose the precision: float32 if rounding errors stay far below `tol`, else float64."""
        named = not callable(spec.name) and spec.name != "precomputed"
        single = named and X.shape[0] > TINY and limits.tol >= _SINGLE
        with np.errstate(over="ignore"):  # said below
            chosen = dtype or (np.float32 if single else np.float64)
            slack = _SLACK * limits.tol if chosen == np.float32 else EXACT
            kernel = KernelRows(X, spec, chosen, slack=slack, threads=limits.threads)
        if not kernel.reach < _FAR:
            raise ValueError(
                f"gamma={spec.gamma:g} is too large for these points: γ|x|² reaches "
                f"{kernel.reach:.1e}, and its rounding is all that a kernel value shows. Lower "
                "gamma, or scale X."
            )
        if dtype is None and single and 1e-7 * kernel.reach > 0.1 * limits.tol:
            kernel = KernelRows(X, spec, np.float64, threads=limits.threads)
        gram = StoredGramMatrix(kernel, limits.room(kernel.megabytes))
        # Rows without a place are summed in their own precision.
        kernel.trusted &= gram.fits or kernel.dtype == np.float64
        return cls(X, spec, gram, kernel.encoding)

    def part(self, index: Array, limits: Limits) -> Points:
        """Return some of the points, with a block of the whole kernel matrix if that is there."""
        if not self.gram.complete:
            some = (index[:, None], index) if self.spec.name == "precomputed" else index
            return Points.prepare(self.X[some], self.spec, limits, self.gram.kernel.dtype)
        block, error = self.gram.entries(index, index), self.gram.kernel.rounding()
        rows = KernelRows(block, KernelSpec("precomputed"), block.dtype, error=error)
        X = block if self.spec.name == "precomputed" else self.X[index]
        return Points(X, self.spec, StoredGramMatrix(rows, rows.megabytes), self.encoding)

    def certificate(self, problem: MarginProblem, limits: Limits) -> Certificate:
        """Return the function u, z -> `DualGap` from kernel values in float64, or trusted ones.

        The gap has a bound on its own rounding errors. Out of time, it is taken from z as it is,
        with ten times the largest error that some points show.
        """

        def certify(u: Array, z: Array) -> DualGap:
            kernel, p, error = self.gram.kernel, problem, None
            shares = u / p.box
            scores, rough = z - shares, dual_gap(p, u, z)
            grace = max(_GRACE, _GRACE_SHARE * limits.clock.max_seconds)
            clock = Clock(limits.clock.left + grace)
            try:
                if math.isfinite(clock.max_seconds):
                    wanted = seconds_in_double(kernel, p, rough, u, scores)
                    check_time(Clock(clock.max_seconds - wanted))
                scores = self._scores(p, u, scores, p.scale(rough), clock)
            except OutOfTime:
                if self.encoding is not None:
                    error = sampled_error(self.X, self.spec, self.encoding, p, u, scores)
            found = dual_gap(p, u, scores + shares)
            if not math.isfinite(found.gap):
                return found
            scale = p.scale(found)
            error = None if error is None else scale * error
            return found._replace(gap=kernel_gap(kernel, p, scale * u, scale * scores, error))

        return certify

    def _scores(
        self, problem: MarginProblem, u: Array, scores: Array, scale: float, clock: Clock
    ) -> Array:
        kernel = self.gram.kernel
        if not kernel.trusted:
            assert self.encoding is not None  # only named kernels are evaluated in float32
            return scores_in_double(
                self.X, self.spec, self.encoding, problem, u, scores, scale, clock, kernel.threads
            )
        support = np.flatnonzero(u)
        with kernel.limited(clock):
            return self.gram.combine(support, u[support]) + problem.bias * u.sum()


def solve_kernel(
    points: Points, problem: MarginProblem, limits: Limits, mode: str, start: Array | None = None
) -> Expansion:
    """Solve one problem to the certified relative duality gap `limits.tol`.

    `start` are coefficients of an earlier fit; those that its labels do not allow are left out.
    """
    if isinstance(problem, BinaryProblem) and points.gram.transient:
        problem = problem.unscaled()
    certificate = points.certificate(problem, limits)
    coef = None if start is None else problem.feasible(start)
    first = None if coef is None or not coef.any() else problem.weights(coef)
    solved = solve_dual(certificate, points.gram, problem, limits, mode, first)
    single = points.gram.kernel.dtype == np.float32
    if single and solved.status in BY_PRECISION and not solved.gap <= limits.tol:
        double = Points.prepare(points.X, points.spec, limits, np.float64)
        return solve_kernel(double, problem, limits, mode, solved.coef).after(solved)
    return with_vector(points, problem, solved, limits.tol)


def solve_dual(
    certificate: Certificate,
    gram: GramMatrix,
    problem: MarginProblem,
    limits: Limits,
    mode: str = "auto",
    start: Array | None = None,
    soft: float = np.inf,
) -> Expansion:
    """Minimise the dual of a problem by `fwnet.FrankWolfe`, from the weights u = `start`.

    See `corrective` for its slots, and `WorkingSet` for `mode` and `soft`.
    """
    p = problem
    working = WorkingSet(p, gram, limits, mode, certificate, soft)
    dual: SVMDual | Quadratic
    if p.width != HUGE:
        labels = np.ones(len(p.y))
        matrix = DualMatrix(gram, labels, p.box, p.bias, working)
        dual = Quadratic(matrix, torch.from_numpy(-p.y))
        solver = corrective_solver(L1Ball(p.radius or 1.0), limits.tol)
    else:
        labels = p.y
        dual = SVMDual(DualMatrix(gram, labels, p.box, p.bias, working), C=None)
        solver = simplex_solver(limits.tol)
    first = unsigned(dual, *working.start(start))
    result = solver(dual, first, on_step=lambda _: working.halt is not None)
    if result.status == "interrupted":
        raise KeyboardInterrupt
    status = working.halt if result.status == "stopped" else result.status
    assert status is not None
    assert not isinstance(status, tuple)  # one problem, no batch
    status = "non_finite" if status == "oracle_failed" else status  # an infinite gap
    found, recorder = working.found, working.recorder
    record(recorder, working.steps, -found.dual, found.gap)
    name = "pairwise" if working.whole else "corrective"
    coef = problem.scale(found) * (result.x.numpy() * labels)
    return Expansion(coef, problem.intercept(coef), name, status, recorder.trace)


def with_vector(points: Points, problem: MarginProblem, solved: Expansion, tol: float) -> Expansion:
    """Return the machine; for a linear kernel with its w, and the gap of this w.

    There ρ = |w|² + Σα²/C of a classifier is taken again from w: where much of αᵀKα cancels, the
    kernel matrix has rounded it off.
    """
    if points.spec.name != "linear" or not math.isfinite(solved.gap):
        return solved
    coef = solved.coef
    if isinstance(problem, BinaryProblem):
        u = problem.weights(coef)
        w, b = combination(points.X, u), problem.intercept(u)
        rho = float(w @ w) + b * b + float(u @ (u / problem.box))
        coef = u / rho
        solved.trace.replace_last(solved.trace[-1]._replace(value=-0.5 / rho))
    w, b = combination(points.X, coef), problem.intercept(coef)  # not w/ρ: α/ρ is rounded
    again = replace(solved, coef=coef, intercept=b, w=w)
    return certified_linear(points.X, problem, again, tol)
