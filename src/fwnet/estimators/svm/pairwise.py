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

The gradient moves with the step and is never recomputed. An extreme is found in two passes: the
extremes of blocks of BLOCK points, which compile to vector instructions, while a running minimum
with its place does not, and then its place in one block.

Compilation takes most of a first fit. What Numba compiles by itself, such as `min`, `np.empty` or
`int`, takes as long as ten lines of arithmetic.

Reference: Fan, Chen and Lin (2005), "Working set selection using second order information".
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fwnet.numerics import compiled as compiling

compiled = compiling.compiled(fast=True)
inlined = compiling.compiled(fast=True, inline=True)  # a third less to compile than calls
BLOCK = 64
TINY, HUGE, FLAT = 1e-300, 1e300, 1e-12
ONE_SIDED = 1e200  # a width at which the other sign is no vertex, but 0 is
CONVERGED, EXHAUSTED, STUCK = 0, 1, 2
_TILE = 128  # rows and columns that are transposed at a time
_WIDTH = 2048  # columns of which weighted rows are summed at a time


def _extreme(order: str) -> Any:
    """The one of two numbers that comes first, as an instruction that exists for vectors too."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        before = builder.fcmp_ordered(order, a, b, flags=("fast",))
        return builder.select(before, a, b, flags=("fast",))

    return compiling.instruction("float64", emit)


_smaller, _larger = _extreme("<"), _extreme(">")


@compiled
def survey(box, alpha, gradient, value, width, outside, violations):  # type: ignore[no-untyped-def]
    """Return P and (P − D)/P of the machine behind weights α (m,), and sums; fill violations (m,).

    On the simplex the coefficients are u/ρ with ρ = 2f and D = 1/(2ρ); else they are u, and D = −f.
    With the slopes s = ∇f/ρ − 1, or s = ∇f,

    P − D = Σ (½Cξ² + αs − ½α²/C),   ξ = max(0, α/C − s, s − α/C − 2ε)

    and the violation is C·s², with a negative sign for α = 0 within the margins. The sums are
    Σα²/C, ΣCξ² and Σα∇f; `outside` starts with those of points that are not among these.
    """
    simplex = width == HUGE
    scale = 0.5 / value if simplex else 1.0
    level = 1.0 if simplex else 0.0
    square, loss, along = outside[0], outside[1], outside[2]
    for t in range(box.shape[0]):
        weight, c, slope = alpha[t], box[t], gradient[t]
        share, short = weight / c, level - scale * slope
        violation = abs(short) if weight > 0.0 else _larger(short, -short - width)
        violations[t] = c * violation * abs(violation)
        slack = short + scale * share
        slack = _larger(0.0, _larger(slack, -slack - width))
        square += weight * share
        loss += c * slack * slack
        along += weight * slope
    gap = 0.5 * (loss - scale * scale * square)
    if simplex:
        primal = 0.5 * scale + gap
    else:
        gap += along
        primal = gap - value
    return primal, gap / primal if primal > 0.0 else 0.0, square, loss, along


@compiled
def pairwise_steps(  # type: ignore[no-untyped-def]
    kernel, y, box, alpha, gradient, curvature, state, scratch, goal, most, every, bias, width, flat
):
    """Take pairwise steps until the duality gap of the working set is at most `goal`.

    kernel     (m, m) float32 or float64, k(x_i, x_j) without labels, bias and 1/C
    y          (m,) signs ±1 of the vertices, changed in place where width < HUGE
    box        (m,) the C of each point
    alpha      (m,) weights, changed in place;  gradient (m,) ∇f, changed in place
    curvature  (m,) diagonal of Q
    state      Σα²/C, ΣCξ² and Σα∇f of the points outside; f; the last relative gap
    scratch    (m,) is overwritten
    goal       relative gap to reach;  most, number of steps;  every, steps between two gap tests
    flat       the smallest difference of gradients that counts
    """
    simplex, status, value = width == HUGE, EXHAUSTED, state[3]
    steps, since, i, j, to, off = 0, every, 0, 0, 0.0, 0.0
    while True:
        i = _advance(y, gradient, kernel[i], kernel[j], bias, to, off, width)
        if since >= every:
            since = 0
            state[4] = survey(box, alpha, gradient, value, width, state, scratch)[1]
            if state[4] <= goal:
                status = CONVERGED
                break
        if steps >= most:
            break
        other = _is_other(i, y, alpha, gradient, width)
        to_zero = other or (gradient[i] >= 0.0 and not simplex)
        here = 0.0 if to_zero else 1.0
        sign, g_i, curvature_i = here * y[i], here * gradient[i], here * curvature[i]
        row = kernel[i]
        j, gain = _partner(
            row, 2.0 * sign, g_i, curvature_i, bias, y, alpha, gradient, curvature, scratch
        )
        j = i if other else j  # its weight cancels that of the other sign
        from_zero = not (simplex or to_zero) and g_i * g_i > gain * curvature_i
        there, room = (0.0, HUGE) if from_zero else (1.0, alpha[j])
        slope = there * gradient[j] - g_i
        a = curvature_i + there * (curvature[j] - 2.0 * sign * y[j] * (row[j] + bias))
        if slope <= flat or room <= 0.0:  # nothing left that double precision can see
            status = STUCK
            break
        a = _larger(a, TINY)
        step = _smaller(slope / a, room)
        to, off = step * sign, there * step * y[j]
        alpha[i] += here * step
        alpha[j] -= there * step  # exactly 0 where the step is all of it
        gradient[i] += here * step / box[i]
        gradient[j] -= there * step / box[j]
        value -= step * (slope - 0.5 * a * step)
        steps += 1
        since += 1
    state[3] = value
    return steps, status


@inlined
def _is_other(i, y, alpha, gradient, width):  # type: ignore[no-untyped-def]
    """Whether the best vertex of i has another sign than its weight; without weight, turn it."""
    other = width - gradient[i] < gradient[i]
    if other and alpha[i] == 0.0:
        y[i], gradient[i], other = -y[i], width - gradient[i], False
    return other


@inlined
def _partner(row, sign, g_i, curvature_i, bias, y, alpha, gradient, curvature, gains):  # type: ignore[no-untyped-def]
    """The j with the largest gain of a step from j to i, and twice that gain."""
    m, top, j = y.shape[0], 0.0, 0
    for block in range((m + BLOCK - 1) // BLOCK):
        lo, largest = block * BLOCK, 0.0
        for k in range(BLOCK if lo + BLOCK <= m else m - lo):
            t = lo + k
            slope = gradient[t] - g_i
            a = _larger(curvature_i + curvature[t] - sign * y[t] * (row[t] + bias), TINY)
            step = _smaller(slope, a * alpha[t])
            gain = step * (2.0 * slope - step) / a
            gains[t] = gain
            largest = _larger(gain, largest)
        if largest > top:
            top, j = largest, lo
    while gains[j] < top and j < m - 1:
        j += 1
    return j, top


@inlined
def _advance(y, gradient, row, other, bias, to, off, width):  # type: ignore[no-untyped-def]
    """Move the gradient by y∘(to·(k_i + bias) − off·(k_j + bias)); return where it is smallest."""
    m, low, i, shift = y.shape[0], HUGE, 0, bias * (to - off)
    for block in range((m + BLOCK - 1) // BLOCK):
        lo, least = block * BLOCK, HUGE
        for k in range(BLOCK if lo + BLOCK <= m else m - lo):
            t = lo + k
            value = gradient[t] + y[t] * (to * row[t] - off * other[t] + shift)
            gradient[t] = value
            least = _smaller(least, _smaller(value, width - value))
        if least < low:
            low, i = least, lo
    while _smaller(gradient[i], width - gradient[i]) > low and i < m - 1:
        i += 1
    return i


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
    """total += Σ_j weights_j store[slots_j] in float64, in blocks that stay in the cache."""
    n = total.shape[0]
    for block in range((n + _WIDTH - 1) // _WIDTH):
        lo = block * _WIDTH
        for j in range(slots.shape[0]):
            slot, weight = slots[j], weights[j]
            for k in range(_WIDTH if lo + _WIDTH <= n else n - lo):
                total[lo + k] += weight * store[slot, lo + k]
