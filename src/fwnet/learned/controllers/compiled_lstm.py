"""A step of an LSTM for all entries, forward and backward, compiled (Numba).

The same formulas as in `controllers/entrywise.py`, in float32: torch reads and writes the gates
once for each function, which costs more than the functions, and takes forty calls a step.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compiled

_compiled = compiled(fast=True)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)
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
def _stack(z, h, rows):  # type: ignore[no-untyped-def]
    """Write z, h and a row of ones one below the other; slices would compile error messages too."""
    inputs, n = z.shape
    for i in range(rows.shape[0] - 1):
        above = z[i] if i < inputs else h[i - inputs]
        for j in range(n):
            rows[i, j] = above[j]
    rows[-1] = _ONE


@_compiled
def step(  # type: ignore[no-untyped-def]
    weights, head, bias, z, h, c, seen, gates, curved, moved, kept, out
):  # fmt: skip
    """All layers and the answer, written to the last six.

    weights, seen  for each layer (4 hidden, inputs + hidden + 1) and (inputs + hidden + 1, n)
    z (inputs, n);  h, c, curved, moved, kept (layers, hidden, n);  gates (layers, 4 hidden, n)
    head (1, hidden), bias (1, 1), out (1, n)
    """
    layers = h.shape[0]
    for k in range(layers):
        rows = seen[k]
        _stack(z if k == 0 else moved[k - 1], h[k], rows)
        np.dot(weights[k], rows, gates[k])
        _gate(gates[k], c[k], kept[k], curved[k], moved[k])
    np.dot(head, moved[layers - 1], out)
    out += bias


@_compiled
def step_backward(  # type: ignore[no-untyped-def]
    weights, head, c, moved, seen, gates, curved, d_out, d_moved, d_kept,
    d_z, d_h, d_c, d_weights, d_head,
):  # fmt: skip
    """The gradients of z, h, c, the weights and the head, written to the last five.

    Shapes as in `step`; a gradient d_… has that of what it belongs to.
    """
    layers, hidden, n = c.shape
    np.dot(d_out, moved[layers - 1].T, d_head)
    up, d = np.empty((hidden, n), np.float32), np.empty((4 * hidden, n), np.float32)
    for i in range(hidden):
        for j in range(n):
            up[i, j] = d_moved[layers - 1, i, j] + head[0, i] * d_out[0, j]
    for k in range(layers - 1, -1, -1):
        _gate_backward(gates[k], c[k], curved[k], up, d_kept[k], d, d_c[k])
        np.dot(d, seen[k].T, d_weights[k])
        through = np.dot(weights[k].T, d)
        inputs = seen[k].shape[0] - hidden - 1
        for i in range(hidden):
            for j in range(n):
                d_h[k, i, j] = through[inputs + i, j]
        for i in range(inputs):
            for j in range(n):
                if k > 0:
                    up[i, j] = d_moved[k - 1, i, j] + through[i, j]
                else:
                    d_z[i, j] = through[i, j]
