"""Operations on vectors: by NumPy, and by the loops that take its place in machine code."""

from __future__ import annotations

import numpy as np

from fwnet.numerics.compiled import compilable

HUGE = 1e300
# Sums in any order, as vector instructions need; NaN and infinity keep their meaning.
FLAGS = ("reassoc", "contract")
# A minimum compiles to vector instructions only if NaN need not be kept.
_blind = compilable("nnan", "nsz", "reassoc", error_model="python")


def _not_finite_by_loops(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(values.size):
        total += 0.0 * values[k]
    return total


@compilable(*FLAGS, body=_not_finite_by_loops)
def not_finite(values):  # type: ignore[no-untyped-def]
    """0, or NaN if any entry is NaN or infinite."""
    return 0.0 * float(values.sum())


def _adjoint_by_loops(A, z, product):  # type: ignore[no-untyped-def]
    for k in range(product.size):
        product[k] = 0.0
    rows = A.shape[0] - A.shape[0] % 4
    for k in range(0, rows, 4):  # four rows a pass: the product is read and written less often
        p, q, r, s = A[k], A[k + 1], A[k + 2], A[k + 3]
        e, f, g, h = z[k], z[k + 1], z[k + 2], z[k + 3]
        for column in range(product.size):
            product[column] += e * p[column] + f * q[column] + g * r[column] + h * s[column]
    for k in range(rows, A.shape[0]):
        p, e = A[k], z[k]
        for column in range(product.size):
            product[column] += e * p[column]


@compilable(*FLAGS, body=_adjoint_by_loops)
def adjoint(A, z, product):  # type: ignore[no-untyped-def]
    """Writes Aᵀz."""
    np.dot(z, A, out=product)


def _dot_by_loops(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compilable(*FLAGS, body=_dot_by_loops)
def dot(a, b):  # type: ignore[no-untyped-def]
    """⟨a, b⟩."""
    return float(a.dot(b))


def _add_by_loops(x, factor, y):  # type: ignore[no-untyped-def]
    for k in range(x.size):
        x[k] += factor * y[k]


@compilable(*FLAGS, body=_add_by_loops)
def add(x, factor, y):  # type: ignore[no-untyped-def]
    """x ← x + factor · y."""
    x += factor * y


def _mix_by_loops(scale, x, a, y, c, z, result):  # type: ignore[no-untyped-def]
    for k in range(result.size):
        result[k] = scale * x[k] + a * y[k] + c * z[k]


@compilable(*FLAGS, body=_mix_by_loops)
def mix(scale, x, a, y, c, z, result):  # type: ignore[no-untyped-def]
    """Writes scale · x + a · y + c · z; `result` may be x."""
    np.multiply(x, scale, out=result)
    if a != 0.0:
        result += a * y
    if c != 0.0:
        result += c * z


def _subtract_by_loops(x, y, result):  # type: ignore[no-untyped-def]
    for k in range(result.size):
        result[k] = x[k] - y[k]


@compilable(*FLAGS, body=_subtract_by_loops)
def subtract(x, y, result):  # type: ignore[no-untyped-def]
    """Writes x − y."""
    np.subtract(x, y, out=result)


def _copy_by_loops(x, y):  # type: ignore[no-untyped-def]
    for k in range(x.size):  # x[:] = y would compile its error messages too
        x[k] = y[k]


@compilable(*FLAGS, body=_copy_by_loops)
def copy(x, y):  # type: ignore[no-untyped-def]
    """x ← y."""
    x[:] = y


def _square_by_loops(ridge, x):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(ridge.size):
        total += ridge[k] * x[k] * x[k]
    return total


@compilable(*FLAGS, body=_square_by_loops)
def square(ridge, x):  # type: ignore[no-untyped-def]
    """Σ ridge_k x_k², 0 without a ridge."""
    return float((ridge * x).dot(x)) if ridge.size else 0.0


@_blind
def smallest(values):  # type: ignore[no-untyped-def]
    """min values, for loops only, as the next two."""
    low = values[0]
    for k in range(values.size):
        low = min(low, values[k])
    return low


@_blind
def smallest_negative(values):  # type: ignore[no-untyped-def]
    """min −values."""
    low = -values[0]
    for k in range(values.size):
        low = min(low, -values[k])
    return low


@_blind
def largest_used(values, weights, sign):  # type: ignore[no-untyped-def]
    """max sign · values, where weights are positive."""
    high = -HUGE
    for k in range(values.size):
        high = max(high, sign * values[k] if weights[k] > 0.0 else -HUGE)
    return high
