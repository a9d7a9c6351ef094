"""The atom that `corrective-atoms` proposes, for one problem, compiled (Numba).

The same formulas as in `controllers/atoms.py`. Loops copy arrays: slices would compile their error
messages too, which takes seconds.
"""

from __future__ import annotations

import numpy as np

from fwnet.learned.controllers.compiled_points import layer, project
from fwnet.numerics.compiled import compiled, machine_code

_factor, _substitute = (
    getattr(machine_code("fwnet.quadratic.scalar"), name) for name in ("_factor", "_substitute")
)
_compiled = compiled("reassoc", "contract")
_BLOCK = 256  # coordinates at a time, so that what is worked on stays in the cache
_SWEEPS = 20  # of Jacobi's rotations: six are usual


@_compiled
def learned_atom(  # type: ignore[no-untyped-def]
    x, image, gradient, length, last_x, vertex, column, points, images,
    growth, momentum, share, cut, radius, steps, halvings, v,
):  # fmt: skip
    """p_θ of `LearnedAtoms` on a `Quadratic`, whose images are Hx, into `v`.

    x, image, gradient, last_x, v  (n,);  length  ();  the vertex and its column  (1, n)
    points, images  (memory, n)
    """
    count, n = points.shape[0] + 1, x.shape[0]
    sigma, eps = 1.0 / (growth * length[()]), np.finfo(x.dtype).eps
    toward, rest = np.empty((count, _BLOCK), x.dtype), np.empty((count, _BLOCK), x.dtype)
    small, vectors = np.zeros((count, count)), np.empty((count, count))
    known, sizes = np.empty((count, count), x.dtype), np.zeros(count)
    for a in range(0, n, _BLOCK):
        m = _directions(x, image, vertex, column, points, images, sigma, a, toward, rest)
        _add_products(toward, rest, m, small, sizes)
    for j in range(count):
        sizes[j] = 1.0 / max(np.sqrt(sizes[j]), eps * eps)  # for directions of length 1
        for k in range(j + 1):
            small[j, k] *= sizes[j] * sizes[k]
            small[k, j] = small[j, k]  # H is symmetric
    _eigen(small, vectors)
    largest = 0.0
    for k in range(count):
        largest = max(largest, abs(small[k, k]))
    kept = 0
    for k in range(count):
        if small[k, k] > cut * largest and share > 0.0:
            for j in range(count):
                known[kept, j] = share / np.sqrt(small[k, k]) * vectors[j, k] * sizes[j]
            kept += 1
    Z, no_bias = np.empty((kept, n), x.dtype), np.zeros(kept, x.dtype)
    if kept:
        for a in range(0, n, _BLOCK):  # once more: cheaper than to keep them
            m = _directions(x, image, vertex, column, points, images, sigma, a, toward, rest)
            layer(known[:kept], no_bias, rest, m, toward)
            for k in range(kept):
                for i in range(m):
                    Z[k, a + i] = toward[k, i]
    ahead = np.empty(n, x.dtype)
    for i in range(n):
        ahead[i] = momentum * (x[i] - last_x[i]) - gradient[i] / sigma
    _model_minimum(x, ahead, Z, sigma, radius, steps, halvings, eps, v)


@_compiled
def _add_products(toward, rest, m, small, sizes):  # type: ignore[no-untyped-def]
    """Add a block's ⟨rest_j, w_k⟩, k ≤ j, to `small` and its |w_j|² to `sizes`."""
    for j in range(sizes.shape[0]):
        for k in range(j + 1):
            total = 0.0
            for i in range(m):
                total += rest[j, i] * toward[k, i]
            small[j, k] += total
        total = 0.0
        for i in range(m):
            total += toward[j, i] * toward[j, i]
        sizes[j] += total


@_compiled
def _directions(x, image, vertex, column, points, images, sigma, a, toward, rest):  # type: ignore[no-untyped-def]
    """w from x toward the vertex and the recent points, and Hw − σw, of the block that starts at a.

    Returns how many coordinates these are.
    """
    b = min(a + _BLOCK, x.shape[0])
    here, there = x[a:b], image[a:b]
    _direction(here, there, vertex[0, a:b], column[0, a:b], sigma, toward[0], rest[0])
    for k in range(points.shape[0]):
        _direction(here, there, points[k, a:b], images[k, a:b], sigma, toward[k + 1], rest[k + 1])
    return b - a


@_compiled
def _direction(x, image, goal, product, sigma, toward, rest):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):  # two loops: of more arrays, the compiler makes no vectors
        toward[i] = goal[i] - x[i]
    for i in range(x.shape[0]):
        rest[i] = (product[i] - image[i]) - sigma * toward[i]


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
def _model_minimum(x, ahead, Z, sigma, radius, steps, halvings, eps, v):  # type: ignore[no-untyped-def]
    """argmin over v in the simplex of σ/2 |v − x − ahead|² + ½ |Zᵀ(v − x)|², into `v`.

    x, ahead, v  (n,);  Z (count, n), which is its transpose;  see `controllers/atoms.py`
    """
    count, n = Z.shape
    w, gradient, newton = np.zeros(count), np.empty(count), np.empty(count)
    trial, after = np.zeros(count), np.empty(count)
    system, factor, face = np.empty((count, count)), np.empty((count, count)), np.arange(count)
    sums, inside = np.empty(count), np.empty((count, n), x.dtype)
    value, level = _look(x, ahead, Z, sigma, radius, w, -np.inf, v, gradient)
    for _ in range(steps):
        _newton_equations(Z, v, sigma, inside, sums, system)
        for k in range(count):
            newton[k] = gradient[k]
        if not _factor(system, 0.0, face[:count], factor) > 0.0:
            break
        _substitute(factor, newton[:count])
        promise = 0.0
        for k in range(count):
            promise += gradient[k] * newton[k]
        if promise <= eps * abs(value):
            break
        share, low = 1.0, value
        for _ in range(halvings):
            for k in range(count):
                trial[k] = w[k] - share * newton[k]
            low, level = _look(x, ahead, Z, sigma, radius, trial, level, v, after)
            if low <= value - 1e-4 * share * promise:
                break
            share /= 2.0
        value = low
        for k in range(count):
            w[k], gradient[k] = trial[k], after[k]


@_compiled
def _newton_equations(Z, v, sigma, inside, sums, system):  # type: ignore[no-untyped-def]
    """I + (Z_F Z_Fᵀ − s sᵀ/|F|)/σ, the second derivative of Φ, into `system`: F = {v > 0}.

    inside  (count, n), Z on F and 0 elsewhere;  sums  (count,), s, its row sums
    """
    count, n = Z.shape
    free = 0
    for i in range(n):
        free += v[i] > 0.0
    for k in range(count):
        total = 0.0
        for i in range(n):
            inside[k, i] = Z[k, i] if v[i] > 0.0 else 0.0
            total += inside[k, i]
        sums[k] = total
    for j in range(count):
        for k in range(j, count):
            total = 0.0
            for i in range(n):
                total += inside[j, i] * Z[k, i]
            total = (total - sums[j] * sums[k] / free) / sigma
            system[j, k] = total + (1.0 if j == k else 0.0)


@_compiled
def _look(x, ahead, Z, sigma, radius, w, guess, v, gradient):  # type: ignore[no-untyped-def]
    """v(w) and Φ's gradient at w, in place; Φ, and the level of the projection."""
    n, whole, level = x.shape[0], 0.0, -np.inf
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
        level = project(v, radius, guess)
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
    return lift - 0.5 * sigma * away, level
