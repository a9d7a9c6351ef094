"""Linear machines with many features: liblinear through scikit-learn, certified afterwards."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits
from fwnet.estimators.svm.margin_problem import Expansion, MarginProblem, record
from fwnet.estimators.svm.newton import Part
from fwnet.trace import Clock, Recorder

_MOST = 10_000  # iterations of one run
_SAFE = 0.5  # share of the time left that a run may take, judged by the last run


def solve_liblinear(X: Any, problem: MarginProblem, limits: Limits) -> Expansion:
    """Run LinearSVC or LinearSVR with C/2, with our optimum, ever finer until the gap is met.

    A run cannot be broken off. With a limit of time the first one takes one iteration, each next
    one up to four times as many, and none is begun that would not end in time.
    """
    recorder, steps, tol = Recorder(limits.observers), 0, 10.0 * limits.tol
    part = Part(X, problem, limits.clock)
    most = _MOST if math.isinf(limits.clock.max_seconds) else 1
    while True:
        run = Clock()
        w, used = _fit(X, problem, tol, min(most, limits.max_steps))
        scores = part.scores(w)
        excess = problem.excess(scores)
        value, gap, factor = part.gap(w, scores, excess)
        steps += used
        record(recorder, steps, -value, gap)
        status = limits.status(gap, steps, stalled=tol < 1e-12)
        if used < most or most == _MOST:
            tol *= 0.1
        if status is None and not math.isinf(limits.clock.max_seconds):
            affordable = int(_SAFE * limits.clock.left * used / max(run.seconds, 1e-9))
            most = min(max(4 * used, 4), _MOST, affordable)
            if affordable <= used:
                status = "max_seconds"
        if status is not None:
            coef = factor * problem.box * excess
            return Expansion(coef, float(w[-1]), "liblinear", status, recorder.trace, w[:-1])


def _fit(X: Any, problem: MarginProblem, tol: float, max_steps: int) -> tuple[Array, int]:
    limits = {"C": 0.5, "tol": tol, "dual": "auto", "max_iter": max_steps}
    if not problem.labels:
        loss = "squared_epsilon_insensitive"
        machine = LinearSVR(epsilon=problem.epsilon, loss=loss, **limits)
    else:
        machine = LinearSVC(**limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says it better
        machine.fit(X, problem.y, sample_weight=problem.box)
    return np.append(machine.coef_.ravel(), machine.intercept_), int(machine.n_iter_)
