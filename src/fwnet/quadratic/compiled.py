"""Many small quadratic programs over the simplex, one after the other in compiled code (Numba).

The same block pivots as for batches, without the call overhead that decides up to n = 64. Whatever
is not plain (a weak pivot, a cycle, a tolerance that is not reached) is left to the batched code.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compiled

_BLOCK_STEPS = 40
_NEWTON_STEPS = 12  # faces: nearly always enough
_PATIENCE = 3  # exchanges of everything that may fail to reduce the number of wrong signs


_compiled = compiled("reassoc", "contract")


@_compiled
def pivot_all(Q, c, start, tol, eps, x, g, gap, solved):  # type: ignore[no-untyped-def]
    """Block pivots on each problem; `solved` says where they succeeded.

    Q         (batch, n, n) float64;  c (batch, n);  start (batch, n), whose support is tried first
    tol, eps  gap relative to |⟨g, x⟩|, and the precision that the data came with
    x, g      (batch, n) the minimisers and Qx + c;  gap (batch,);  solved (batch,) booleans
    """
    n = Q.shape[1]
    factor, face, u, v = np.empty((n, n)), np.empty(n, np.int64), np.empty(n), np.empty(n)
    free, flip = np.empty(n, np.bool_), np.empty(n, np.bool_)
    for b in range(Q.shape[0]):
        size, lift = 0.0, 0.0
        for i in range(n):
            size, lift = max(size, abs(Q[b, i, i])), max(lift, abs(c[b, i]))
        size += lift
        floor = 64.0 * eps * size
        free[:] = start[b] > 0.0
        solved[b] = False
        fewest, patience = n + 1, _PATIENCE
        for _ in range(_BLOCK_STEPS):
            m = _pack(free, face)
            if m == 0 or _factor(Q[b], face, m, factor) <= 100.0 * eps * size:
                break
            for k in range(m):
                u[k], v[k] = -c[b, face[k]], 1.0
            _substitute(factor, m, u)
            _substitute(factor, m, v)
            level = (1.0 - u[:m].sum()) / v[:m].sum()
            x[b] = 0.0
            for k in range(m):
                x[b, face[k]] = u[k] + level * v[k]
            x[b] /= x[b].sum()  # 1 up to rounding
            _gradient(Q[b], c[b], face, m, x[b], g[b])
            wrong, last = 0, 0
            for i in range(n):
                flip[i] = x[b, i] < 0.0 if free[i] else g[b, i] < level - floor
                if flip[i]:
                    wrong, last = wrong + 1, i
            if wrong == 0:
                for _ in range(2):  # the right face: the second round removes rounding errors
                    middle = np.dot(x[b], g[b])
                    gap[b] = middle - g[b].min()
                    if gap[b] <= max(tol * abs(middle), floor):
                        solved[b] = True
                        break
                    _refine(factor, face, m, middle, x[b], g[b], u, v)
                    x[b] = np.maximum(x[b], 0.0)
                    x[b] /= x[b].sum()
                    _gradient(Q[b], c[b], face, m, x[b], g[b])
                break
            patience = _PATIENCE if wrong < fewest else patience - 1
            fewest = min(fewest, wrong)
            for i in range(n):
                if flip[i] and (patience >= 0 or i == last):
                    free[i] = not free[i]


@_compiled
def newton_all(rows, D, c, gram, x, solved):  # type: ignore[no-untyped-def]
    """Finite Newton in feature space with full steps; see `fwnet.quadratic.features`.

    rows  (batch, n, d + 1) float64, each (z, −1);  D, c (batch, n), D positive
    gram  (batch, d + 1, d + 1) Σ rows rowsᵀ/D; becomes the last face's factor, in its upper half
    x     (batch, n) the minimisers up to rounding;  solved (batch,) where the faces settled
    """
    n, width = rows.shape[1], rows.shape[2]
    total, right, theta = np.empty((width, width)), np.empty(width), np.empty(width)
    face, free, wanted = np.arange(width), np.empty(n, np.bool_), np.empty(n, np.bool_)
    for b in range(rows.shape[0]):
        total[:], right[:] = gram[b], 0.0
        for p in range(width - 1):
            total[p, p] += 1.0
        right[width - 1] = 1.0
        for i in range(n):
            if c[b, i] != 0.0:
                right -= (c[b, i] / D[b, i]) * rows[b, i]
        free[:], wanted[:] = True, True
        solved[b] = False
        for _ in range(_NEWTON_STEPS):
            for i in range(n):
                if wanted[i] != free[i]:
                    row, weight = rows[b, i], (1.0 if wanted[i] else -1.0) / D[b, i]
                    for p in range(width):
                        part = weight * row[p]
                        right[p] -= part * c[b, i]
                        for q in range(p, width):
                            total[p, q] += part * row[q]
                    free[i] = wanted[i]
            if not _factor(total, face, width, gram[b]) > 0.0:
                break
            theta[:] = right
            _substitute(gram[b], width, theta)
            settled = True
            for i in range(n):
                excess = -c[b, i]
                for p in range(width):
                    excess -= rows[b, i, p] * theta[p]
                wanted[i] = excess > 0.0
                settled = settled and wanted[i] == free[i]
                x[b, i] = max(excess, 0.0) / D[b, i]
            if settled:
                solved[b] = True
                break


@_compiled
def face_solve_all(Q, free, r, eps, d, weak):  # type: ignore[no-untyped-def]
    """Newton's direction on a face of each problem, refined once; `weak` where there is no factor.

    Q_FF d_F = r_F + level 1,   Σ d = 0,   d = 0 elsewhere

    Q      (batch, n, n) float64;  free (batch, n) booleans;  r, d (batch, n);  weak (batch,)
    """
    n = Q.shape[1]
    factor, face = np.empty((n, n)), np.empty(n, np.int64)
    u, v, rest = np.empty(n), np.empty(n), np.empty(n)
    for b in range(Q.shape[0]):
        size = 0.0
        for i in range(n):
            size = max(size, abs(Q[b, i, i]))
        m = _pack(free[b], face)
        d[b] = 0.0
        weak[b] = m == 0 or _factor(Q[b], face, m, factor) <= 1e4 * eps * size
        if weak[b]:
            continue
        rest[:] = -r[b]
        for _ in range(2):
            middle = 0.0
            for k in range(m):
                middle += rest[face[k]] / m
            _refine(factor, face, m, middle, d[b], rest, u, v)
            _gradient(Q[b], -r[b], face, m, d[b], rest)


@_compiled
def _pack(free, face):  # type: ignore[no-untyped-def]
    m = 0
    for i in range(free.shape[0]):
        if free[i]:
            face[m] = i
            m += 1
    return m


@_compiled
def _factor(Q, face, m, factor):  # type: ignore[no-untyped-def]
    """Q_FF = RᵀR with R in the upper half of `factor`; return the smallest pivot, squared."""
    for i in range(m):
        row = Q[face[i]]
        for j in range(i, m):
            factor[i, j] = row[face[j]]
    least = np.inf
    for k in range(m):
        pivot = factor[k, k]
        least = min(least, pivot)
        if not pivot > 0.0:
            return 0.0
        scale = 1.0 / np.sqrt(pivot)
        for j in range(k, m):
            factor[k, j] *= scale
        for i in range(k + 1, m):
            times = factor[k, i]
            for j in range(i, m):
                factor[i, j] -= times * factor[k, j]
    return least


@_compiled
def _substitute(factor, m, u):  # type: ignore[no-untyped-def]
    """u ← (RᵀR)⁻¹ u."""
    for k in range(m):
        u[k] /= factor[k, k]
        for j in range(k + 1, m):
            u[j] -= factor[k, j] * u[k]
    for k in range(m - 1, -1, -1):
        total = u[k]
        for j in range(k + 1, m):
            total -= factor[k, j] * u[j]
        u[k] = total / factor[k, k]


@_compiled
def _refine(factor, face, m, middle, x, g, u, v):  # type: ignore[no-untyped-def]
    """Newton's step on the face, its sum kept: x += (RᵀR)⁻¹(middle − g + level)."""
    for k in range(m):
        u[k], v[k] = middle - g[face[k]], 1.0
    _substitute(factor, m, u)
    _substitute(factor, m, v)
    level = -u[:m].sum() / v[:m].sum()
    for k in range(m):
        x[face[k]] += u[k] + level * v[k]


@_compiled
def _gradient(Q, c, face, m, x, g):  # type: ignore[no-untyped-def]
    """g ← Qx + c for an x on the face."""
    g[:] = c
    for k in range(m):
        row, weight = Q[face[k]], x[face[k]]
        for i in range(g.shape[0]):
            g[i] += weight * row[i]
