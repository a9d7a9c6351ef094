"""Frank-Wolfe steps on arrays, many of one problem in a row: NumPy, or machine code (Numba).

    minimise ½‖Ax − b‖² + ½ Σ ridge_i x_i²   or   ½ xᵀKx + cᵀx   over the simplex or the l1 ball

Vertices are ±radius · e_i, so every direction is one of

    d = scale · x + a e_i + c e_j,   A d = scale · Ax + a A_i + c A_j

and point, image and weights move by one law (`fwnet.iterates`). The gradient of least squares moves
by those kept at vertices (`store`). Vectors are float32 or float64. A problem is left where its gap
is at most the tolerance, where a number is not finite, or where a step has size 0: the loop that
called judges what that means.

`machine_code("fwnet.solvers.compiled.steps")` holds the same functions compiled; there loops take
the place of NumPy's calls, and sums are float64.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compilable
from fwnet.solvers.compiled.store import image_of_direction, keep, move_gradient
from fwnet.solvers.compiled.vectors import (
    FLAGS,
    HUGE,
    add,
    adjoint,
    copy,
    dot,
    largest_used,
    mix,
    not_finite,
    smallest,
    smallest_negative,
    square,
)

TOWARD, AWAY, PAIRWISE, BLENDED = 0, 1, 2, 3
GIVEN, SEARCH, SHORT = 0, 1, 2
_TINY = 1e-300
_marked = compilable(*FLAGS)


@_marked
def take_steps(data, plan, state, log, first, last):  # type: ignore[no-untyped-def]
    """Take as many steps as the log has columns, with problems first, …, last − 1 one by one."""
    s = data.store
    for b in range(first, last):
        matrix = data.matrix[min(b, data.matrix.shape[0] - 1)]
        problem = (matrix, data.shift[b], data.ridge)
        point = (state.x[b], state.image[b], state.weights[b])
        rows = (log.value[b], log.gap[b], log.step_size[b], log.best[b : b + 1], log.best_x[b])
        kept = (s.rows[b], s.row_of[b], s.owner[b], s.last[b], s.count[b])
        t = log.taken[b] = _solve(problem, kept, data.sizes, plan, point, rows)
        if t < log.value.shape[1]:
            log.value[b, t:], log.gap[b, t:] = log.value[b, t], log.gap[b, t]


@_marked
def _solve(problem, store, sizes, plan, point, rows):  # type: ignore[no-untyped-def]
    """The steps of one problem; how many were taken."""
    x, image, weights = point
    values, gaps, step_sizes, best, best_x = rows
    gradient, direction, change = np.empty_like(x), np.empty_like(x), np.empty_like(image)
    t, moved = 0, -1  # steps since the gradient of least squares was computed; −1: it must be
    while t < values.size:
        # Look.
        value, along, moved = _look(problem, plan, x, image, moved, change, gradient)
        i, vertex = _vertex(gradient, plan)
        gap = along - vertex * gradient[i] + not_finite(gradient)
        values[t], gaps[t], size = value, gap, 0.0
        if gap > plan.tol and np.isfinite(value + gap):
            if value < best[0]:
                best[0] = value
                copy(best_x, x)
            # Choose.
            scale, i, a, j, c, limit, slope = _choose(
                plan, gradient, weights, i, vertex, along, gap
            )
            if moved == 0 and scale == 0.0 and limit == 1.0:  # x is the vertex that it leaves
                keep(store, j, -c, gradient, image)
            p, q = -1, -1
            if plan.quadratic:  # a row of K is a column, and lies in one piece
                mix(scale, image, a, problem[0][i], c, problem[0][j], change)
            else:
                p, q = image_of_direction(problem, store, scale, image, i, a, j, c, change)
            step = sizes[t]
            if plan.rule != GIVEN:
                curvature = _curvature(plan, problem[2], x, scale, i, a, j, c, direction, change)
                step = -slope / max(curvature, _TINY)
            direction[0] = min(max(step, 0.0), limit)  # rounded as the points are
            size = direction[0]
        if not size > 0.0:
            if moved <= 0:
                return t
            moved = -1  # rounding adds up while the gradient moves: look at the true one
            continue
        # Move.
        step_sizes[t] = size
        moved = move_gradient(store, gradient, scale, p, a, q, c, size, moved)
        _move(plan, point, change, scale, i, a, j, c, size)
        t += 1
    return values.size


@_marked
def _look(problem, plan, x, image, moved, residual, gradient):  # type: ignore[no-untyped-def]
    """f and ⟨∇f, x⟩; writes the gradient, unless it moved here."""
    matrix, shift, ridge = problem
    if plan.quadratic:
        value, along = _quadratic_form(x, image, shift, gradient)
        return value, along, moved
    value, along = _residual(shift, ridge, x, image, residual)
    if moved < 0:
        adjoint(matrix, residual, gradient)
        if ridge.size:
            gradient += ridge * x
        moved = 0
    return value, along, moved


@_marked
def _curvature(plan, ridge, x, scale, i, a, j, c, direction, change):  # type: ignore[no-untyped-def]
    """smoothness · |d|² for SHORT, dᵀ∇²f d / ω for SEARCH; writes d where it is needed."""
    if plan.rule == SHORT or plan.quadratic or ridge.size:
        _fill_direction(x, scale, i, a, j, c, direction)
    if plan.rule == SHORT:
        return plan.number * dot(direction, direction)
    if plan.quadratic:
        return dot(direction, change) / plan.number
    return (dot(change, change) + square(ridge, direction)) / plan.number


@_marked
def _choose(plan, gradient, weights, i, vertex, along, gap):  # type: ignore[no-untyped-def]
    """scale, i, a, j and c of the direction, its largest step, and the slope of f."""
    if plan.direction == TOWARD:
        return -1.0, i, vertex, i, 0.0, 1.0, -gap
    side, j, cost = _extreme_atom(gradient, weights, 1.0)
    cost *= plan.radius
    weight, away = 1.0 * weights[side, j], (2.0 * side - 1.0) * plan.radius
    if plan.direction == PAIRWISE:
        return 0.0, i, vertex, j, away, weight, vertex * gradient[i] - cost
    if plan.direction == AWAY and gap < cost - along and 1.0 - weight >= plan.whole:
        return 1.0, i, 0.0, j, away, weight / (1.0 - weight), along - cost
    if plan.direction == BLENDED:
        side, k, low = _extreme_atom(gradient, weights, -1.0)
        low *= -plan.radius
        if cost - low >= gap:
            return 0.0, k, (1.0 - 2.0 * side) * plan.radius, j, away, weight, low - cost
    return -1.0, i, vertex, i, 0.0, 1.0, -gap


@_marked
def _move(plan, point, change, scale, i, a, j, c, size):  # type: ignore[no-untyped-def]
    """Move image, weights and x by a step; x follows from the weights where there are any."""
    x, image, weights = point
    add(image, size, change)
    if plan.direction == TOWARD:
        x *= x.dtype.type(1.0 - size)
        x[i] += size * a
        return
    if scale != 0.0:
        _scale_weights(weights, 1.0 + scale * size, plan.dust)
    _add_weight(weights, i, a, size, plan.dust)
    _add_weight(weights, j, -c, -size, plan.dust)
    if scale == 0.0:
        x[i], x[j] = _entry(weights, i, plan.radius), _entry(weights, j, plan.radius)
    else:
        _fill_point(weights, plan.radius, x)


@_marked
def _add_weight(weights, k, vertex, amount, dust):  # type: ignore[no-untyped-def]
    """Add to the weight of the vertex whose entry k is `vertex`, if the direction has it."""
    if vertex != 0.0:
        side = 1 if vertex < 0.0 else 0
        weight = weights[side, k] + amount
        weights[side, k] = weight if weight > dust else 0.0


@_marked
def _entry(weights, k, radius):  # type: ignore[no-untyped-def]
    """x_k."""
    other = weights[1, k] if weights.shape[0] == 2 else 0.0
    return radius * (weights[0, k] - other)


def _quadratic_form_by_loops(x, image, c, gradient):  # type: ignore[no-untyped-def]
    square, tilt = 0.0, 0.0
    for k in range(x.size):
        square += x[k] * image[k]
        tilt += x[k] * c[k]
        gradient[k] = image[k] + c[k]
    return 0.5 * square + tilt, square + tilt


@compilable(*FLAGS, body=_quadratic_form_by_loops)
def _quadratic_form(x, image, c, gradient):  # type: ignore[no-untyped-def]
    """½ xᵀKx + cᵀx and ⟨∇f, x⟩; writes the gradient Kx + c."""
    np.add(image, c, out=gradient)
    square, tilt = float(x.dot(image)), float(x.dot(c))
    return 0.5 * square + tilt, square + tilt


def _residual_by_loops(b, ridge, x, image, residual):  # type: ignore[no-untyped-def]
    square_sum, along = 0.0, 0.0
    for k in range(image.size):
        residual[k] = image[k] - b[k]
        square_sum += residual[k] * residual[k]
        along += residual[k] * image[k]
    extra = square(ridge, x)
    return 0.5 * (square_sum + extra), along + extra


@compilable(*FLAGS, body=_residual_by_loops)
def _residual(b, ridge, x, image, residual):  # type: ignore[no-untyped-def]
    """½‖Ax − b‖² + ½ Σ ridge_k x_k² and ⟨∇f, x⟩; writes Ax − b."""
    np.subtract(image, b, out=residual)
    extra = square(ridge, x)
    value = 0.5 * (float(residual.dot(residual)) + extra)
    return value, float(residual.dot(image)) + extra


def _vertex_by_loops(gradient, plan):  # type: ignore[no-untyped-def]
    extreme, entry = smallest(gradient), plan.radius
    if plan.signed and -smallest_negative(gradient) > -extreme:
        extreme, entry = -smallest_negative(gradient), -plan.radius
    for k in range(gradient.size):
        if gradient[k] == extreme:
            return k, entry
    return 0, entry  # NaN: the gap shows it


@compilable(*FLAGS, body=_vertex_by_loops)
def _vertex(gradient, plan):  # type: ignore[no-untyped-def]
    """The vertex that minimises ⟨gradient, v⟩: its index, and its entry there."""
    if not plan.signed:
        return int(gradient.argmin()), plan.radius
    i = int(np.abs(gradient).argmax())
    return i, plan.radius if gradient[i] <= 0.0 else -plan.radius


def _extreme_atom_by_loops(gradient, weights, sense):  # type: ignore[no-untyped-def]
    best, side = -HUGE, 0
    for s in range(weights.shape[0]):
        high = largest_used(gradient, weights[s], sense * (1.0 - 2.0 * s))
        if high > best:
            best, side = high, s
    sign = sense * (1.0 - 2.0 * side)
    for k in range(gradient.size):
        if weights[side, k] > 0.0 and sign * gradient[k] == best:
            return side, k, best
    return side, 0, best


@compilable(*FLAGS, body=_extreme_atom_by_loops)
def _extreme_atom(gradient, weights, sense):  # type: ignore[no-untyped-def]
    """Side, index and value of the largest sense · (±gradient_k) among atoms with weight."""
    best, side, place = -HUGE, 0, 0
    for s in range(weights.shape[0]):
        used = np.flatnonzero(weights[s])
        if used.size:
            values = sense * (1.0 - 2.0 * s) * gradient[used]
            k = int(values.argmax())
            if values[k] > best:
                best, side, place = float(values[k]), s, int(used[k])
    return side, place, best


def _fill_direction_by_loops(x, scale, i, a, j, c, direction):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        direction[k] = scale * x[k]
    direction[i] += a
    direction[j] += c


@compilable(*FLAGS, body=_fill_direction_by_loops)
def _fill_direction(x, scale, i, a, j, c, direction):  # type: ignore[no-untyped-def]
    np.multiply(x, scale, out=direction)
    direction[i] += a
    direction[j] += c


def _scale_weights_by_loops(weights, factor, dust):  # type: ignore[no-untyped-def]
    for s in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            weight = weights[s, k] * factor
            weights[s, k] = weight if weight > dust else 0.0


@compilable(*FLAGS, body=_scale_weights_by_loops)
def _scale_weights(weights, factor, dust):  # type: ignore[no-untyped-def]
    weights *= weights.dtype.type(factor)
    weights[weights <= dust] = 0.0


def _fill_point_by_loops(weights, radius, x):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        other = weights[1, k] if weights.shape[0] == 2 else 0.0
        x[k] = radius * (weights[0, k] - other)


@compilable(*FLAGS, body=_fill_point_by_loops)
def _fill_point(weights, radius, x):  # type: ignore[no-untyped-def]
    """x = radius · (weights of +e_i − weights of −e_i)."""
    other = weights[1] if weights.shape[0] == 2 else 0.0
    np.multiply(weights[0] - other, radius, out=x)
