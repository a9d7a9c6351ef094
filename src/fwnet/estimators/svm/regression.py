"""Kernel regression with a tube: fully corrective Frank-Wolfe on a growing hull.

    P = ½|w|² + ½b² + ½ Σ Cᵢeᵢ²,   eᵢ = sign(rᵢ) max(0, |rᵢ| − ε),   r = y − f
    D = yᵀu − ε Σ|uᵢ| − ½ uᵀ(k + 1)u − ½ Σ uᵢ²/Cᵢ

A coefficient uᵢ of either sign is a step towards one of the two vertices of its point, so the dual
is a problem over a simplex of 2n + 1 vertices, the last one being 0. A round admits the points
that violate their optimality condition u = Ce most, and takes the exact weights on their hull.
"""

from __future__ import annotations

import numpy as np

from fwnet.estimators.svm.certificate import concluded, kernel_gap
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.records import Expansion, TubeProblem, record, result_of
from fwnet.estimators.svm.store import KernelStore
from fwnet.trace import Clock, Status, Trace

_FIRST = 1024  # points that come in at once


def solve_tube(store: KernelStore, problem: TubeProblem, limits: Limits) -> Expansion:
    """Solve to the relative duality gap `limits.tol`, with kernel rows from `store`."""
    clock, trace = Clock(), Trace()
    status: Status | None
    store.kernel.clock = limits.clock
    n = len(problem.y)
    coef, scores, working = np.zeros(n), np.zeros(n), np.empty(0, np.int64)
    while True:
        value, gap = tube_gap(problem, coef, scores)
        record(trace, len(trace), -value, gap, clock)
        violations = np.sqrt(problem.box) * np.abs(problem.excess(scores) - coef / problem.box)
        violations[working] = 0.0
        wanting = int(np.count_nonzero(violations))
        stalled = not wanting and len(trace) > 2 and not gap <= 0.5 * trace[-2].gap
        status = limits.status(gap, len(trace) - 1, stalled)
        if status is not None:
            break
        extra = min(wanting, max(_FIRST, len(working)))
        if extra:
            new = np.argpartition(violations, -extra)[-extra:]
            working = np.concatenate([working, new])
        try:
            coef, scores, working = _corrected(store, problem, coef, working, limits.clock)
        except (np.linalg.LinAlgError, OutOfTime) as error:
            status = "max_seconds" if isinstance(error, OutOfTime) else "stalled"
            break
    store.kernel.clock = Clock()
    result = result_of(coef, status, len(trace) - 1, trace)
    solved = Expansion(result, float(coef.sum()), "corrective")
    gap = kernel_gap(store.kernel, problem, coef, scores)
    return concluded(solved, gap, limits.tol)


def _corrected(
    store: KernelStore, problem: TubeProblem, coef: Array, working: Array, clock: Clock
) -> tuple[Array, Array, Array]:
    """Return exact coefficients on the working points, all scores, and the working points."""
    n = len(coef)
    if len(working) == n:
        working = np.arange(n)
        kernel = store.square()
    else:
        kernel = store.entries(working, working)
    found = coef.copy()
    found[working] = exact_weights(kernel, problem.part(working), 1.0, coef[working], clock)
    support = np.flatnonzero(found)
    store.keep = support
    return found, store.combine(support, found[support]) + found.sum(), working


def tube_gap(problem: TubeProblem, coef: Array, scores: Array) -> tuple[float, float]:
    """Return D at the best multiple of the coefficients, and (P − D)/P."""
    excess = problem.excess(scores)
    square = float(coef @ scores)
    primal = 0.5 * (square + float(problem.box @ (excess * excess)))
    linear = float(problem.y @ coef) - problem.epsilon * float(np.abs(coef).sum())
    curve = square + float(coef @ (coef / problem.box))
    dual = 0.5 * max(linear, 0.0) ** 2 / curve if curve > 0 else 0.0
    return dual, 0.0 if primal == 0 else (primal - dual) / primal
