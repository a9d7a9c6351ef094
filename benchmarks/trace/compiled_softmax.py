"""Softmax regression in compiled code (Numba): a row of X and its logits pass the caches once.

Only float32. The exponential is a polynomial, good to 1e-7 relative, that becomes vector code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fwnet.numerics.compiled import compiled

_float = np.float32
_LEAST = _float(-87.0)  # exp of less is no normal float32
_LOG2_E = _float(1 / math.log(2))
_LN_2 = _float(355 / 512)  # of so few digits that k times it is exact
_REST = _float(math.log(2) - 355 / 512)
# e^r ≈ 1 + r + r²(C₂ + C₃r + …): the least relative error for |r| <= ½ ln 2, 3e-9 before rounding
_C2, _C3, _C4 = _float(0.49999993), _float(0.16666521), _float(0.041668388)
_C5, _C6 = _float(0.0083687169), _float(0.0013814599)


def _bits_as_float(_context: Any, _bits: Any) -> Any:
    """The float32 whose bits are those of an int32."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), code


def _larger_float(_context: Any, _a: Any, _b: Any) -> Any:
    """max(a, b) without a rule for NaN: only so does a running maximum become vector code."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()] * 2)
        larger = builder.module.declare_intrinsic("llvm.maxnum", [ir.FloatType()], kind)
        return builder.call(larger, arguments, fastmath=("nnan", "nsz"))

    return types.float32(types.float32, types.float32), code


_from_bits: Any = intrinsic(_bits_as_float)
_larger: Any = intrinsic(_larger_float)


@compiled("contract")  # sums in another order would spoil the remainder
def exp(t):  # type: ignore[no-untyped-def]
    """e^t for a float32 t <= 0, by t = k ln 2 + r and a polynomial in r; NaN for NaN."""
    if t < _LEAST:
        t = _LEAST
    k = np.rint(t * _LOG2_E)
    r = (t - k * _LN_2) - k * _REST
    p = _C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))
    p = _float(1.0) + (r + r * r * p)
    return p * _from_bits((np.int32(k) + np.int32(127)) << np.int32(23))


@compiled("reassoc", "contract")
def _sweep_row(z, keep, left, right, label, weight, image, pulled, powers):  # type: ignore[no-untyped-def]
    """z ← keep · z + left · right, e = weight · (softmax(z) − e_label), pulled += image · e.

    Return weight times the loss, and ⟨e, right⟩.
    """
    m = z.shape[0]
    top = keep * z[0] + left * right[0]
    for j in range(m):
        moved = keep * z[j] + left * right[j]
        z[j] = moved
        top = _larger(top, moved)
    total, product = _float(0.0), _float(0.0)
    for j in range(m):
        power = exp(z[j] - top)
        powers[j] = power
        total += power
        product += power * right[j]
    share = weight / total
    pull = share * image
    for j in range(m):
        pulled[j] += pull * powers[j]
    pulled[label] -= weight * image
    return weight * (math.log(total) + top - z[label]), share * product - weight * right[label]


@compiled("reassoc", "contract")
def sweep_dense(rows, X, constant, u, Z, move, y, weight, image, pushed, pulled):  # type: ignore[no-untyped-def]
    """One pass over some rows, as in `benchmarks.trace.sweeps`; return their share of f.

    rows       the first one, and the one behind the last
    X          (n, width), and a last column of this constant; 0 where there is none
    move       keep, left (n,), right (m,): where the logits Z (n, m) go
    y, weight  (n,) labels and weights
    image      (n,) written;  pushed (d,) and pulled (m,) added to
    """
    keep, left, right = move
    last, powers, value = u.shape[0] - 1, np.empty(Z.shape[1], np.float32), 0.0
    for i in range(rows[0], rows[1]):
        x, score = X[i], constant * u[last]
        for j in range(x.shape[0]):
            score += x[j] * u[j]
        image[i] = score
        loss, push = _sweep_row(Z[i], keep, left[i], right, y[i], weight[i], score, pulled, powers)
        value += loss
        pushed[last] += push * constant
        for j in range(x.shape[0]):
            pushed[j] += push * x[j]
    return value


@compiled("reassoc", "contract")
def sweep_sparse(rows, X, constant, u, Z, move, y, weight, image, pushed, pulled):  # type: ignore[no-untyped-def]
    """The same for a CSR matrix: its data, indices and indptr."""
    data, indices, indptr = X
    keep, left, right = move
    last, powers, value = u.shape[0] - 1, np.empty(Z.shape[1], np.float32), 0.0
    for i in range(rows[0], rows[1]):
        score = constant * u[last]
        for k in range(indptr[i], indptr[i + 1]):
            score += data[k] * u[indices[k]]
        image[i] = score
        loss, push = _sweep_row(Z[i], keep, left[i], right, y[i], weight[i], score, pulled, powers)
        value += loss
        pushed[last] += push * constant
        for k in range(indptr[i], indptr[i + 1]):
            pushed[indices[k]] += push * data[k]
    return value
