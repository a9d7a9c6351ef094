"""Kernel SVMs: `fwnet.FrankWolfe` on an `SVMDual`, with the precision chosen and certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from fwnet.estimators.svm.certificate import (
    certified_linear,
    combination,
    kernel_gap,
    scores_in_double,
)
from fwnet.estimators.svm.corrective import corrective_solver
from fwnet.estimators.svm.encoding import Encoding
from fwnet.estimators.svm.kernels import Array, KernelRows, KernelSpec
from fwnet.estimators.svm.limits import BY_PRECISION, Limits, OutOfTime
from fwnet.estimators.svm.records import BinaryProblem, Expansion, result_of
from fwnet.estimators.svm.store import DualKernel, GramMap, KernelStore
from fwnet.estimators.svm.working_set import TINY, HingeGap, Work, hinge_gap
from fwnet.problems import SVMDual
from fwnet.trace import Clock, Status, StepRecord, Trace

Certificate = Callable[[Array, Array], HingeGap]
_FAR = 1e14  # γ|x|² beyond which exponents are rounding in double precision
_GRACE, _GRACE_SHARE = 0.5, 0.03  # seconds, or share of max_time, for a gap taken after it
_SINGLE = 1e-5  # the smallest tol that float32 kernel values are trusted with


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Training points with their kernel, and the rows in float32 or float64 that are kept."""

    X: Any
    spec: KernelSpec
    store: KernelStore
    encoding: Encoding | None  # of X; None for kernels without one

    @classmethod
    def prepare(cls, X: Any, spec: KernelSpec, limits: Limits, dtype: Any = None) -> Points:
        """Choose the precision: float32 if rounding errors stay far below `tol`, else float64."""
        named = not callable(spec.name) and spec.name != "precomputed"
        single = named and X.shape[0] > TINY and limits.tol >= _SINGLE
        with np.errstate(over="ignore"):  # said below
            kernel = KernelRows(X, spec, dtype or (np.float32 if single else np.float64))
        if not kernel.reach < _FAR:
            raise ValueError(
                f"gamma={spec.gamma:g} is too large for these points: γ|x|² reaches "
                f"{kernel.reach:.1e}, and its rounding is all that a kernel value shows. Lower "
                "gamma, or scale X."
            )
        if dtype is None and single and 1e-7 * kernel.reach > 0.1 * limits.tol:
            kernel = KernelRows(X, spec, np.float64, kernel.encoding)
        return cls(X, spec, KernelStore(kernel, limits.megabytes), kernel.encoding)

    def part(self, index: Array, limits: Limits) -> Points:
        """Return some of the points, with a block of the whole kernel matrix if that is there."""
        if not self.store.complete:
            some = (index[:, None], index) if self.spec.name == "precomputed" else index
            return Points.prepare(self.X[some], self.spec, limits, self.store.kernel.dtype)
        block = self.store.entries(index, index)
        rows = KernelRows(block, KernelSpec("precomputed"), block.dtype)
        X = block if self.spec.name == "precomputed" else self.X[index]
        return Points(X, self.spec, KernelStore(rows, limits.megabytes), self.encoding)

    def certificate(self, problem: BinaryProblem, limits: Limits) -> Certificate:
        """Return the function α, Qα -> `HingeGap` from kernel values in float64.

        The gap has a bound on its own rounding errors. Out of time, it is taken from Qα as it is,
        and its bound is that of the values behind it.
        """

        def certify(alpha: Array, gradient: Array) -> HingeGap:
            kernel, p, dtype = self.store.kernel, problem, np.dtype(np.float64)
            scores = p.y * (gradient - alpha / p.box)
            grace = max(_GRACE, _GRACE_SHARE * limits.clock.max_seconds)
            clock = Clock(limits.clock.left + grace)
            try:
                scores = self._scores(p, alpha, scores, clock)
            except OutOfTime:
                dtype = kernel.dtype
            found = hinge_gap(p, alpha, p.y * scores + alpha / p.box)
            if not math.isfinite(found.gap):
                return found
            coef, f = p.y * alpha / found.rho, scores / found.rho
            return found._replace(gap=kernel_gap(kernel, p, coef, f, dtype))

        return certify

    def _scores(self, problem: BinaryProblem, alpha: Array, scores: Array, clock: Clock) -> Array:
        kernel = self.store.kernel
        if kernel.dtype == np.float32:
            assert self.encoding is not None  # only named kernels are evaluated in float32
            return scores_in_double(self.X, self.spec, self.encoding, problem, alpha, scores, clock)
        kernel.clock = clock
        support = np.flatnonzero(alpha)
        weights = alpha[support] * problem.y[support]
        try:
            return self.store.combine(support, weights) + problem.bias * weights.sum()
        finally:
            kernel.clock = Clock()


def solve_kernel(
    points: Points, problem: BinaryProblem, limits: Limits, mode: str, alpha0: Array | None = None
) -> Expansion:
    """Solve one binary problem to the certified relative duality gap `limits.tol`."""
    certificate = points.certificate(problem, limits)
    solved = solve_dual(certificate, points.store, problem, limits, mode, alpha0)
    single = points.store.kernel.dtype == np.float32
    if single and solved.status in BY_PRECISION and not solved.gap <= limits.tol:
        double = Points.prepare(points.X, points.spec, limits, np.float64)
        start = np.abs(solved.coef) / np.abs(solved.coef).sum()
        return solve_kernel(double, problem, limits, mode, start).after(solved)
    return with_vector(points, problem, solved, limits.tol)


def solve_dual(
    certificate: Certificate,
    kernel: GramMap,
    problem: BinaryProblem,
    limits: Limits,
    mode: str = "auto",
    alpha0: Array | None = None,
    soft: float = np.inf,
) -> Expansion:
    """min ½ αᵀQα over the simplex by `fwnet.FrankWolfe`, from the weights `alpha0`.

    See `corrective` for its slots, and `WorkingSet` for `mode` and `soft`.
    """
    work = Work(problem, kernel, limits, mode, certificate, soft)
    dual = SVMDual(DualKernel(kernel, problem.y, problem.box, problem.bias, work), C=None)
    start = work.start(dual, alpha0)
    solver = corrective_solver(limits.tol)
    result = solver(dual, start, on_step=lambda record: work.halt is not None)
    if result.status == "interrupted":
        raise KeyboardInterrupt
    status = work.halt if result.status == "stopped" else result.status
    assert status is not None
    assert not isinstance(status, tuple)  # one problem, no batch
    trace, counts = Trace(), [*work.spent, work.steps]
    for record, steps in zip(result.trace[:-1], counts, strict=False):
        rho = 2.0 * float(record.value)
        gap = 2.0 * float(record.gap) / rho
        trace.append(StepRecord(steps, -0.5 / rho, gap, math.nan, record.seconds))
    last = StepRecord(counts[len(result.trace) - 1], 0.0, 0.0, math.nan, result.trace[-1].seconds)
    trace.append(last)
    name = "pairwise" if work.whole else "corrective"
    return expansion(problem, result.x.numpy(), work.found, status, trace, name)


def expansion(
    problem: BinaryProblem, alpha: Array, found: HingeGap, status: Status, trace: Trace, name: str
) -> Expansion:
    """Return the classifier of the weights, yᵢβᵢ = yᵢαᵢ/ρ; the last record gets their gap."""
    coef = problem.y * alpha / found.rho
    trace.replace_last(trace[-1]._replace(value=-0.5 / found.rho, gap=found.gap))
    if status == "oracle_failed":  # an infinite gap
        status = "non_finite"
    result = result_of(coef, status, trace[-1].t, trace)
    return Expansion(result, problem.bias * float(coef.sum()), name)


def with_vector(points: Points, problem: BinaryProblem, solved: Expansion, tol: float) -> Expansion:
    """Return the machine; for a linear kernel with its w, and the gap of this w.

    There ρ = |w|² + Σα²/C is taken again from w: where much of αᵀKα cancels, the kernel matrix has
    rounded it off.
    """
    if points.spec.name != "linear" or not math.isfinite(solved.gap):
        return solved
    signed = solved.coef / np.abs(solved.coef).sum()
    w, b = combination(points.X, signed), problem.bias * float(signed.sum())
    rho = float(w @ w) + b * b + float(signed @ (signed / problem.box))
    found = HingeGap(rho, solved.gap)
    alpha = np.abs(signed)
    again = expansion(problem, alpha, found, solved.status, solved.trace, solved.solver)
    again = replace(again, w=combination(points.X, again.coef))  # not w/ρ: α/ρ is rounded
    return certified_linear(points.X, problem, again, tol)
