"""Gradients at the vertices that steps use: they move the gradient at x, as f is quadratic.

    ∇f(x + γ(scale · x + Σ c_k v_k)) = ∇f(x) + γ(scale ∇f(x) + Σ c_k ∇f(v_k)),   scale = −Σ c_k

∇f(v) costs one product with A, as ∇f(x) does, but steps come back to the same few vertices. Where
the store is full, the vertex that was not used for the longest time makes room. No step takes more
products than one, but while the store has room for both of its vertices.
"""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compilable
from fwnet.solvers.compiled.vectors import FLAGS, adjoint, mix, subtract

_marked = compilable(*FLAGS)
_KEPT, _NOW, _VISITS, _RETURNS = 0, 1, 2, 3  # of `count`
_NEW, _SEEN = -1, -2  # of `row_of`


@_marked
def image_of_direction(problem, store, scale, image, i, a, j, c, change):  # type: ignore[no-untyped-def]
    """Writes A d, d = scale · x + a e_i + c e_j; the rows of both vertices, −1 where none is."""
    rows, matrix, n = store[0], problem[0], problem[0].shape[1]
    first, second = i + n * int(a < 0.0), j + n * int(c > 0.0)
    first = first if a != 0.0 else second
    second = second if c != 0.0 else first
    if rows.shape[0] == 0 or not _pays(store, first, second):
        _image_by_columns(matrix, scale, image, i, a, j, c, change)
        return -1, -1
    if store[1][second] >= 0:
        _touch(store, store[1][second])  # so that the other does not take its row
    if a != 0.0:
        _fetch(problem, store, first, i, a, change)
    if c != 0.0:
        _fetch(problem, store, second, j, -c, change)
    p, q = store[1][first], store[1][second]
    enter, leave = 1.0 if a != 0.0 else 0.0, -1.0 if c != 0.0 else 0.0
    mix(scale, image, enter, rows[p, n:], leave, rows[q, n:], change)
    return p, q


def _image_by_columns_by_loops(A, scale, image, i, a, j, c, change):  # type: ignore[no-untyped-def]
    for k in range(image.size):
        change[k] = scale * image[k]
    for place, factor in ((i, a), (j, c)):
        if factor != 0.0:
            for k in range(image.size):
                change[k] += factor * A[k, place]


@compilable(*FLAGS, body=_image_by_columns_by_loops)
def _image_by_columns(A, scale, image, i, a, j, c, change):  # type: ignore[no-untyped-def]
    """A d, from the image of x and two columns."""
    np.multiply(A[:, i], a, out=change)
    if c != 0.0:
        change += c * A[:, j]
    if scale != 0.0:
        change += scale * image


@_marked
def move_gradient(store, gradient, scale, p, a, q, c, size, moved):  # type: ignore[no-untyped-def]
    """∇f(x) ← ∇f(x + size · d), with the vertices in the rows p and q; counts how often it moved.

    −1 without rows: the gradient must be computed.
    """
    if p < 0:
        return -1
    rows, n = store[0], gradient.size
    enter, leave = size if a != 0.0 else 0.0, -size if c != 0.0 else 0.0
    mix(1.0 + size * scale, gradient, enter, rows[p, :n], leave, rows[q, :n], gradient)
    return moved + 1


@_marked
def _pays(store, first, second):  # type: ignore[no-untyped-def]
    """Whether to keep the gradients at two vertices, or at one; counts and marks the visits.

    No vertex is kept at its first visit until a quarter of the visits have been returns. Two that
    are missing in a full store would cost more than the next gradient at x.
    """
    row_of, last, count = store[1], store[3], store[4]
    one = first == second
    new = int(row_of[first] == _NEW) + int(row_of[second] == _NEW and not one)
    missing = int(row_of[first] < 0) + int(row_of[second] < 0 and not one)
    count[_VISITS] += 1 if one else 2
    count[_RETURNS] += (1 if one else 2) - new
    if row_of[first] == _NEW:
        row_of[first] = _SEEN
    if row_of[second] == _NEW:
        row_of[second] = _SEEN
    returns = new == 0 or 4 * count[_RETURNS] >= count[_VISITS]
    return returns and (missing < 2 or count[_KEPT] + 2 <= last.size)


@_marked
def keep(store, k, entry, gradient, image):  # type: ignore[no-untyped-def]
    """Put the vertex entry · e_k into the store, where x is, with what is known of x."""
    rows, row_of, _, last, _ = store
    n = gradient.size
    vertex = k + n * int(entry < 0.0)
    if last.size > 0 and row_of[vertex] < 0:
        row = _free_row(store, vertex)
        rows[row, :n], rows[row, n:] = gradient, image
        _touch(store, row)


@_marked
def _fetch(problem, store, vertex, k, entry, residual):  # type: ignore[no-untyped-def]
    """Put the vertex entry · e_k into the store if it is missing, and note that it is used."""
    matrix, b, ridge = problem
    rows, row_of, _, _, _ = store
    n = matrix.shape[1]
    if row_of[vertex] < 0:
        row = _free_row(store, vertex)
        _image_of_vertex(matrix, k, entry, rows[row, n:])
        subtract(rows[row, n:], b, residual)
        adjoint(matrix, residual, rows[row, :n])
        if ridge.size:
            rows[row, k] += ridge[k] * entry
    _touch(store, row_of[vertex])


def _image_of_vertex_by_loops(A, k, entry, image):  # type: ignore[no-untyped-def]
    for row in range(image.size):
        image[row] = entry * A[row, k]


@compilable(*FLAGS, body=_image_of_vertex_by_loops)
def _image_of_vertex(A, k, entry, image):  # type: ignore[no-untyped-def]
    """Writes A (entry · e_k)."""
    np.multiply(A[:, k], entry, out=image)


@_marked
def _free_row(store, vertex):  # type: ignore[no-untyped-def]
    """A row for the vertex: a new one, or that of the vertex used the longest time ago."""
    _, row_of, owner, last, count = store
    row = count[_KEPT]
    if row < last.size:
        count[_KEPT] += 1
    else:
        row = last.argmin()
        row_of[owner[row]] = _SEEN
    row_of[vertex], owner[row] = row, vertex
    return row


@_marked
def _touch(store, row):  # type: ignore[no-untyped-def]
    """Note that the row is used now."""
    last, count = store[3], store[4]
    count[_NOW] += 1
    last[row] = count[_NOW]
