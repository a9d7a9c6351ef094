"""The compiled loop: second-order pairwise Frank-Wolfe on the dual of a kernel machine, in Numba.

    f(u) = ½ uᵀ(K + bias + diag(1/C))u − centreᵀu + ε|u|₁

A vertex is a point with a sign y, and its weight is α = |u|. Gradients are those at the vertices:

    ∇f_t = y_t (z_t − centre_t) + ε,   z = (K + bias + diag(1/C))u;   2ε − ∇f_t at the other sign

One step moves weight from a support vector j to the Frank-Wolfe vertex i = argmin ∇f, and j is the
partner that promises the largest decrease with its weight as the step's limit:

    δ_t = min((∇f_t − ∇f_i)/a_t, α_t)      gain_t = δ_t (∇f_t − ∇f_i − ½ a_t δ_t)
    a_t = Q_ii + Q_tt − 2 y_i y_t (k_it + bias)

A classifier has one vertex for each point, with its label for a sign, on the simplex Σα = 1. A
regression has both signs, and 0 for another vertex, whose weight never runs out: both i and j may
be that one. Instead of the simplex, a classifier may have that vertex too. `width`, HUGE, 2ε or
ONE_SIDED, says which of the three it is.

The gradient moves with the step and is never recomputed. Extremes are kept for each of LANES
residues of the index: that is elementwise work, which compiles to vector instructions, while one
running minimum does not.

Reference: Fan, Chen and Lin (2005), "Working set selection using second order information".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwnet.numerics import compiled as compiling

compiled = compiling.compiled(fast=True)
inlined = compiling.compiled(fast=True, inline=True)  # a third less to compile than calls
LANES = 32
TINY, HUGE, FLAT = 1e-300, 1e300, 1e-12
ONE_SIDED = 1e200  # a width at which the other sign is no vertex, but 0 is
CONVERGED, EXHAUSTED, STUCK = 0, 1, 2
_TILE = 128  # rows and columns that are transposed at a time


@compiled
def survey(box, alpha, gradient, value, width, outside, violations):  # type: ignore[no-untyped-def]
    """Return P and (P − D)/P of the machine behind weights α (m,); fill violations (m,).

    On the simplex the coefficients are u/ρ with ρ = 2f and D = 1/(2ρ); else they are u, and D = −f.
    With the slopes s = ∇f/ρ − 1, or s = ∇f,

    P − D = Σ (½Cξ² + αs − ½α²/C),   ξ = max(0, α/C − s, s − α/C − 2ε)

    and the violation is C·s², with a negative sign for α = 0 within the margins. `outside` are
    Σα²/C, ΣCξ² and Σα∇f over points that are not among these.
    """
    simplex = width == HUGE
    scale = 0.5 / value if simplex else 1.0
    level = 1.0 if simplex else 0.0
    square, loss, along = outside[0], outside[1], outside[2]
    for t in range(box.shape[0]):
        share, short = alpha[t] / box[t], level - scale * gradient[t]
        violation = abs(short) if alpha[t] > 0.0 else max(short, -short - width)
        violations[t] = box[t] * violation * abs(violation)
        slack = short + scale * share
        slack = max(0.0, slack, -slack - width)
        square += alpha[t] * share
        loss += box[t] * slack * slack
        along += alpha[t] * gradient[t]
    gap = 0.5 * (loss - scale * scale * square)
    if simplex:
        primal = 0.5 * scale + gap
    else:
        gap += along
        primal = gap - value
    return primal, gap / primal if primal > 0.0 else 0.0


@compiled
def pairwise_steps(kernel, y, box, alpha, gradient, curvature, state, limits, scratch):  # type: ignore[no-untyped-def]
    """Take pairwise steps until the duality gap of the working set is at most `limits[0]`.

    kernel     (m, m) float32 or float64, k(x_i, x_j) without labels, bias and 1/C
    y          (m,) signs ±1 of the vertices, changed in place where width < HUGE
    box        (m,) the C of each point
    alpha      (m,) weights, changed in place;  gradient (m,) ∇f, changed in place
    curvature  (m,) diagonal of Q
    state      f; Σα²/C, ΣCξ² and Σα∇f of the points outside; the last relative gap
    limits     relative gap to reach, number of steps, steps between two gap tests; the bias, the
               width, the smallest difference of gradients that counts
    scratch    (m,) gets the violations, see `survey`
    """
    goal, max_steps, every = limits[0], int(limits[1]), int(limits[2])
    bias, width, flat = limits[3], limits[4], limits[5]
    best, place = np.empty(LANES), np.empty(LANES, np.int64)
    simplex, status, value = width == HUGE, EXHAUSTED, state[0]
    steps, since, i, j, to, off = 0, every, 0, 0, 0.0, 0.0
    while True:
        i = _advance(y, gradient, kernel[i], kernel[j], bias, to, off, width, best, place)
        if since >= every:
            since = 0
            state[4] = survey(box, alpha, gradient, value, width, state[1:4], scratch)[1]
            if state[4] <= goal:
                status = CONVERGED
                break
        if steps >= max_steps:
            break
        other = _is_other(i, y, alpha, gradient, width)
        to_zero = other or (gradient[i] >= 0.0 and not simplex)
        here = 0.0 if to_zero else 1.0
        sign, g_i, curvature_i = here * y[i], here * gradient[i], here * curvature[i]
        row = kernel[i]
        j, gain = _partner(
            row, 2.0 * sign, g_i, curvature_i, bias, y, alpha, gradient, curvature, best, place
        )
        j = i if other else j  # its weight cancels that of the other sign
        from_zero = not (simplex or to_zero) and g_i * g_i > gain * curvature_i
        there, most = (0.0, HUGE) if from_zero else (1.0, alpha[j])
        slope = there * gradient[j] - g_i
        a = curvature_i + there * (curvature[j] - 2.0 * sign * y[j] * (row[j] + bias))
        if slope <= flat or most <= 0.0:  # nothing left that double precision can see
            status = STUCK
            break
        a = max(a, TINY)
        step = min(slope / a, most)
        to, off = step * sign, there * step * y[j]
        alpha[i] += here * step
        alpha[j] -= there * step  # exactly 0 where the step is all of it
        gradient[i] += here * step / box[i]
        gradient[j] -= there * step / box[j]
        value -= step * (slope - 0.5 * a * step)
        steps += 1
        since += 1
    state[0] = value
    return steps, status


@inlined
def _is_other(i, y, alpha, gradient, width):  # type: ignore[no-untyped-def]
    """Whether the best vertex of i has another sign than its weight; without weight, turn it."""
    other = width - gradient[i] < gradient[i]
    if other and alpha[i] == 0.0:
        y[i], gradient[i], other = -y[i], width - gradient[i], False
    return other


@inlined
def _partner(row, sign, g_i, curvature_i, bias, y, alpha, gradient, curvature, best, place):  # type: ignore[no-untyped-def]
    """The j with the largest gain of a step from j to i, and twice that gain."""
    m, chunks = y.shape[0], y.shape[0] // LANES
    for lane in range(LANES):
        best[lane], place[lane] = 0.0, 0
    for chunk in range(chunks):
        lo = chunk * LANES
        for lane in range(LANES):
            t = lo + lane
            slope = gradient[t] - g_i
            a = max(curvature_i + curvature[t] - sign * y[t] * (row[t] + bias), TINY)
            step = min(slope, a * alpha[t])
            gain = step * (2.0 * slope - step) / a
            better = gain > best[lane]
            best[lane] = gain if better else best[lane]
            place[lane] = chunk if better else place[lane]
    top, j = 0.0, 0
    for lane in range(LANES):
        if best[lane] > top:
            top, j = best[lane], place[lane] * LANES + lane
    for t in range(chunks * LANES, m):
        slope = gradient[t] - g_i
        a = max(curvature_i + curvature[t] - sign * y[t] * (row[t] + bias), TINY)
        step = min(slope, a * alpha[t])
        gain = step * (2.0 * slope - step) / a
        if gain > top:
            top, j = gain, t
    return j, top


@inlined
def _advance(y, gradient, row, other, bias, to, off, width, best, place):  # type: ignore[no-untyped-def]
    """Move the gradient by y∘(to·(k_i + bias) − off·(k_j + bias)); return where it is smallest."""
    m, chunks, shift = y.shape[0], y.shape[0] // LANES, bias * (to - off)
    for lane in range(LANES):
        best[lane], place[lane] = HUGE, 0
    for chunk in range(chunks):
        lo = chunk * LANES
        for lane in range(LANES):
            t = lo + lane
            value = gradient[t] + y[t] * (to * row[t] - off * other[t] + shift)
            gradient[t] = value
            value = min(value, width - value)
            better = value < best[lane]
            best[lane] = value if better else best[lane]
            place[lane] = chunk if better else place[lane]
    low, i = HUGE, 0
    for lane in range(LANES):
        if best[lane] < low:
            low, i = best[lane], place[lane] * LANES + lane
    for t in range(chunks * LANES, m):
        value = gradient[t] + y[t] * (to * row[t] - off * other[t] + shift)
        gradient[t] = value
        value = min(value, width - value)
        if value < low:
            low, i = value, t
    return i


@compiled
def gather(store, slots, columns, out):  # type: ignore[no-untyped-def]
    """out[i, j] = store[slots_i, columns_j]."""
    for i in range(slots.shape[0]):
        row, into = store[slots[i]], out[i]
        for j in range(columns.shape[0]):
            into[j] = row[columns[j]]


def reflect(matrix: NDArray[Any], old: int, m: int) -> None:
    """Copy the rows old to m, left of column old, to the columns old to m, in tiles.

    A tile touches few enough pages of memory to find them all again for its second half.
    """
    for top in range(0, old, _TILE):
        hi = min(top + _TILE, old)
        for left in range(old, m, _TILE):
            right = min(left + _TILE, m)
            matrix[top:hi, left:right] = matrix[left:right, top:hi].T


@compiled
def add_rows(store, slots, weights, total):  # type: ignore[no-untyped-def]
    """total += Σ_j weights_j store[slots_j] in float64, in slices that stay in the cache."""
    n = total.shape[0]
    for lo in range(0, n, 2048):
        part = total[lo : min(lo + 2048, n)]
        for j in range(slots.shape[0]):
            row, weight = store[slots[j], lo : lo + 2048], weights[j]
            for t in range(part.shape[0]):
                part[t] += weight * row[t]
