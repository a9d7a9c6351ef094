"""Small quadratic programs over the simplex, one after the other: NumPy, or machine code (Numba).

    pivot_all        min ½ xᵀQx + cᵀx by block pivots, which may fail
    active_set_all   the same by a monotone active set, which does not
    newton_all       the same for Q = ZZᵀ + diag(D), in feature space
    face_solve_all   Newton's equations on given faces

`machine_code("fwnet.quadratic.scalar")` holds the same functions compiled; there loops take the
place of LAPACK, whose calls cost more than the work up to n = 64.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compilable

_BLOCK_STEPS = 40
_NEWTON_STEPS = 12  # faces: nearly always enough
_PATIENCE = 3  # exchanges of everything that may fail to reduce the number of wrong signs
_WEAK = 1e-13  # a curvature below this, of the size of Q, is rounding
_IDLE = 3  # rounds of an active set that only remove rounding errors

_marked = compilable("reassoc", "contract")


@_marked
def pivot_all(Q, c, tol, eps, x, g, gap, solved):  # type: ignore[no-untyped-def]
    """Block pivots on each problem; `solved` says where they succeeded.

    Q, c      (batch, n, n) and (batch, n) float64
    tol, eps  gap relative to |⟨g, x⟩|, and the precision that the data came with
    x         (batch, n) points of the simplex whose supports are tried first; then the minimisers
    g, gap    (batch, n) Qx + c, and (batch,) what it certifies
    """
    n = Q.shape[1]
    work = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n, np.bool_)
    for b in range(Q.shape[0]):
        size, lift = _sizes(Q[b], c[b])
        limits = tol, 64.0 * eps * size, 100.0 * eps * size
        solved[b], gap[b] = _pivot(Q[b], c[b], lift, limits, x[b], g[b], work)


@_marked
def active_set_all(Q, c, tol, eps, steps, x, g, gap, solved):  # type: ignore[no-untyped-def]
    """The active-set method on each problem, from x; arguments as in `pivot_all`."""
    factor = np.empty(Q.shape[1:])
    for b in range(Q.shape[0]):
        size, lift = _sizes(Q[b], c[b])
        floor = 64.0 * eps * size
        gap[b], solved[b] = _active_set(Q[b], c[b], lift, tol, floor, steps, x[b], g[b], factor)


@_marked
def _sizes(Q, c):  # type: ignore[no-untyped-def]
    """A bound of |Q_ij| + |c_i| for a semidefinite Q; and what added to Q changes no minimiser."""
    diagonal, linear = 0.0, 0.0
    for i in range(c.size):
        diagonal, linear = max(diagonal, abs(Q[i, i])), max(linear, abs(c[i]))
    return diagonal + linear, diagonal if diagonal > 0.0 else 1.0


@_marked
def _pivot(Q, c, lift, limits, x, g, work):  # type: ignore[no-untyped-def]
    """Block pivots from the support of x: every sign that is wrong changes at once.

    Returns whether they succeed, and the gap; else x is on the face that was tried last.
    """
    tol, floor, weak = limits
    factor, right, ones, flip = work
    free = x > 0.0
    fewest, patience = x.size + 1, _PATIENCE
    for _ in range(_BLOCK_STEPS):
        face = np.flatnonzero(free)
        if face.size == 0:
            free[0] = True
            break
        if _factor(Q, lift, face, factor) <= weak:
            break
        u, v = right[: face.size], ones[: face.size]
        for k in range(face.size):
            u[k], v[k] = -c[face[k]], 1.0
        _substitute(factor, u)
        _substitute(factor, v)
        level = (1.0 - u.sum()) / v.sum()
        x[:] = 0.0
        x[face] = u + level * v
        x /= x.sum()  # 1 up to rounding
        _gradient(Q, c, face, x, g)
        low = level - lift - floor
        flip[:] = (free & (x < 0.0)) | (~free & (g < low))
        wrong = flip.sum()
        if wrong == 0:
            for _ in range(2):  # the right face: the second round removes rounding errors
                middle = (x * g).sum()
                gap = (x * (g - g.min())).sum()
                if gap <= max(tol * abs(middle), floor):
                    return True, gap
                x[face] += _newton(factor, face, middle, g)
                x[:] = np.maximum(x, 0.0)
                x /= x.sum()
                _gradient(Q, c, face, x, g)
            return False, gap
        patience = _PATIENCE if wrong < fewest else patience - 1
        fewest = min(fewest, wrong)
        if patience < 0:
            flip[: np.flatnonzero(flip)[-1]] = False
        free[:] = free ^ flip
    x[:] = 0.0
    x[free] = 1.0 / free.sum()
    return False, np.inf


@_marked
def _active_set(Q, c, lift, tol, floor, steps, x, g, factor):  # type: ignore[no-untyped-def]
    """Newton's step on a face as far as the simplex goes, one coordinate at a time; f never rises.

    Faces hold coordinates on which Q is positive definite (for Σ d = 0), so every step is unique.
    Starts from x where its gap is small, else from the best vertex. Returns the gap and whether
    it reaches the tolerance.

    Reference: Wolfe, Finding the nearest point in a polytope (1976).
    """
    n, everything = x.size, np.arange(x.size)
    _begin(Q, c, everything, x, g)
    face, m = np.empty(n, np.int64), 0
    left = x.copy()
    while left.max() > 0.0:  # a sort takes Numba seconds to compile
        j = int(left.argmax())
        left[j] = 0.0
        if x[j] > 0.0:
            m = _enter(Q, lift, j, x, g, face, m, factor)
    best, best_x, best_g, lowest = np.inf, x.copy(), g.copy(), np.inf
    tried, idle = np.zeros(n, np.bool_), 0
    for _ in range(steps):
        block = _advance(factor, face[:m], x, g)
        if block >= 0:
            m = _leave(Q, lift, block, face, m, factor)
        x /= x.sum()
        _gradient(Q, c, everything, x, g)
        if block >= 0:
            continue
        middle, value = (x * g).sum(), 0.5 * (x * (g + c)).sum()
        gap = (x * (g - g.min())).sum()
        if gap < best or value < lowest:
            tried[:] = False
        lowest = min(lowest, value)
        if gap < best:
            best, best_x[:], best_g[:] = gap, x, g
        if gap <= max(tol * abs(middle), floor):
            break
        tried[face[:m]] = True
        left[:] = g
        left[tried] = np.inf
        j = int(left.argmin())
        tried[j] = True  # until f or the gap falls
        if g[j] < middle and not (face[:m] == j).any():
            m = _enter(Q, lift, j, x, g, face, m, factor)
        else:
            idle += 1
            if idle > _IDLE:
                break
    x[:], g[:] = best_x, best_g
    return best, best <= max(tol * abs((x * g).sum()), floor)


@_marked
def _begin(Q, c, everything, x, g):  # type: ignore[no-untyped-def]
    """Keep x where its gap is small, else move to the best vertex; write the gradient."""
    _gradient(Q, c, everything, x, g)
    k = int((0.5 * np.diag(Q) + c).argmin())
    there = Q[k] + c
    if not (x * (g - g.min())).sum() < 0.01 * (there[k] - there.min()):
        x[:] = 0.0
        x[k] = 1.0
        g[:] = there


@_marked
def _advance(factor, face, x, g):  # type: ignore[no-untyped-def]
    """Newton's step on the face as far as x stays positive; which entry stopped it, or -1."""
    d = _newton(factor, face, (x * g).sum(), g)
    step, block = 1.0, -1
    for k in range(face.size):
        if d[k] < 0.0 and x[face[k]] < -step * d[k]:
            step, block = -x[face[k]] / d[k], k
    x[face] = np.maximum(x[face] + step * d, 0.0)
    if block >= 0:
        x[face[block]] = 0.0
    return block


@_marked
def _enter(Q, lift, j, x, g, face, m, factor):  # type: ignore[no-untyped-def]
    """Let j join the face of m coordinates, and return how many it has then.

    Where j depends on the others there is a direction e_j − Σ z_k e_k without curvature: x goes
    downhill on it until a coordinate is 0 and leaves, which may be j itself.
    """
    while m > 0:
        row = Q[j][face[:m]] + lift
        z = row.copy()
        _substitute(factor, z)
        if Q[j, j] + lift - (row * z).sum() > _WEAK * lift:
            break
        turn = 1.0 if g[j] <= (z * g[face[:m]]).sum() else -1.0
        step, block = np.inf if turn > 0.0 else x[j], m
        for k in range(m):
            if turn * z[k] > 0.0 and x[face[k]] < step * turn * z[k]:
                step, block = x[face[k]] / (turn * z[k]), k
        if not np.isfinite(step):  # Σ z = 1 but for rounding
            return m
        x[face[:m]] = np.maximum(x[face[:m]] - step * turn * z, 0.0)
        x[j] = max(x[j] + turn * step, 0.0)
        if block == m:
            x[j] = 0.0
            return m
        x[face[block]] = 0.0
        m = _leave(Q, lift, block, face, m, factor)
    face[m] = j
    _factor(Q, lift, face[: m + 1], factor)
    return m + 1


@_marked
def _leave(Q, lift, block, face, m, factor):  # type: ignore[no-untyped-def]
    """Remove an entry from the face, and return how many are left."""
    for k in range(block, m - 1):
        face[k] = face[k + 1]
    if m > 1:
        _factor(Q, lift, face[: m - 1], factor)
    return m - 1


@_marked
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
        for p in range(width):
            right[p] = 1.0 if p == width - 1 else 0.0
            for q in range(width):  # total[:] = gram[b] would compile its error messages too
                total[p, q] = gram[b, p, q] + (1.0 if p == q < width - 1 else 0.0)
        for i in range(n):
            if c[b, i] != 0.0:
                right -= (c[b, i] / D[b, i]) * rows[b, i]
        free[:], wanted[:] = True, True
        solved[b] = False
        for _ in range(_NEWTON_STEPS):
            _exchange_rows(rows[b], D[b], c[b], wanted, free, total, right)
            if not _factor(total, 0.0, face, gram[b]) > 0.0:
                break
            theta[:] = right
            _substitute(gram[b], theta)
            solved[b] = _weights_at(rows[b], D[b], c[b], theta, free, wanted, x[b])
            if solved[b]:
                break


@_marked
def _exchange_rows(rows, D, c, wanted, free, total, right):  # type: ignore[no-untyped-def]
    """Add rows that join the face to Newton's equations, and subtract those that leave it."""
    width = rows.shape[1]
    for i in range(free.size):
        if wanted[i] != free[i]:
            weight = (1.0 if wanted[i] else -1.0) / D[i]
            for p in range(width):
                part = weight * rows[i, p]
                right[p] -= part * c[i]
                for q in range(p, width):
                    total[p, q] += part * rows[i, q]
            free[i] = wanted[i]


@_marked
def _weights_at(rows, D, c, theta, free, wanted, x):  # type: ignore[no-untyped-def]
    """x at theta, and the face that it wants; whether that is the face that gave theta."""
    settled = True
    for i in range(x.size):
        excess = -c[i]
        for p in range(theta.size):
            excess -= rows[i, p] * theta[p]
        wanted[i] = excess > 0.0
        settled = settled and wanted[i] == free[i]
        x[i] = max(excess, 0.0) / D[i]
    return settled


@_marked
def face_solve_all(Q, free, r, eps, d, weak):  # type: ignore[no-untyped-def]
    """Newton's direction on a face of each problem, refined once; `weak` where there is no factor.

    Q_FF d_F = r_F + level 1,   Σ d = 0,   d = 0 elsewhere

    Q      (batch, n, n) float64;  free (batch, n) booleans;  r, d (batch, n);  weak (batch,)
    """
    n = Q.shape[1]
    factor, rest = np.empty((n, n)), np.empty(n)
    for b in range(Q.shape[0]):
        size = np.abs(np.diag(Q[b])).max()
        face = np.flatnonzero(free[b])
        d[b] = 0.0
        weak[b] = face.size == 0 or _factor(Q[b], 0.0, face, factor) <= 1e4 * eps * size
        if weak[b]:
            continue
        rest[:] = -r[b]
        for _ in range(2):
            d[b][face] += _newton(factor, face, rest[face].mean(), rest)
            _gradient(Q[b], -r[b], face, d[b], rest)


@_marked
def _newton(factor, face, middle, g):  # type: ignore[no-untyped-def]
    """Newton's step on the face, with sum 0: (RᵀR)⁻¹(middle − g + level)."""
    u, v = middle - g[face], np.ones(face.size)
    _substitute(factor, u)
    _substitute(factor, v)
    total = v.sum()  # not positive only if the factor is all rounding
    return u - (u.sum() / total) * v if total > 0.0 else 0.0 * v


def _factor_by_loops(Q, lift, face, factor):  # type: ignore[no-untyped-def]
    """Q_FF + lift = RᵀR with R in the upper half of `factor`; the smallest pivot, squared."""
    m = face.size
    for i in range(m):
        row = Q[face[i]]
        for j in range(i, m):
            factor[i, j] = row[face[j]] + lift
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


@compilable("reassoc", "contract", body=_factor_by_loops)
def _factor(Q, lift, face, factor):  # type: ignore[no-untyped-def]
    """The same by LAPACK; `factor` then holds the inverse, whose products take one call."""
    m = face.size
    try:
        inverse = np.linalg.inv(Q[face[:, None], face] + lift)
    except np.linalg.LinAlgError:
        return 0.0
    factor[:m, :m] = inverse
    pivots = inverse.diagonal()  # one over the last pivot, whichever comes last
    return 1.0 / pivots.max() if pivots.min() > 0.0 else 0.0


def _substitute_by_loops(factor, u):  # type: ignore[no-untyped-def]
    """u ← (RᵀR)⁻¹ u."""
    m = u.size
    for k in range(m):
        u[k] /= factor[k, k]
        for j in range(k + 1, m):
            u[j] -= factor[k, j] * u[k]
    for k in range(m - 1, -1, -1):
        total = u[k]
        for j in range(k + 1, m):
            total -= factor[k, j] * u[j]
        u[k] = total / factor[k, k]


@compilable("reassoc", "contract", body=_substitute_by_loops)
def _substitute(factor, u):  # type: ignore[no-untyped-def]
    """The same with the inverse."""
    u[:] = factor[: u.size, : u.size].dot(u)


def _gradient_by_loops(Q, c, face, x, g):  # type: ignore[no-untyped-def]
    """g ← Qx + c for an x on the face."""
    g[:] = c
    for k in range(face.size):
        row, weight = Q[face[k]], x[face[k]]
        for i in range(g.size):
            g[i] += weight * row[i]


@compilable("reassoc", "contract", body=_gradient_by_loops)
def _gradient(Q, c, face, x, g):  # type: ignore[no-untyped-def]
    """The same by BLAS."""
    np.dot(Q, x, out=g)
    g += c
