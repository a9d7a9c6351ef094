"""The compiled loop: second-order pairwise Frank-Wolfe on a simplex QP, in Numba.

    min ½ αᵀQα over the simplex,   Q = yyᵀ∘(k + bias) + diag(1/C)

One step moves weight from a support vector j to the Frank-Wolfe vertex i = argmin ∇f, and j is the
partner that promises the largest decrease with its weight as the step's limit:

    δ_t = min((∇f_t − ∇f_i)/a_t, α_t)      gain_t = δ_t (∇f_t − ∇f_i − ½ a_t δ_t)
    a_t = Q_ii + Q_tt − 2 Q_it

The gradient moves with the step and is never recomputed. Extremes are kept for each of LANES
residues of the index: that is elementwise work, which compiles to vector instructions, while one
running minimum does not.

Reference: Fan, Chen and Lin (2005), "Working set selection using second order information".
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics import compiled as compiling

compiled = compiling.compiled(fast=True)
LANES = 32
TINY, HUGE, FLAT = 1e-300, 1e300, 1e-12
CONVERGED, EXHAUSTED, STUCK = 0, 1, 2


@compiled
def pairwise_steps(kernel, y, box, alpha, gradient, curvature, state, limits):  # type: ignore[no-untyped-def]
    """Take pairwise steps until the duality gap of the working set is at most `limits[0]`.

    kernel     (m, m) float32 or float64, k(x_i, x_j) without labels, bias and 1/C
    y          (m,) labels ±1;  box (m,) the C of each point
    alpha      (m,) weights, changed in place;  gradient (m,) Qα, changed in place
    curvature  (m,) diagonal of Q
    state      ρ = αᵀQα, Σα²/C and the loss of the points outside, and the last relative gap
    limits     relative gap to reach, number of steps, steps between two gap tests; the bias
    """
    goal, max_steps, every, bias = limits[0], int(limits[1]), int(limits[2]), limits[3]
    rho, outside_square, outside_loss = state[0], state[1], state[2]
    best, place = np.empty(LANES), np.empty(LANES, np.int64)
    steps, since = 0, every
    i = np.argmin(gradient)
    status = EXHAUSTED
    while True:
        if since >= every:
            since = 0
            state[3] = _relative_gap(y, box, alpha, gradient, rho, outside_square, outside_loss)
            if state[3] <= goal:
                status = CONVERGED
                break
        if steps >= max_steps:
            break
        row = kernel[i]
        j = _partner(i, row, bias, y, alpha, gradient, curvature, best, place)
        slope = gradient[j] - gradient[i]
        a = max(curvature[i] + curvature[j] - 2.0 * y[i] * y[j] * (row[j] + bias), TINY)
        step = slope / a
        if slope <= FLAT * rho or alpha[j] <= 0.0:  # nothing left that double precision can see
            status = STUCK
            break
        if step >= alpha[j]:
            step = alpha[j]
            alpha[j] = 0.0
        else:
            alpha[j] -= step
        alpha[i] += step
        rho += step * (a * step - 2.0 * slope)
        gradient[i] += step / box[i]
        gradient[j] -= step / box[j]
        i = _advance(y, gradient, row, kernel[j], bias, step * y[i], step * y[j], best, place)
        steps += 1
        since += 1
    state[0] = rho
    return steps, status


@compiled
def _partner(i, row, bias, y, alpha, gradient, curvature, best, place):  # type: ignore[no-untyped-def]
    """The j with the largest gain of a step from j to i."""
    m, chunks = y.shape[0], y.shape[0] // LANES
    g_i, curvature_i, sign = gradient[i], curvature[i], 2.0 * y[i]
    best[:] = 0.0
    place[:] = 0
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
    top, j = 0.0, i
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
    return j


@compiled
def _advance(y, gradient, row, other, bias, to, off, best, place):  # type: ignore[no-untyped-def]
    """Move the gradient by y∘(to·(k_i + bias) − off·(k_j + bias)); return where it is smallest."""
    m, chunks, shift = y.shape[0], y.shape[0] // LANES, bias * (to - off)
    best[:] = HUGE
    place[:] = 0
    for chunk in range(chunks):
        lo = chunk * LANES
        for lane in range(LANES):
            t = lo + lane
            value = gradient[t] + y[t] * (to * row[t] - off * other[t] + shift)
            gradient[t] = value
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
        if value < low:
            low, i = value, t
    return i


@compiled
def _relative_gap(y, box, alpha, gradient, rho, outside_square, outside_loss):  # type: ignore[no-untyped-def]
    """(P − D)/P with w = Σ αᵢyᵢφᵢ/ρ, from the gradient: y f = (∇f − α/C)/ρ, D = 1/(2ρ)."""
    square, loss = outside_square, outside_loss
    scale = 1.0 / rho
    for t in range(y.shape[0]):
        share = alpha[t] / box[t]
        slack = max(0.0, 1.0 - scale * (gradient[t] - share))
        square += alpha[t] * share
        loss += box[t] * slack * slack
    primal = 0.5 * (scale * scale * (rho - square) + loss)
    return (primal - 0.5 * scale) / primal


@compiled
def survey(box, alpha, gradient, violations):  # type: ignore[no-untyped-def]
    """Return ρ and (P − D)/P for w = Σ αᵢyᵢφᵢ/ρ from ∇f = Qα; fill violations (n,).

    P = ½|w|² + ½b² + ½ Σ Cᵢξᵢ²,   ξᵢ = max(0, 1 − yᵢf(xᵢ)),   yᵢf(xᵢ) = (∇f − α/C)/ρ,   D = 1/(2ρ)

    The violation is √C|1 − ∇f/ρ|, without the absolute value where α = 0.
    """
    square, shares, loss = 0.0, 0.0, 0.0
    for t in range(box.shape[0]):
        share = alpha[t] / box[t]
        square += alpha[t] * (gradient[t] - share)
        shares += alpha[t] * share
    if square < 0.0:  # |w|² is none: rounding
        square = 0.0
    rho = square + shares
    for t in range(box.shape[0]):
        short = 1.0 - gradient[t] / rho
        violations[t] = np.sqrt(box[t]) * (abs(short) if alpha[t] > 0.0 else short)
        slack = max(short + alpha[t] / (box[t] * rho), 0.0)
        loss += box[t] * slack * slack
    primal = 0.5 * (square / (rho * rho) + loss)
    return rho, (primal - 0.5 / rho) / primal


@compiled
def gather(store, slots, columns, out):  # type: ignore[no-untyped-def]
    """out[i, j] = store[slots_i, columns_j]."""
    for i in range(slots.shape[0]):
        row, into = store[slots[i]], out[i]
        for j in range(columns.shape[0]):
            into[j] = row[columns[j]]


@compiled
def reflect(matrix, old, m):  # type: ignore[no-untyped-def]
    """Copy the rows old to m, left of column old, to the columns old to m, in tiles of 32 by 32.

    A tile touches few enough pages of memory to find them all again for its second half.
    """
    for top in range(0, old, 32):
        for left in range(old, m, 32):
            for i in range(top, min(top + 32, old)):
                for j in range(left, min(left + 32, m)):
                    matrix[i, j] = matrix[j, i]


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
