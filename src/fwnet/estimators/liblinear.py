"""Linear SVMs with many features: liblinear through scikit-learn, certified afterwards."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from fwnet.estimators.kernels import Array
from fwnet.estimators.newton import linear_gap
from fwnet.estimators.records import BinaryProblem, Budget, Machine, Round


def solve_liblinear(X: Any, problem: BinaryProblem, budget: Budget) -> Machine:
    """Run LinearSVC with C/2, whose optimum is ours, at finer tolerances until the gap is met."""
    began, trace, stopped, steps = time.perf_counter(), list[Round](), "", 0
    tol = 10.0 * budget.tol
    while True:
        w, used = _fit(X, problem, tol, budget.max_steps)
        scores = np.asarray(X @ w[:-1]) + w[-1]
        slack = np.maximum(0.0, 1.0 - problem.y * scores)
        value, gap, factor = linear_gap(X, problem, w, slack)
        steps += used
        support = int(np.count_nonzero(slack))
        trace.append(Round(steps, value, gap, support, time.perf_counter() - began))
        if gap <= budget.tol:
            stopped = "tolerance"
        elif steps >= budget.max_steps:
            stopped = "max_iter"
        elif time.perf_counter() >= budget.deadline:
            stopped = "max_time"
        elif tol < 1e-12:
            stopped = "precision"
        if stopped:
            coef = factor * problem.y * problem.box * slack
            return Machine(coef, float(w[-1]), gap, steps, stopped, "liblinear", trace, w[:-1])
        tol *= 0.1


def _fit(X: Any, problem: BinaryProblem, tol: float, max_steps: int) -> tuple[Array, int]:
    machine = LinearSVC(C=0.5, tol=tol, dual="auto", max_iter=min(max_steps, 10_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap tells it better
        machine.fit(X, problem.y, sample_weight=problem.box)
    return np.append(machine.coef_.ravel(), machine.intercept_), int(machine.n_iter_)
