"""Linear machines with many features: liblinear through scikit-learn, certified afterwards."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.newton import linear_gap
from fwnet.estimators.svm.records import Budget, Machine, Problem, Round, TubeProblem


def solve_liblinear(X: Any, problem: Problem, budget: Budget) -> Machine:
    """Run LinearSVC or LinearSVR with C/2, with our optimum, ever finer until the gap is met."""
    began, trace, stopped, steps = time.perf_counter(), list[Round](), "", 0
    tol = 10.0 * budget.tol
    while True:
        w, used = _fit(X, problem, tol, budget.max_steps)
        scores = np.asarray(X @ w[:-1]) + w[-1]
        excess = problem.excess(scores)
        value, gap, factor = linear_gap(X, problem, w, scores)
        steps += used
        support = int(np.count_nonzero(excess))
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
            coef = factor * problem.box * excess
            return Machine(coef, float(w[-1]), gap, steps, stopped, "liblinear", trace, w[:-1])
        tol *= 0.1


def _fit(X: Any, problem: Problem, tol: float, max_steps: int) -> tuple[Array, int]:
    limits = {"C": 0.5, "tol": tol, "dual": "auto", "max_iter": min(max_steps, 10_000)}
    if isinstance(problem, TubeProblem):
        loss = "squared_epsilon_insensitive"
        machine = LinearSVR(epsilon=problem.epsilon, loss=loss, **limits)
    else:
        machine = LinearSVC(**limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap tells it better
        machine.fit(X, problem.y, sample_weight=problem.box)
    return np.append(machine.coef_.ravel(), machine.intercept_), int(machine.n_iter_)
