"""The point that `simplex-qp` proposes, for one problem, compiled (Numba).

The same formulas as in `controllers/direction.py`, coordinate by coordinate in a few passes:
without it, a step at n = 1000 is a hundred small calls.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compiled

_compiled = compiled("reassoc", "contract")
_BLOCK = 256  # coordinates that go through the network at a time, so that all stays in the cache
_PROJECTIONS = 60  # rounds of a projection: three to eight are usual


@_compiled
def learned_point(  # type: ignore[no-untyped-def]
    x, gradient, last_x, last_gradient, along, gap, eta, last_eta, reach,
    first, first_bias, context, second, second_bias, head, radius, update, point,
):  # fmt: skip
    """u and P(x + u) of a `LearnedPoint`, into `update` and `point`.

    x, gradient, last_x, last_gradient, update, point  (n,);  along, gap, η and the last η  ()
    the weights as in `PointWeights`
    """
    n, hidden = x.shape[0], first.shape[0]
    mass, used, square = 0.0, 0.0, 0.0
    for i in range(n):
        mass += x[i]
        used += x[i] * x[i]
    level, length = along[()] / mass, 1.0 * eta[()]
    for i in range(n):
        square += x[i] * (level - gradient[i]) * (level - gradient[i])
    spread = np.sqrt(max(square / mass, 0.0)) + 1e-30
    numbers = (gap[()] / spread, mass * mass / used / n, length / last_eta[()])
    base = np.empty(hidden, first.dtype)
    for h in range(hidden):
        total = 1.0 * first_bias[h]
        for k in range(3):
            total += context[h, k] * 0.25 * np.log(min(max(numbers[k], 1e-12), 1e12))
        base[h] = total
    scale = n / mass
    rows = np.empty((10, _BLOCK), first.dtype)
    one, two = np.empty((hidden, _BLOCK), first.dtype), np.empty((hidden, _BLOCK), first.dtype)
    out, no_bias = np.empty((2, _BLOCK), first.dtype), np.zeros(2, first.dtype)
    for start in range(0, n, _BLOCK):
        m = min(_BLOCK, n - start)
        for j in range(m):
            i = start + j
            surplus = level - gradient[i]
            a, b = surplus / spread, x[i] * scale
            c, d = surplus * (length * scale), (x[i] - last_x[i]) * scale
            e = (gradient[i] - last_gradient[i]) / spread
            rows[0, j], rows[5, j] = a / (1.0 + abs(a)), a / (8.0 + abs(a))
            rows[1, j], rows[6, j] = b / (1.0 + abs(b)), b / (8.0 + abs(b))
            rows[2, j], rows[7, j] = c / (1.0 + abs(c)), c / (8.0 + abs(c))
            rows[3, j], rows[8, j] = d / (1.0 + abs(d)), d / (8.0 + abs(d))
            rows[4, j], rows[9, j] = e / (1.0 + abs(e)), e / (8.0 + abs(e))
        layer(first, base, rows, m, one)
        _rectify(one, m)
        layer(second, second_bias, one, m, two)
        _rectify(two, m)
        layer(head, no_bias, two, m, out)
        for j in range(m):
            i = start + j
            grow = reach * (out[0, j] / (1.0 + abs(out[0, j])))
            momentum = out[1, j] / (1.0 + abs(out[1, j]))
            surplus = level - gradient[i]
            update[i] = (1.0 + grow) / (1.0 - grow) * length * surplus
            update[i] += momentum * (x[i] - last_x[i])
    whole = 0.0
    for i in range(n):
        point[i] = x[i] + update[i]
        whole += point[i]
    if not np.isfinite(whole):  # f hardly curves, or weights are huge
        for i in range(n):
            update[i], point[i] = 0.0, x[i]
    project(point, radius, -np.inf)


@_compiled
def layer(weights, bias, inputs, m, outputs):  # type: ignore[no-untyped-def]
    """outputs ← weights @ inputs + bias, of the first m columns.

    Four inputs at a time: the outputs come and go from memory a quarter as often.
    """
    count = weights.shape[1]
    fours = count - count % 4
    for h in range(weights.shape[0]):
        for j in range(m):
            outputs[h, j] = bias[h]
        for k in range(0, fours, 4):
            a, b, c, d = weights[h, k], weights[h, k + 1], weights[h, k + 2], weights[h, k + 3]
            for j in range(m):
                outputs[h, j] += (a * inputs[k, j] + b * inputs[k + 1, j]) + (
                    c * inputs[k + 2, j] + d * inputs[k + 3, j]
                )
        for k in range(fours, count):
            a = weights[h, k]
            for j in range(m):
                outputs[h, j] += a * inputs[k, j]


@_compiled
def _rectify(values, m):  # type: ignore[no-untyped-def]
    for h in range(values.shape[0]):
        for j in range(m):
            values[h, j] = max(values[h, j], 0.0)


@_compiled
def project(point, radius, guess):  # type: ignore[no-untyped-def]
    """Onto {v >= 0, Σ v = radius}, in place: v_i = max(point_i − level, 0); returns the level.

    Newton's method on the level, which ends once no coordinate comes or goes. `guess`: the level of
    a point nearby, or −∞.
    """
    n, top = point.shape[0], _largest(point)
    total = 0.0
    for i in range(n):
        point[i] -= top  # the same projection; large entries keep their digits
        total += point[i]
    # What lies further below than the whole mass is dropped in any case.
    level, count = max((total - radius) / n, -radius), -1
    if level < guess - top < 0.0:
        level = guess - top
    for _ in range(_PROJECTIONS):
        total, kept = 0.0, 0
        for i in range(n):  # without branches: several at a time
            keep = point[i] > level
            total += point[i] if keep else 0.0
            kept += keep
        if kept == count:
            break
        level, count = (total - radius) / kept, kept
    for i in range(n):
        point[i] = max(point[i] - level, 0.0)
    return level + top


@_compiled
def _largest(values):  # type: ignore[no-untyped-def]
    """The maximum; four at a time, since each waits for the one before."""
    n = values.shape[0]
    fours = n - n % 4
    a = b = c = d = values[0]
    for i in range(0, fours, 4):
        a, b = max(a, values[i]), max(b, values[i + 1])
        c, d = max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(fours, n):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))
