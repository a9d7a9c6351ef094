"""Linear SVMs: which solver, and the weight vector behind the weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fwnet.estimators.svm.certificate import certified_linear, combination
from fwnet.estimators.svm.gaps import dual_gap
from fwnet.estimators.svm.gram_matrix import FeatureGramMatrix
from fwnet.estimators.svm.kernel_machine import Points, solve_dual, solve_kernel
from fwnet.estimators.svm.kernels import Array, KernelRows, KernelSpec
from fwnet.estimators.svm.liblinear import solve_liblinear
from fwnet.estimators.svm.limits import Limits
from fwnet.estimators.svm.margin_problem import Expansion, MarginProblem
from fwnet.estimators.svm.newton import solve_newton
from fwnet.estimators.svm.working_set import TINY

_NARROW, _WIDE = 256, 2000  # features: Newton needs no second thought; Newton costs too much
_FEW_POINTS = 2000  # points for which the dual is the small side
_LIBLINEAR = 500  # passes after which liblinear gives way to the dual, if K has room
_SOFT = 0.1  # share of errors in the objective from which Newton in feature space wins


def solve_linear(
    X: Any, problem: MarginProblem, limits: Limits, solver: str, start: Array | None
) -> Expansion:
    """Solve one linear problem; "auto" chooses by the number of features and support vectors.

    The dual of a regression, which has a support vector for nearly every point, is left alone.
    """
    n, d = X.shape
    if solver == "liblinear" or (
        solver == "auto" and d > _WIDE and (not problem.labels or n > _FEW_POINTS)
    ):
        solved = _from_liblinear(X, problem, limits, solver)
        return certified_linear(X, problem, solved, limits.tol)
    warm = start is not None and d <= _WIDE
    if solver == "newton" or (solver == "auto" and (not problem.labels or d <= _NARROW or warm)):
        return _from_newton(X, problem, limits, solver, start)
    return certified_linear(X, problem, _from_dual(X, problem, limits, solver), limits.tol)


def _from_newton(
    X: Any, problem: MarginProblem, limits: Limits, solver: str, start: Array | None
) -> Expansion:
    """Newton's method in feature space; the dual, where that is better on a few points."""
    solved = certified_linear(X, problem, solve_newton(X, problem, limits, start), limits.tol)
    if solver != "auto" or solved.status != "stalled" or X.shape[0] > TINY:
        return solved
    points = Points.prepare(X, KernelSpec("linear"), limits)
    dual = solve_kernel(points, problem, limits, solver)
    return min(solved, dual, key=lambda machine: machine.gap)


def _from_liblinear(X: Any, problem: MarginProblem, limits: Limits, solver: str) -> Expansion:
    """Coordinate descent, which a large C makes slow: then the dual, if its matrix has room."""
    n = X.shape[0]
    wanted = 4 * n * n / 2**20
    dual = solver == "auto" and problem.labels
    room = dual and wanted <= limits.room(wanted)
    most = replace(limits, max_steps=min(limits.max_steps, _LIBLINEAR)) if room else limits
    solved = solve_liblinear(X, problem, most)
    if solved.status == "max_steps" and solved.steps < limits.max_steps:
        return _from_dual(X, problem, limits, "pairwise").after(solved)
    return solved


def _from_dual(X: Any, problem: MarginProblem, limits: Limits, solver: str) -> Expansion:
    """Solve the dual; go on with Newton's method in feature space if many points are support."""
    n, d = X.shape
    soft = _SOFT if solver == "auto" and d <= _WIDE and n > d else np.inf
    dtype = np.float32 if limits.tol >= 1e-5 and n > _NARROW else np.float64
    gram = FeatureGramMatrix(KernelRows(X, KernelSpec("linear"), dtype), X)
    # Qα is summed in float64 here, whatever the working vertices' matrix is.
    solved = solve_dual(partial(dual_gap, problem), gram, problem, limits, solver, soft=soft)
    solved = replace(solved, w=combination(X, solved.coef))
    if solved.status != "stopped":
        return solved
    assert solved.w is not None
    again = solve_newton(X, problem, limits, np.append(solved.w, solved.intercept))
    return again.after(solved)
