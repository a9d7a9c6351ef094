"""Kernel SVMs: one store of kernel rows for all binary problems, precision chosen and certified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from fwnet.estimators.svm.certificate import (
    certified_gap,
    certified_kernel,
    certified_linear,
    combination,
)
from fwnet.estimators.svm.columns import Columns
from fwnet.estimators.svm.corrective import corrective
from fwnet.estimators.svm.encoding import Encoding
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array, KernelRows, KernelSpec
from fwnet.estimators.svm.limits import BY_PRECISION, Limits, OutOfTime
from fwnet.estimators.svm.records import (
    BinaryProblem,
    DualPoint,
    Expansion,
    expansion,
    relative_gap,
)
from fwnet.trace import Clock, Status

TINY = 384  # points up to which float64 and an exact finish cost less than a millisecond
_FAR = 1e14  # γ|x|² beyond which exponents are rounding in double precision
_GRACE, _GRACE_SHARE = 0.5, 0.03  # seconds, or share of max_time, for a gap taken after it
_SINGLE = 1e-5  # the smallest tol that float32 kernel values are trusted with


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Training points with their kernel, and the rows in float32 or float64 that are kept."""

    X: Any
    spec: KernelSpec
    columns: Columns
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
        return cls(X, spec, Columns(kernel, limits.megabytes), kernel.encoding)

    def part(self, index: Array, limits: Limits) -> Points:
        """Return some of the points, with a block of the whole kernel matrix if that is there."""
        if not self.columns.complete:
            some = (index[:, None], index) if self.spec.name == "precomputed" else index
            return Points.prepare(self.X[some], self.spec, limits, self.columns.kernel.dtype)
        block = self.columns.square()[index[:, None], index]
        rows = KernelRows(block, KernelSpec("precomputed"), block.dtype)
        X = block if self.spec.name == "precomputed" else self.X[index]
        return Points(X, self.spec, Columns(rows, limits.megabytes), self.encoding)


def solve_kernel(
    points: Points, problem: BinaryProblem, limits: Limits, mode: str, alpha0: Array | None = None
) -> Expansion:
    """Solve one binary problem to the certified relative duality gap `limits.tol`."""
    found = corrective(problem, points.columns, limits, mode, alpha0)
    if points.columns.kernel.dtype == np.float64:
        exact = points.columns.fits and len(problem.y) <= TINY and not limits.clock.is_over
        if exact and found.status != "max_seconds":
            found = _finished(points.columns.square(), problem, found, limits.tol)
    found, dtype = in_double(points, problem, found, limits)
    single = points.columns.kernel.dtype == np.float32
    if single and found.status in BY_PRECISION and not found.gap <= limits.tol:
        double = Points.prepare(points.X, points.spec, limits, np.float64)
        again = solve_kernel(double, problem, limits, mode, found.alpha)
        return again.after(found)
    return certified_machine(points, problem, found, limits.tol, dtype)


def in_double(
    points: Points, problem: BinaryProblem, found: DualPoint, limits: Limits
) -> tuple[DualPoint, Any]:
    """Return the weights with ρ, scores and gap from kernel values in float64, and that dtype.

    Out of time, the weights are returned as they are, and float32.
    """
    if points.columns.kernel.dtype == np.float64:
        return found, np.float64
    assert points.encoding is not None  # only named kernels are evaluated in float32
    clock = Clock(limits.clock.left + max(_GRACE, _GRACE_SHARE * limits.clock.max_seconds))
    try:
        found = certified_gap(points.X, points.spec, points.encoding, problem, found, clock)
        return found, np.float64
    except OutOfTime:
        return replace(found, status="max_seconds"), np.float32


def certified_machine(
    points: Points, problem: BinaryProblem, found: DualPoint, tol: float, dtype: Any = np.float64
) -> Expansion:
    """Return the classifier of the weights, whose scores are from values in `dtype`, certified.

    For a linear kernel ρ = |w|² + Σα²/C is taken again from w: where much of αᵀKα cancels, the
    kernel matrix has rounded it off.
    """
    if points.spec.name == "linear":
        signed = problem.y * found.alpha
        w, b = combination(points.X, signed), problem.bias * float(signed.sum())
        rho = float(w @ w) + b * b + float(found.alpha @ (found.alpha / problem.box))
        solved = expansion(problem, replace(found, rho=rho))
        solved = replace(solved, w=combination(points.X, solved.coef))  # not w/ρ: α/ρ is rounded
        return certified_linear(points.X, problem, solved, tol)
    solved = expansion(problem, found)
    scores = found.scores / found.rho
    return certified_kernel(points.columns.kernel, problem, solved, scores, tol, dtype)


def _finished(kernel: Array, problem: BinaryProblem, found: DualPoint, tol: float) -> DualPoint:
    """Replace the weights by the exact optimum, if that is what the active sets found."""
    try:
        start = problem.y * found.alpha / found.rho
        u = problem.y * exact_weights(kernel, problem, problem.bias, start)
    except np.linalg.LinAlgError:
        return found
    alpha = np.maximum(u, 0.0) / np.maximum(u, 0.0).sum()
    weighted = alpha * problem.y
    scores = kernel @ weighted + problem.bias * weighted.sum()
    rho, gap = relative_gap(problem, alpha, scores)
    if not gap < found.gap:
        return found
    status: Status = "converged" if gap <= tol else found.status
    return replace(found, alpha=alpha, scores=scores, rho=rho, gap=gap, status=status)
