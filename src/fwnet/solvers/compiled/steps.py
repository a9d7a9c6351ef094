"""Frank-Wolfe steps on arrays, many of one problem in a row: NumPy, or machine code (Numba).

    minimise ½‖Ax − b‖² + ½ Σ ridge_i x_i²   or   ½ xᵀKx + cᵀx   over the simplex or the l1 ball

Vertices are ±radius · e_i, so every direction is one of

    d = scale · x + a e_i + c e_j,   A d = scale · Ax + a A_i + c A_j

and point, image and weights move by one law (`fwnet.iterates`). Vectors are float32 or float64. A
problem is left where its gap is at most the tolerance, where a number is not finite, or where a
step has size 0: the loop that called judges what that means.

`machine_code("fwnet.solvers.compiled.steps")` holds the same functions compiled; there loops take
the place of NumPy's calls, and sums are float64.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compilable

TOWARD, AWAY, PAIRWISE, BLENDED = 0, 1, 2, 3
GIVEN, SEARCH, SHORT = 0, 1, 2
_TINY, _HUGE = 1e-300, 1e300

# Sums in any order, as vector instructions need; NaN and infinity keep their meaning.
_FLAGS = ("reassoc", "contract")
_marked = compilable(*_FLAGS)
# A minimum compiles to vector instructions only if NaN need not be kept.
_blind = compilable("nnan", "nsz", "reassoc", error_model="python")


@_marked
def take_steps(data, plan, state, log, first, last):  # type: ignore[no-untyped-def]
    """Take as many steps as the log has columns, with problems first, …, last − 1 one by one."""
    for b in range(first, last):
        matrix = data.matrix[min(b, data.matrix.shape[0] - 1)]
        point = (state.x[b], state.image[b], state.weights[b])
        rows = (log.value[b], log.gap[b], log.step_size[b], log.best[b : b + 1], log.best_x[b])
        t = log.taken[b] = _solve(matrix, data.shift[b], data.ridge, data.sizes, plan, point, rows)
        if t < log.value.shape[1]:
            log.value[b, t:], log.gap[b, t:] = log.value[b, t], log.gap[b, t]


@_marked
def _solve(matrix, shift, ridge, sizes, plan, point, rows):  # type: ignore[no-untyped-def]
    """The steps of one problem; how many were taken."""
    x, image, _ = point
    values, gaps, step_sizes, best, best_x = rows
    gradient, direction, change = np.empty_like(x), np.empty_like(x), np.empty_like(image)
    for t in range(values.size):
        # Look.
        if plan.quadratic:
            value, along = _quadratic_form(x, image, shift, gradient)
        else:
            value, along = _least_squares(matrix, shift, ridge, x, image, change, gradient)
        i, vertex = _vertex(gradient, plan)
        gap = along - vertex * gradient[i] + _not_finite(gradient)
        values[t], gaps[t] = value, gap
        if gap <= plan.tol or not np.isfinite(value + gap):
            return t
        if value < best[0]:
            best[0] = value
            _copy(best_x, x)
        # Choose.
        scale, i, a, j, c, limit, slope = _choose(plan, gradient, point[2], i, vertex, along, gap)
        _image_of_direction(matrix, plan.quadratic, image, scale, i, a, j, c, change)
        step = sizes[t]
        if plan.rule != GIVEN:
            if plan.rule == SHORT or plan.quadratic or ridge.size:
                _fill_direction(x, scale, i, a, j, c, direction)
            step = -slope / max(_curvature(plan, ridge, direction, change), _TINY)
        direction[0] = min(max(step, 0.0), limit)  # rounded as the points are
        size = direction[0]
        if not size > 0.0:
            return t
        # Move.
        step_sizes[t] = size
        _move(plan, point, change, scale, i, a, j, c, size)
    return values.size


@_marked
def _curvature(plan, ridge, direction, change):  # type: ignore[no-untyped-def]
    """smoothness · |d|² for SHORT, dᵀ∇²f d / ω for SEARCH."""
    if plan.rule == SHORT:
        return plan.number * _dot(direction, direction)
    if plan.quadratic:
        return _dot(direction, change) / plan.number
    return (_dot(change, change) + _square(ridge, direction)) / plan.number


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
    _add(image, size, change)
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


@compilable(*_FLAGS, body=_quadratic_form_by_loops)
def _quadratic_form(x, image, c, gradient):  # type: ignore[no-untyped-def]
    """½ xᵀKx + cᵀx and ⟨∇f, x⟩; writes the gradient Kx + c."""
    np.add(image, c, out=gradient)
    square, tilt = float(x.dot(image)), float(x.dot(c))
    return 0.5 * square + tilt, square + tilt


def _least_squares_by_loops(A, b, ridge, x, image, residual, gradient):  # type: ignore[no-untyped-def]
    square, along = 0.0, 0.0
    for k in range(image.size):
        residual[k] = image[k] - b[k]
        square += residual[k] * residual[k]
        along += residual[k] * image[k]
    for k in range(gradient.size):
        gradient[k] = ridge[k] * x[k] if ridge.size else 0.0
    rows = A.shape[0] - A.shape[0] % 4
    for k in range(0, rows, 4):  # four rows a pass: the gradient is read and written less often
        p, q, r, s = A[k], A[k + 1], A[k + 2], A[k + 3]
        e, f, g, h = residual[k], residual[k + 1], residual[k + 2], residual[k + 3]
        for column in range(gradient.size):
            gradient[column] += e * p[column] + f * q[column] + g * r[column] + h * s[column]
    for k in range(rows, A.shape[0]):
        p, e = A[k], residual[k]
        for column in range(gradient.size):
            gradient[column] += e * p[column]
    extra = 0.0
    for k in range(ridge.size):
        extra += ridge[k] * x[k] * x[k]
    return 0.5 * (square + extra), along + extra


@compilable(*_FLAGS, body=_least_squares_by_loops)
def _least_squares(A, b, ridge, x, image, residual, gradient):  # type: ignore[no-untyped-def]
    """½‖Ax − b‖² + ½ Σ ridge_k x_k² and ⟨∇f, x⟩; writes Ax − b and the gradient."""
    np.subtract(image, b, out=residual)
    np.dot(residual, A, out=gradient)
    square, along = float(residual.dot(residual)), float(residual.dot(image))
    if ridge.size:
        gradient += ridge * x
        extra = _square(ridge, x)
        square, along = square + extra, along + extra
    return 0.5 * square, along


def _vertex_by_loops(gradient, plan):  # type: ignore[no-untyped-def]
    extreme, entry = _smallest(gradient), plan.radius
    if plan.signed and -_smallest_negative(gradient) > -extreme:
        extreme, entry = -_smallest_negative(gradient), -plan.radius
    for k in range(gradient.size):
        if gradient[k] == extreme:
            return k, entry
    return 0, entry  # NaN: the gap shows it


@compilable(*_FLAGS, body=_vertex_by_loops)
def _vertex(gradient, plan):  # type: ignore[no-untyped-def]
    """The vertex that minimises ⟨gradient, v⟩: its index, and its entry there."""
    if not plan.signed:
        return int(gradient.argmin()), plan.radius
    i = int(np.abs(gradient).argmax())
    return i, plan.radius if gradient[i] <= 0.0 else -plan.radius


def _extreme_atom_by_loops(gradient, weights, sense):  # type: ignore[no-untyped-def]
    best, side = -_HUGE, 0
    for s in range(weights.shape[0]):
        high = _largest_used(gradient, weights[s], sense * (1.0 - 2.0 * s))
        if high > best:
            best, side = high, s
    sign = sense * (1.0 - 2.0 * side)
    for k in range(gradient.size):
        if weights[side, k] > 0.0 and sign * gradient[k] == best:
            return side, k, best
    return side, 0, best


@compilable(*_FLAGS, body=_extreme_atom_by_loops)
def _extreme_atom(gradient, weights, sense):  # type: ignore[no-untyped-def]
    """Side, index and value of the largest sense · (±gradient_k) among atoms with weight."""
    best, side, place = -_HUGE, 0, 0
    for s in range(weights.shape[0]):
        used = np.flatnonzero(weights[s])
        if used.size:
            values = sense * (1.0 - 2.0 * s) * gradient[used]
            k = int(values.argmax())
            if values[k] > best:
                best, side, place = float(values[k]), s, int(used[k])
    return side, place, best


def _not_finite_by_loops(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(values.size):
        total += 0.0 * values[k]
    return total


@compilable(*_FLAGS, body=_not_finite_by_loops)
def _not_finite(values):  # type: ignore[no-untyped-def]
    """0, or NaN if any entry is NaN or infinite."""
    return 0.0 * float(values.sum())


def _image_of_direction_by_loops(matrix, symmetric, image, scale, i, a, j, c, change):  # type: ignore[no-untyped-def]
    for k in range(image.size):
        change[k] = scale * image[k]
    for place, factor in ((i, a), (j, c)):
        if factor != 0.0 and symmetric:  # a row is a column, and lies in one piece
            row = matrix[place]
            for k in range(image.size):
                change[k] += factor * row[k]
        elif factor != 0.0:
            for k in range(image.size):
                change[k] += factor * matrix[k, place]


@compilable(*_FLAGS, body=_image_of_direction_by_loops)
def _image_of_direction(matrix, symmetric, image, scale, i, a, j, c, change):  # type: ignore[no-untyped-def]
    """A d, from the image of x and two columns."""
    columns = matrix if symmetric else matrix.T
    np.multiply(columns[i], a, out=change)
    if c != 0.0:
        change += c * columns[j]
    if scale != 0.0:
        change += scale * image


def _fill_direction_by_loops(x, scale, i, a, j, c, direction):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        direction[k] = scale * x[k]
    direction[i] += a
    direction[j] += c


@compilable(*_FLAGS, body=_fill_direction_by_loops)
def _fill_direction(x, scale, i, a, j, c, direction):  # type: ignore[no-untyped-def]
    np.multiply(x, scale, out=direction)
    direction[i] += a
    direction[j] += c


def _dot_by_loops(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compilable(*_FLAGS, body=_dot_by_loops)
def _dot(a, b):  # type: ignore[no-untyped-def]
    return float(a.dot(b))


def _add_by_loops(x, factor, y):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        x[k] += factor * y[k]


@compilable(*_FLAGS, body=_add_by_loops)
def _add(x, factor, y):  # type: ignore[no-untyped-def]
    """x ← x + factor · y."""
    x += factor * y


def _copy_by_loops(x, y):  # type: ignore[no-untyped-def]
    for k in range(x.size):  # x[:] = y would compile its error messages too
        x[k] = y[k]


@compilable(*_FLAGS, body=_copy_by_loops)
def _copy(x, y):  # type: ignore[no-untyped-def]
    """x ← y."""
    x[:] = y


def _square_by_loops(ridge, x):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(ridge.size):
        total += ridge[k] * x[k] * x[k]
    return total


@compilable(*_FLAGS, body=_square_by_loops)
def _square(ridge, x):  # type: ignore[no-untyped-def]
    """Σ ridge_k x_k², 0 without a ridge."""
    return float((ridge * x).dot(x)) if ridge.size else 0.0


def _scale_weights_by_loops(weights, factor, dust):  # type: ignore[no-untyped-def]
    for s in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            weight = weights[s, k] * factor
            weights[s, k] = weight if weight > dust else 0.0


@compilable(*_FLAGS, body=_scale_weights_by_loops)
def _scale_weights(weights, factor, dust):  # type: ignore[no-untyped-def]
    weights *= weights.dtype.type(factor)
    weights[weights <= dust] = 0.0


def _fill_point_by_loops(weights, radius, x):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        other = weights[1, k] if weights.shape[0] == 2 else 0.0
        x[k] = radius * (weights[0, k] - other)


@compilable(*_FLAGS, body=_fill_point_by_loops)
def _fill_point(weights, radius, x):  # type: ignore[no-untyped-def]
    """x = radius · (weights of +e_i − weights of −e_i)."""
    other = weights[1] if weights.shape[0] == 2 else 0.0
    np.multiply(weights[0] - other, radius, out=x)


@_blind
def _smallest(values):  # type: ignore[no-untyped-def]
    low = values[0]
    for k in range(values.size):
        low = min(low, values[k])
    return low


@_blind
def _smallest_negative(values):  # type: ignore[no-untyped-def]
    low = -values[0]
    for k in range(values.size):
        low = min(low, -values[k])
    return low


@_blind
def _largest_used(values, weights, sign):  # type: ignore[no-untyped-def]
    high = -_HUGE
    for k in range(values.size):
        high = max(high, sign * values[k] if weights[k] > 0.0 else -_HUGE)
    return high
