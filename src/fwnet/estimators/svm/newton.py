"""Finite Newton for linear machines with few features.

    P(w) = ½|w|² + ½ Σ Cᵢeᵢ²,   e = 0 or t − ⟨w, x⟩,   the bias being one more feature 1

P is quadratic where the set of points with a loss stays the same, so a Newton step is exact
there and the sequence ends in a few solves of d × d systems. The first rounds see a sample, with C
raised by what is missing.

    w⁺ = (I + Σ_S Cᵢ xᵢxᵢᵀ)⁻¹ Σ_S Cᵢtᵢxᵢ       S = {i: eᵢ ≠ 0}

The dual point Cᵢeᵢ, scaled by the best factor, gives the duality gap.

Reference: Keerthi and DeCoste (2005), "A modified finite Newton method".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dposv

from fwnet.estimators.svm.hull import cholesky, line_search
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime, check_time
from fwnet.estimators.svm.margin_problem import Expansion, MarginProblem, record
from fwnet.trace import Clock, Recorder, Trace

_SAMPLE = 2000  # points of the first round; each next one takes five times as many
_LARGE = 2048  # features from which the clock is looked at during a factorisation
_CHUNK = 1 << 20  # entries that are gathered at a time
_PATIENCE = 5  # rounds without a tenth of progress in the gap that end a run


def solve_newton(
    X: Any, problem: MarginProblem, limits: Limits, start: Array | None = None
) -> Expansion:
    """Solve one linear problem with points X (n, d), dense or CSR, from w = start (d + 1,)."""
    n, d = X.shape
    recorder, steps = Recorder(limits.observers), 0
    trace = recorder.trace
    w = np.zeros(d + 1) if start is None else start
    size = max(_SAMPLE, 3 * d)
    while start is None and 3 * size < n:
        sample = problem.order[:size]
        some = problem.part(sample)
        part = Part(X[sample], replace(some, box=some.box * (n / size)), limits.clock)
        w, used = part.minimise(w, 1e-2, limits.max_steps - steps)
        steps, size = steps + used, 5 * size
    part = Part(X, problem, limits.clock)
    while True:
        scores = part.scores(w)
        excess = problem.excess(scores)
        value, gap, factor = part.gap(w, scores, excess)
        record(recorder, steps, -value, gap)
        stalled = len(trace) > 1 and (steps == trace[-2].t or _stalled(trace))
        status = limits.status(gap, steps, stalled)
        if status is not None:
            break
        w, used = part.minimise(w, 0.3 * limits.tol, limits.max_steps - steps, scores)
        steps += used
    coef = factor * problem.box * excess
    return Expansion(coef, float(w[-1]), "newton", status, trace, w[:-1])


@final
class Part:
    """Some of the points; minimises P over them and takes the duality gap."""

    def __init__(self, X: Any, problem: MarginProblem, clock: Clock) -> None:
        self.X, self.problem, self.box, self.clock = X, problem, problem.box, clock

    def scores(self, w: Array) -> Array:
        """⟨w, x⟩ + b of every point (n,)."""
        return np.asarray(self.X @ w[:-1] + w[-1])

    def back(self, rows: Array, values: Array) -> Array:
        """Return Σ valuesᵢ(xᵢ, 1) over the rows."""
        if 5 * len(rows) < len(self.box):
            return np.append(values @ self.X[rows], values.sum())
        spread = np.zeros(len(self.box))  # a pass over all rows costs less than to copy these
        spread[rows] = values
        return np.append(spread @ self.X, values.sum())

    def gap(self, w: Array, scores: Array, excess: Array) -> tuple[float, float, float]:
        """Return the dual value at factor·Ce, (P − D)/P, and the best factor."""
        inside = np.flatnonzero(excess)
        if not len(inside):
            return 0.0, 1.0 if w.any() else 0.0, 1.0
        excess, target = excess[inside], excess[inside] + scores[inside]
        coef = self.box[inside] * excess
        loss, v = float(coef @ excess), self.back(inside, coef)
        primal, curve, total = (
            0.5 * (float(w @ w) + loss),
            float(v @ v) + loss,
            float(coef @ target),
        )
        if total <= 0:  # no multiple of Ce is better than 0
            return 0.0, 1.0, 0.0
        dual = 0.5 * total * (total / curve)
        return dual, (primal - dual) / primal, total / curve

    def minimise(
        self, w: Array, goal: float, max_steps: int, scores: Array | None = None
    ) -> tuple[Array, int]:
        """Newton steps with exact line search until the relative gap on this part is `goal`."""
        scores = self.scores(w) if scores is None else scores
        hessian, right = np.eye(len(w)), np.zeros(len(w))
        inside = aims = np.zeros(len(self.box))
        for used in range(min(max_steps, 60)):
            excess = self.problem.excess(scores)
            now = np.sign(excess)
            if used and self.gap(w, scores, excess)[1] <= goal:
                return w, used
            try:
                self._update(hessian, right, (inside, aims), (now, scores + excess))
                target = _solve(hessian, right, self.clock)
            except OutOfTime:
                return w, used
            inside, aims = now, scores + excess
            move = target - w
            change = self.scores(move)  # not a difference of scores, which may cancel
            t = line_search(float(w @ move), float(move @ move), self.problem, scores, change)
            w, scores = w + t * move, scores + t * change
        return w, min(max_steps, 60)

    def _update(
        self, hessian: Array, right: Array, before: tuple[Array, Array], now: tuple[Array, Array]
    ) -> None:
        """Bring I + Σ Cᵢxᵢxᵢᵀ and Σ Cᵢtᵢxᵢ from the signs and targets `before` to those `now`."""
        changed = before[0] != now[0]
        joined = np.flatnonzero(changed & (now[0] != 0))
        left = np.flatnonzero(changed & (before[0] != 0))
        if len(joined) + len(left) > np.count_nonzero(now[0]):
            hessian[:], right[:] = np.eye(len(right)), 0.0
            joined, left = np.flatnonzero(now[0]), left[:0]
        for rows, sign, aims in ((joined, 1.0, now[1]), (left, -1.0, before[1])):
            step = max(1, _CHUNK // len(right))
            for lo in range(0, len(rows), step):
                check_time(self.clock)
                some = rows[lo : lo + step]
                self._add(hessian, right, some, sign, aims[some])

    def _add(self, hessian: Array, right: Array, rows: Array, sign: float, aims: Array) -> None:
        points, box = self.X[rows], self.box[rows]
        dense = points.toarray() if sparse.issparse(points) else points
        even = bool((box == box[0]).all())
        if not even:
            dense = dense * np.sqrt(box)[:, None]
        scale, root = (sign * box[0], np.ones(len(box))) if even else (sign, np.sqrt(box))
        total = scale * (root @ dense)
        hessian[:-1, :-1] += scale * (dense.T @ dense)
        hessian[-1, :-1] += total
        hessian[:-1, -1] += total
        hessian[-1, -1] += scale * float(root @ root)
        right += scale * np.append((root * aims) @ dense, float(root @ (root * aims)))


def _solve(hessian: Array, right: Array, clock: Clock) -> Array:
    check_time(clock)
    if len(right) > _LARGE and np.isfinite(hessian.trace()):
        try:
            return np.asarray(cho_solve(cholesky(hessian.copy(), clock), right))
        except np.linalg.LinAlgError:
            pass  # below, LAPACK fails too
    if not np.isfinite(hessian.trace()):  # the gap will not be a number, and says so
        return np.full(len(right), np.nan)
    _, solution, failed = dposv(hessian, right, lower=1)  # a third of cho_solve's time at d = 64
    if not failed:
        return np.asarray(solution)
    # Rounding has eaten the identity in I + Σ Cᵢxᵢxᵢᵀ.
    values, vectors = np.linalg.eigh(hessian)
    return np.asarray(vectors @ ((vectors.T @ right) / np.maximum(values, 1.0)))


def _stalled(trace: Trace) -> bool:
    """Whether the last rounds made less than a tenth of progress in the gap."""
    gaps = trace.column("gap")
    return len(gaps) > _PATIENCE and not min(gaps[-_PATIENCE:]) <= 0.9 * min(gaps[:-_PATIENCE])
