"""The duality gap of what a fit returns, with a bound on the rounding errors of the gap itself.

    P = ½|w|² + ½b² + ½ Σ Cᵢeᵢ²      D = tᵀu − ½|v|² − ½ Σ uᵢ²/Cᵢ,   v = Σ uᵢ(φᵢ, 1)
    P − D = ½|(w, b) − v|² + Σ (½Cᵢeᵢ² + ½uᵢ²/Cᵢ − uᵢ(tᵢ − fᵢ))

u are the coefficients, w and b the weights that are returned; for a linear kernel w is a vector of
its own, rounded, and P is that of this vector. No term of the last line is negative and none is
large near the optimum, so nothing cancels, and an error of a score fᵢ counts |uᵢ − Cᵢeᵢ| times.
Every score enters with the error that it may have. A sum of k terms in precision ε is taken to be
off by at most (2 + 4√k)ε of the terms' sizes: rounding errors do not all have one sign (if they
had, it were kε). Where that is too much for a linear machine, its sums are taken again in extended
precision.

Reference: Higham and Mary (2019), "A new approach to probabilistic rounding error analysis".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from fwnet.estimators.svm.encoding import Encoded, Encoding, squared_norms
from fwnet.estimators.svm.kernels import Array, KernelRows, KernelSpec, tiles
from fwnet.estimators.svm.limits import BY_PRECISION
from fwnet.estimators.svm.margin_problem import Expansion, MarginProblem
from fwnet.trace import Clock

_SAMPLE = 256  # points whose scores are taken in float64 where the time is short
_ENTRIES = 1 << 20  # numbers that are taken into extended precision at a time


def scores_in_double(
    X: Any,
    spec: KernelSpec,
    encoding: Encoding,
    problem: MarginProblem,
    u: Array,
    scores: Array,
    scale: float,
    clock: Clock,
    threads: int,
) -> Array:
    """Return Σ uⱼ(k(·, xⱼ) + bias) (n,) evaluated again in float64, given these sums in float32.

    `scale` turns them into scores of the machine, see `MarginProblem.scale`.

    Only support vectors and points near or beyond the margin enter P and D, and only they are
    evaluated: a point that is within its margins by ten times the largest rounding error seen has
    no loss, and keeps its sum. Raises OutOfTime by the clock.
    """
    support = np.flatnonzero(u)
    weights, encoding = u[support], encoding.for_few(X, len(support))
    points, total = encoding.encode(X, np.float64, support), problem.bias * weights.sum()
    exact = scores.copy()
    sums = np.zeros(len(support))
    for rows, columns, tile in tiles(spec, points, clock=clock, threads=threads):
        sums[rows] += tile @ weights[columns]
        if rows != columns:
            sums[columns] += weights[rows] @ tile
    exact[support] = sums + total
    error, guard = float(np.abs(exact - scores).max()), -1.0
    room, unknown = problem.room(scale * scores), u == 0
    while guard < (wide := max(1e-3 * problem.size, 20.0 * scale * error)):
        guard = wide
        near = np.flatnonzero((room < guard) & unknown)
        if not len(near):
            break
        others = encoding.encode(X, np.float64, near)
        exact[near] = _sums(spec, others, points, weights, clock, threads) + total
        unknown[near] = False
        error = max(error, float(np.abs(exact[near] - scores[near]).max()))
    return exact


def _sums(
    spec: KernelSpec,
    left: Encoded,
    right: Encoded,
    weights: Array,
    clock: Clock | None = None,
    threads: int = 1,
) -> Array:
    """Return Σ weightsⱼ k(xᵢ, xⱼ) for the points i on the left and j on the right."""
    sums = np.zeros(len(left))
    for rows, columns, tile in tiles(spec, left, right, clock=clock, threads=threads):
        sums[rows] += tile @ weights[columns]
    return sums


def sampled_error(
    X: Any, spec: KernelSpec, encoding: Encoding, problem: MarginProblem, u: Array, scores: Array
) -> float:
    """Return ten times the largest rounding error of the scores among some points.

    A bound from the precision of single kernel values is a hundred times as large.
    """
    support, some = np.flatnonzero(u), problem.order[:_SAMPLE]
    left, right = (encoding.encode(X, np.float64, index) for index in (some, support))
    exact = _sums(spec, left, right, u[support]) + problem.bias * u.sum()
    return 10.0 * float(np.abs(exact - scores[some]).max())


def kernel_gap(
    kernel: KernelRows,
    problem: MarginProblem,
    coef: Array,
    scores: Array,
    error: float | None,
) -> float:
    """Return (P − D)/P of the coefficients, given f (n,) summed from the kernel.

    `error` bounds that of f; without it, f is taken to be summed in float64, where

    |f − f_exact| <= (κ + (2 + 4√s)ε) √(kᵢᵢ + 1) Σ|uⱼ|√(kⱼⱼ + 1),   κ the kernel's own error
    """
    support = np.flatnonzero(coef)
    u = coef[support]
    if error is None:
        sizes = np.sqrt(np.abs(kernel.diagonal()) + problem.bias)
        each = kernel.stored_rounding if kernel.trusted else kernel.rounding()
        share = each + _rounding(len(support))
        errors = share * float(sizes[support] @ np.abs(u)) * sizes
    else:
        errors = np.full(len(scores), error)
    square = max(float(u @ scores[support]), 0.0)
    return _gap(problem, coef, _Sums(scores, errors, square, 0.0))


def certified_linear(X: Any, problem: MarginProblem, solved: Expansion, tol: float) -> Expansion:
    """Return the linear machine with the gap of its vector w, its intercept and coefficients."""
    gap = _gap(problem, solved.coef, _linear_sums(X, problem, solved, np.float64))
    if gap > tol and solved.status in BY_PRECISION:  # rounding may decide
        gap = min(gap, _gap(problem, solved.coef, _linear_sums(X, problem, solved, np.longdouble)))
    return solved.certified(gap, tol)


def combination(X: Any, coef: Array) -> Array:
    """Return Σ coefᵢxᵢ (d,), exactly rounded where much of it cancels."""
    support = np.flatnonzero(coef)
    points, u = X[support], coef[support]
    w = np.asarray(u @ points)
    error = _rounding(len(support)) * float(np.abs(u) @ np.sqrt(squared_norms(points)))
    if error <= 1e-10 * float(np.linalg.norm(w)):
        return w
    if sparse.issparse(points) or points.size > _ENTRIES:
        return np.asarray(_times(points, u, np.longdouble), np.float64)
    return np.array([math.fsum(_products(u, column)) for column in points.T])


def _products(a: Array, b: Array) -> Array:
    """Return numbers (2n,) whose sum is that of aᵢbᵢ, exactly: products and what they round off.

    Reference: Dekker (1971), "A floating-point technique for extending the available precision".
    """
    high_a, high_b = (x * 134217729.0 - (x * 134217729.0 - x) for x in (a, b))  # 2²⁷ + 1
    low_a, low_b, product = a - high_a, b - high_b, a * b
    error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return np.concatenate([product, error])


@final
@dataclass(frozen=True, eq=False)
class _Sums:
    """What P and D are made of."""

    scores: Array  # (n,) f
    errors: Array  # (n,) bounds of their errors
    square: float  # |w|² + b²
    apart: float  # |(w, b) − v|, its error added


def _linear_sums(X: Any, problem: MarginProblem, solved: Expansion, dtype: Any) -> _Sums:
    assert solved.w is not None
    bias = problem.bias
    eps, w, b = float(np.finfo(dtype).eps), solved.w.astype(dtype), dtype(solved.intercept)
    support, norms = np.flatnonzero(solved.coef), np.sqrt(squared_norms(X))
    u = solved.coef[support]
    square = float(w @ w + b * b)
    errors = _rounding(len(w) + 1, eps) * (norms * math.sqrt(float(w @ w)) + abs(float(b)))
    few = 5 * len(support) < len(norms)  # else a pass over all rows costs less than to copy some
    v = _times(X[support], u, dtype) if few else _times(X, solved.coef, dtype)
    beside, above = v - w, bias * u.astype(dtype).sum() - b
    away = _rounding(len(support), eps) * float(np.abs(u) @ (norms[support] + bias))
    apart = math.sqrt(float(beside @ beside + above * above)) + away
    return _Sums(_scores(X, w, b, dtype), errors, square, apart)


def _scores(X: Any, w: Array, b: Any, dtype: Any) -> Array:
    if dtype is np.float64:
        return np.asarray(X @ w + b)
    step = max(1, _ENTRIES // max(1, X.shape[1]))
    parts = [X[lo : lo + step].astype(dtype) @ w for lo in range(0, X.shape[0], step)]
    return np.asarray(np.concatenate(parts) + b)


def _times(points: Any, u: Array, dtype: Any) -> Array:
    """Return Σ uᵢxᵢ (d,)."""
    if dtype is np.float64:
        return np.asarray(u @ points)
    step, total = max(1, _ENTRIES // max(1, points.shape[1])), np.zeros(points.shape[1], dtype)
    for lo in range(0, len(u), step):
        part = points[lo : lo + step].astype(dtype)
        total += part.T @ u[lo : lo + step].astype(dtype)
    return total


def _gap(problem: MarginProblem, coef: Array, sums: _Sums) -> float:
    """Return (P − D)/P, each term of P − D the largest that the errors of the scores allow."""
    clear = (problem.room(sums.scores) > sums.errors) & (coef == 0)  # not so for NaN
    some = np.flatnonzero(~clear)
    p, coef, scores, errors = problem.part(some), coef[some], sums.scores[some], sums.errors[some]
    signs, terms = np.sign(coef), np.zeros(len(coef), scores.dtype)  # all others are 0
    aims, share = p.aims(signs), coef * coef / p.box
    for f in (scores + errors, scores - errors):  # convex in f: one end is the largest
        excess = p.excess(f)
        inside = (excess != 0) & (np.sign(excess) == signs)
        apart = p.box * excess - coef
        far = 0.5 * (p.box * excess * excess + share) - coef * (aims - f)
        np.maximum(terms, np.where(inside, 0.5 * apart * apart / p.box, far), out=terms)
    excess = p.excess(scores)
    primal = 0.5 * (sums.square + float(p.box @ (excess * excess)))
    lost = float(terms.sum()) + 0.5 * sums.apart**2
    return float(lost > 0) if primal == 0 else lost / primal


def _rounding(terms: int, eps: float = float(np.finfo(np.float64).eps)) -> float:
    return eps * (2.0 + 4.0 * math.sqrt(terms))
