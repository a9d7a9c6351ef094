"""A step of an LSTM for all entries, forward and backward, compiled (Numba).

The same formulas as in `controllers/entrywise.py`, in float32. Entries are the columns: the
innermost loops run along them, and the compiler turns these into vector instructions. Products are
compiled too, since with 20 units they are too small for the libraries' products.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compiled

_compiled = compiled(fast=True)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_BLOCK = 1024  # columns that stay in the cache while all rows meet them
_FAR = np.float32(9.0)  # tanh is 1 there in float32
# tanh z = z P(z²)/Q(z²) within 2e-8 for |z| <= 9: a rational least-squares fit, reweighted until
# its errors were even.
_P = tuple(map(np.float32, (0.9999999795, 0.1338103223, 3.49559584e-3, 2.060920313e-5)))
_P4 = np.float32(1.335481484e-8)
_Q = tuple(map(np.float32, (1.0, 0.4671434783, 2.587701186e-2, 3.285647185e-4)))
_Q4 = np.float32(7.776624173e-7)


@_compiled
def _tanh(z):  # type: ignore[no-untyped-def]
    z = min(z, _FAR) if z > -_FAR else -_FAR
    s = z * z
    top = _P[0] + s * (_P[1] + s * (_P[2] + s * (_P[3] + s * _P4)))
    return z * top / (_Q[0] + s * (_Q[1] + s * (_Q[2] + s * (_Q[3] + s * _Q4))))


@_compiled
def _add_product(w, x, g):  # type: ignore[no-untyped-def]
    """g <- g + w x, four rows and four inputs at a time.

    w (m, k);  x (k, n);  g (m, n)
    """
    (m, inputs), n = w.shape, x.shape[1]
    for s in range(0, n, _BLOCK):
        e = min(n, s + _BLOCK)
        for r in range(0, m - 3, 4):
            g0, g1, g2, g3 = g[r, s:e], g[r + 1, s:e], g[r + 2, s:e], g[r + 3, s:e]
            for q in range(0, inputs - 3, 4):
                x0, x1, x2, x3 = x[q, s:e], x[q + 1, s:e], x[q + 2, s:e], x[q + 3, s:e]
                a0, a1, a2, a3 = w[r, q], w[r, q + 1], w[r, q + 2], w[r, q + 3]
                b0, b1, b2, b3 = w[r + 1, q], w[r + 1, q + 1], w[r + 1, q + 2], w[r + 1, q + 3]
                c0, c1, c2, c3 = w[r + 2, q], w[r + 2, q + 1], w[r + 2, q + 2], w[r + 2, q + 3]
                d0, d1, d2, d3 = w[r + 3, q], w[r + 3, q + 1], w[r + 3, q + 2], w[r + 3, q + 3]
                for j in range(e - s):
                    y0, y1, y2, y3 = x0[j], x1[j], x2[j], x3[j]
                    g0[j] += a0 * y0 + a1 * y1 + a2 * y2 + a3 * y3
                    g1[j] += b0 * y0 + b1 * y1 + b2 * y2 + b3 * y3
                    g2[j] += c0 * y0 + c1 * y1 + c2 * y2 + c3 * y3
                    g3[j] += d0 * y0 + d1 * y1 + d2 * y2 + d3 * y3
            for q in range(inputs // 4 * 4, inputs):
                x0, a0, b0, c0, d0 = x[q, s:e], w[r, q], w[r + 1, q], w[r + 2, q], w[r + 3, q]
                for j in range(e - s):
                    y0 = x0[j]
                    g0[j] += a0 * y0
                    g1[j] += b0 * y0
                    g2[j] += c0 * y0
                    g3[j] += d0 * y0
        for r in range(m // 4 * 4, m):
            g0 = g[r, s:e]
            for q in range(inputs):
                x0, a0 = x[q, s:e], w[r, q]
                for j in range(e - s):
                    g0[j] += a0 * x0[j]


@_compiled
def _add_outer(d, x, w):  # type: ignore[no-untyped-def]
    """w <- w + d xᵀ, 16 sums over the entries at a time.

    d (m, n);  x (k, n);  w (m, k)
    """
    (m, n), inputs = d.shape, x.shape[0]
    for s in range(0, n, _BLOCK):
        e = min(n, s + _BLOCK)
        for r in range(0, m - 3, 4):
            d0, d1, d2, d3 = d[r, s:e], d[r + 1, s:e], d[r + 2, s:e], d[r + 3, s:e]
            for q in range(0, inputs - 3, 4):
                x0, x1, x2, x3 = x[q, s:e], x[q + 1, s:e], x[q + 2, s:e], x[q + 3, s:e]
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = _ZERO
                c0 = c1 = c2 = c3 = e0 = e1 = e2 = e3 = _ZERO
                for j in range(e - s):
                    y0, y1, y2, y3 = x0[j], x1[j], x2[j], x3[j]
                    u0, u1, u2, u3 = d0[j], d1[j], d2[j], d3[j]
                    a0 += u0 * y0
                    a1 += u0 * y1
                    a2 += u0 * y2
                    a3 += u0 * y3
                    b0 += u1 * y0
                    b1 += u1 * y1
                    b2 += u1 * y2
                    b3 += u1 * y3
                    c0 += u2 * y0
                    c1 += u2 * y1
                    c2 += u2 * y2
                    c3 += u2 * y3
                    e0 += u3 * y0
                    e1 += u3 * y1
                    e2 += u3 * y2
                    e3 += u3 * y3
                _add_four(w[r], q, a0, a1, a2, a3)
                _add_four(w[r + 1], q, b0, b1, b2, b3)
                _add_four(w[r + 2], q, c0, c1, c2, c3)
                _add_four(w[r + 3], q, e0, e1, e2, e3)
            for q in range(inputs // 4 * 4, inputs):
                x0 = x[q, s:e]
                a0 = b0 = c0 = e0 = _ZERO
                for j in range(e - s):
                    y0 = x0[j]
                    a0 += d0[j] * y0
                    b0 += d1[j] * y0
                    c0 += d2[j] * y0
                    e0 += d3[j] * y0
                w[r, q] += a0
                w[r + 1, q] += b0
                w[r + 2, q] += c0
                w[r + 3, q] += e0
        for r in range(m // 4 * 4, m):
            d0 = d[r, s:e]
            for q in range(inputs):
                x0, a0 = x[q, s:e], _ZERO
                for j in range(e - s):
                    a0 += d0[j] * x0[j]
                w[r, q] += a0


@_compiled
def _add_four(row, q, a, b, c, d):  # type: ignore[no-untyped-def]
    row[q] += a
    row[q + 1] += b
    row[q + 2] += c
    row[q + 3] += d


@_compiled
def _gate(gates, before, c, curved, h):  # type: ignore[no-untyped-def]
    """Gates become σ, σ, tanh, σ of themselves; c = f before + i g, curved = tanh c, h = o curved.

    gates  (4 hidden, n);  before, c, curved, h  (hidden, n)
    """
    hidden, n = c.shape
    for k in range(hidden):
        i, f, g, o = gates[k], gates[hidden + k], gates[2 * hidden + k], gates[3 * hidden + k]
        was, now, squashed, out = before[k], c[k], curved[k], h[k]
        for j in range(n):
            a = _HALF + _HALF * _tanh(_HALF * i[j])
            b = _HALF + _HALF * _tanh(_HALF * f[j])
            d = _tanh(g[j])
            e = _HALF + _HALF * _tanh(_HALF * o[j])
            state = b * was[j] + a * d
            t = _tanh(state)
            i[j], f[j], g[j], o[j] = a, b, d, e
            now[j], squashed[j], out[j] = state, t, e * t


@_compiled
def _gate_backward(gates, before, curved, d_h, d_c, d, d_before):  # type: ignore[no-untyped-def]
    """The gradients of what the gates are functions of into `d`, that of `before` into `d_before`.

    gates, d  (4 hidden, n);  before, curved, d_h, d_c, d_before  (hidden, n)
    """
    hidden, n = d_h.shape
    for k in range(hidden):
        i, f, g, o = gates[k], gates[hidden + k], gates[2 * hidden + k], gates[3 * hidden + k]
        d_i, d_f, d_g, d_o = d[k], d[hidden + k], d[2 * hidden + k], d[3 * hidden + k]
        was, squashed, up, inner, found = before[k], curved[k], d_h[k], d_c[k], d_before[k]
        for j in range(n):
            a, b, e, r, t, u = i[j], f[j], g[j], o[j], squashed[j], up[j]
            state = inner[j] + u * r * (_ONE - t * t)
            d_i[j] = state * e * a * (_ONE - a)
            d_f[j] = state * was[j] * b * (_ONE - b)
            d_g[j] = state * a * (_ONE - e * e)
            d_o[j] = u * t * r * (_ONE - r)
            found[j] = state * b


@_compiled
def step(  # type: ignore[no-untyped-def]
    matrices, vectors, z, h, c, gates, curved, moved, kept, out
):  # fmt: skip
    """All layers and the answer, written to the last five.

    matrices  W_in (4 hidden, inputs) and W_h (4 hidden, hidden) of each layer, W (1, hidden)
    vectors   b_in and b_h (4 hidden,) of each layer, b (1,)
    z (inputs, n);  h, c, curved, moved, kept (layers, hidden, n);  gates (layers, 4 hidden, n)
    out (1, n)
    """
    layers, n = h.shape[0], h.shape[2]
    for k in range(layers):
        one, other = vectors[2 * k], vectors[2 * k + 1]
        for i in range(one.size):
            row, bias = gates[k, i], one[i] + other[i]
            for j in range(n):
                row[j] = bias
        _add_product(matrices[2 * k], z if k == 0 else moved[k - 1], gates[k])
        _add_product(matrices[2 * k + 1], h[k], gates[k])
        _gate(gates[k], c[k], kept[k], curved[k], moved[k])
    out[:] = vectors[2 * layers][0]
    _add_product(matrices[2 * layers], moved[layers - 1], out)


@_compiled
def step_backward(  # type: ignore[no-untyped-def]
    matrices, z, h, c, moved, gates, curved, d_out, d_moved, d_kept,
    d_z, d_h, d_c, d_matrices, d_vectors,
):  # fmt: skip
    """The gradients of z, h, c, the matrices and the vectors, written to the last five.

    Shapes as in `step`, but of each layer's two vectors, whose gradients are equal, one is there;
    a gradient d_… has the shape of what it belongs to. d_z, d_h and the d_matrices begin as zeros.
    """
    layers, hidden, n = c.shape
    up, d = d_moved[layers - 1].copy(), np.empty((4 * hidden, n), np.float32)
    _add_outer(d_out, moved[layers - 1], d_matrices[2 * layers])
    _add_product(matrices[2 * layers].T.copy(), d_out, up)
    d_vectors[layers][0] = d_out.sum()
    for k in range(layers - 1, -1, -1):
        _gate_backward(gates[k], c[k], curved[k], up, d_kept[k], d, d_c[k])
        _add_outer(d, z if k == 0 else moved[k - 1], d_matrices[2 * k])
        _add_outer(d, h[k], d_matrices[2 * k + 1])
        for i in range(4 * hidden):
            d_vectors[k][i] = d[i].sum()
        _add_product(matrices[2 * k + 1].T.copy(), d, d_h[k])
        if k > 0:
            up[:] = d_moved[k - 1]
        _add_product(matrices[2 * k].T.copy(), d, up if k > 0 else d_z)
