"""The atom that `corrective-atoms` proposes, for one problem, compiled (Numba).

The same formulas as in `controllers/atoms.py`.
"""

from __future__ import annotations

import numpy as np

from fwnet.compiled_quadratic_programs import _compiled, _factor, _substitute
from fwnet.learned.compiled_points import layer, project

_SWEEPS = 20  # of Jacobi's rotations: six are usual


@_compiled
def learned_atom(  # type: ignore[no-untyped-def]
    x, image, gradient, last_x, vertex, column, points, images,
    sigma, momentum, share, cut, radius, steps, halvings, eps, v,
):  # fmt: skip
    """p_θ of `LearnedAtoms` on a `Quadratic`, whose images are Hx, into `v`.

    x, image, gradient, last_x, v, the vertex and its column  (n,);  points, images  (memory, n)
    """
    count, n = points.shape[0] + 1, x.shape[0]
    ways, rest = np.empty((count, n), x.dtype), np.empty((count, n), x.dtype)
    small, vectors = np.empty((count, count)), np.empty((count, count))
    known = np.empty((count, count), x.dtype)
    _way(x, image, vertex, column, sigma, eps, ways[0], rest[0])
    for k in range(1, count):
        _way(x, image, points[k - 1], images[k - 1], sigma, eps, ways[k], rest[k])
    for j in range(count):
        for k in range(j + 1):
            total = 0.0
            for i in range(n):
                total += rest[j, i] * ways[k, i]
            small[j, k] = small[k, j] = total  # H is symmetric
    _eigen(small, vectors)
    largest = 0.0
    for k in range(count):
        largest = max(largest, abs(small[k, k]))
    kept = 0
    for k in range(count):
        if small[k, k] > cut * largest and share > 0.0:
            for j in range(count):
                known[kept, j] = share / np.sqrt(small[k, k]) * vectors[j, k]
            kept += 1
    Z = ways  # which are done with
    layer(known[:kept], np.zeros(kept, x.dtype), rest, n, Z)
    ahead = np.empty(n, x.dtype)
    for i in range(n):
        ahead[i] = momentum * (x[i] - last_x[i]) - gradient[i] / sigma
    _model_minimum(x, ahead, Z, kept, sigma, radius, steps, halvings, eps, v)


@_compiled
def _way(x, image, goal, bent, sigma, eps, way, rest):  # type: ignore[no-untyped-def]
    """The unit vector w from x to a point, and Hw − σw."""
    square = 0.0
    for i in range(x.shape[0]):
        way[i] = goal[i] - x[i]
        square += way[i] * way[i]
    scale = 1.0 / max(np.sqrt(square), eps * eps)
    for i in range(x.shape[0]):
        way[i] *= scale
        rest[i] = (bent[i] - image[i]) * scale - sigma * way[i]


@_compiled
def _eigen(A, V):  # type: ignore[no-untyped-def]
    """Jacobi's rotations: A becomes the diagonal of its eigenvalues, V its eigenvectors."""
    n = A.shape[0]
    size = 0.0
    for p in range(n):
        for q in range(n):
            V[p, q] = 1.0 if p == q else 0.0
        size = max(size, abs(A[p, p]))
    for _ in range(_SWEEPS):
        off = 0.0
        for p in range(n):
            for q in range(p + 1, n):
                off = max(off, abs(A[p, q]))
        if not off > 1e-16 * size:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if A[p, q] == 0.0:
                    continue
                ratio = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                t = 1.0 / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
                t = t if ratio >= 0.0 else -t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(n):
                    a, b = A[k, p], A[k, q]
                    A[k, p], A[k, q] = c * a - s * b, s * a + c * b
                for k in range(n):
                    a, b = A[p, k], A[q, k]
                    A[p, k], A[q, k] = c * a - s * b, s * a + c * b
                    a, b = V[k, p], V[k, q]
                    V[k, p], V[k, q] = c * a - s * b, s * a + c * b


@_compiled
def _model_minimum(x, ahead, Z, count, sigma, radius, steps, halvings, eps, v):  # type: ignore[no-untyped-def]
    """argmin over v in the simplex of σ/2 |v − x − ahead|² + ½ |Zᵀ(v − x)|², into `v`.

    x, ahead, v  (n,);  Z (count or more, n), its first rows;  see `controllers/atoms.py`
    """
    n = x.shape[0]
    w, gradient, newton = np.zeros(count), np.empty(count), np.empty(count)
    trial, after = np.zeros(count), np.empty(count)
    system, factor, face = np.empty((count, count)), np.empty((count, count)), np.arange(count)
    sums, inside, free = np.empty(count), np.empty((count, n), x.dtype), np.empty(n, np.int64)
    value = _look(x, ahead, Z, sigma, radius, w, v, gradient)
    for _ in range(steps):
        m = 0
        for i in range(n):
            if v[i] > 0.0:
                free[m] = i
                m += 1
        for k in range(count):
            newton[k], sums[k] = gradient[k], 0.0
            for i in range(m):
                inside[k, i] = Z[k, free[i]]
                sums[k] += inside[k, i]
        for j in range(count):
            for k in range(j, count):
                total = 0.0
                for i in range(m):
                    total += inside[j, i] * inside[k, i]
                system[j, k] = (total - sums[j] * sums[k] / m) / sigma + (1.0 if j == k else 0.0)
        if not _factor(system, face, count, factor) > 0.0:
            break
        _substitute(factor, count, newton)
        promise = 0.0
        for k in range(count):
            promise += gradient[k] * newton[k]
        if promise <= eps * abs(value):
            break
        share, low = 1.0, value
        for _ in range(halvings):
            for k in range(count):
                trial[k] = w[k] - share * newton[k]
            low = _look(x, ahead, Z, sigma, radius, trial, v, after)
            if low <= value - 1e-4 * share * promise:
                break
            share /= 2.0
        value = low
        for k in range(count):
            w[k], gradient[k] = trial[k], after[k]


@_compiled
def _look(x, ahead, Z, sigma, radius, w, v, gradient):  # type: ignore[no-untyped-def]
    """v(w) and Φ's gradient at w, in place; Φ."""
    n, whole = x.shape[0], 0.0
    for i in range(n):
        v[i] = x[i] + ahead[i]
    for k in range(w.shape[0]):
        times = w[k] / sigma
        if times != 0.0:
            for i in range(n):
                v[i] -= times * Z[k, i]
    for i in range(n):
        whole += v[i]
    if np.isfinite(whole):
        project(v, radius)
    else:
        for i in range(n):
            v[i] = x[i]
    away, lift = 0.0, 0.0
    for i in range(n):
        away += (v[i] - x[i] - ahead[i]) * (v[i] - x[i] - ahead[i])
    for k in range(w.shape[0]):
        moved = 0.0
        for i in range(n):
            moved += Z[k, i] * (v[i] - x[i])
        gradient[k] = w[k] - moved
        lift += w[k] * (0.5 * w[k] - moved)
    return lift - 0.5 * sigma * away
