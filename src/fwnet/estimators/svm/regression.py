"""Kernel regression with a tube: fully corrective Frank-Wolfe on a growing hull.

    P = ½|w|² + ½b² + ½ Σ Cᵢeᵢ²,   eᵢ = sign(rᵢ) max(0, |rᵢ| − ε),   r = y − f
    D = yᵀu − ε Σ|uᵢ| − ½ uᵀ(k + 1)u − ½ Σ uᵢ²/Cᵢ

A coefficient uᵢ of either sign is a step towards one of the two vertices of its point, so the dual
is a problem over a simplex of 2n + 1 vertices, the last one being 0. A round admits the points
that violate their optimality condition u = Ce most, and takes the exact weights on their hull.
"""

from __future__ import annotations

import time

import numpy as np

from fwnet.estimators.svm.certificate import certified_kernel
from fwnet.estimators.svm.columns import Columns
from fwnet.estimators.svm.hull import exact_weights
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.records import Budget, Machine, Round, TubeProblem

_FIRST = 1024  # points that come in at once


def solve_tube(columns: Columns, problem: TubeProblem, budget: Budget) -> Machine:
    """Solve to the relative duality gap `budget.tol`, with kernel rows from `columns`."""
    began, trace, stopped = time.perf_counter(), list[Round](), ""
    n = len(problem.y)
    coef, scores, working = np.zeros(n), np.zeros(n), np.empty(0, np.int64)
    while True:
        value, gap = tube_gap(problem, coef, scores)
        support = np.flatnonzero(coef)
        seconds = time.perf_counter() - began
        trace.append(Round(len(trace), value, gap, len(support), seconds))
        lack = np.sqrt(problem.box) * np.abs(problem.excess(scores) - coef / problem.box)
        lack[working] = 0.0
        wanting = int(np.count_nonzero(lack))
        if gap <= budget.tol:
            stopped = "tolerance"
        elif len(trace) > budget.max_steps:
            stopped = "max_iter"
        elif time.perf_counter() >= budget.deadline:
            stopped = "max_time"
        elif not wanting and len(trace) > 2 and not gap <= 0.5 * trace[-2].gap:
            stopped = "precision"
        if stopped:
            break
        extra = min(wanting, max(_FIRST, len(working)))
        if extra:
            new = np.argpartition(lack, -extra)[-extra:]
            working = np.concatenate([working, new])
        kernel = columns.square() if len(working) == n else columns.rows(working, working)
        if len(working) == n:
            working = np.arange(n)
        part = problem.part(working)
        try:
            coef[working] = exact_weights(kernel, part, 1.0, coef[working])
        except np.linalg.LinAlgError:
            stopped = "precision"
            break
        support = np.flatnonzero(coef)
        columns.fetch(support, support)
        scores = columns.combine(support, coef[support]) + coef.sum()
    steps = len(trace) - 1
    solved = Machine(coef, float(coef.sum()), gap, steps, stopped, "corrective", trace)
    return certified_kernel(columns.kernel, problem, solved, scores, budget.tol)


def tube_gap(problem: TubeProblem, coef: Array, scores: Array) -> tuple[float, float]:
    """Return D at the best multiple of the coefficients, and (P − D)/P."""
    excess = problem.excess(scores)
    square = float(coef @ scores)
    primal = 0.5 * (square + float(problem.box @ (excess * excess)))
    linear = float(problem.y @ coef) - problem.epsilon * float(np.abs(coef).sum())
    curve = square + float(coef @ (coef / problem.box))
    dual = 0.5 * max(linear, 0.0) ** 2 / curve if curve > 0 else 0.0
    return dual, 0.0 if primal == 0 else (primal - dual) / primal
