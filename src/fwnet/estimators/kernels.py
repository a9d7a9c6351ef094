"""Kernels evaluated in blocks: k(x_i, x_j) for a few i and all j, in float32 or float64.

    rbf  exp(−γ|x − z|²)      poly  (γ⟨x, z⟩ + r)^p      sigmoid  tanh(γ⟨x, z⟩ + r)

A block is one matrix product and one elementwise function, done in slices that stay in the
processor's cache. For rbf the norms ride in the product as two more features:

    −γ|x − z|² = ⟨(√(2γ) x, −γ|x|², 1), (√(2γ) z, 1, −γ|z|²)⟩
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fwnet.estimators.pairwise import mirror

Array = NDArray[Any]
_SLICE = 1 << 17  # entries of a block that are worked on at a time: half a MB in float32
_HEIGHT, _WIDE = 512, 32  # rows of a product worth their packing, features from where they are


@final
@dataclass(frozen=True)
class KernelSpec:
    """Which kernel: its name or a callable, and its numbers."""

    name: str | Callable[..., Any]
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    def of_products(self, products: Array) -> Array:
        """Turn products (for rbf: exponents) into kernel values, in place."""
        if self.name == "rbf":
            np.exp(products, out=products)
        elif self.name in ("poly", "sigmoid"):
            products *= products.dtype.type(self.gamma)
            products += products.dtype.type(self.coef0)
            if self.name == "poly":
                np.power(products, products.dtype.type(self.degree), out=products)
            else:
                np.tanh(products, out=products)
        return products


@final
class KernelRows:
    """Rows k(x_i, ·) against one set of points X, in one precision."""

    def __init__(self, X: Any, spec: KernelSpec, dtype: Any) -> None:
        self.spec, self.dtype, self.n, self.reach = spec, np.dtype(dtype), X.shape[0], 1.0
        self._X, self.wide = X, X.shape[1] > _WIDE
        if callable(spec.name) or spec.name == "precomputed":
            return
        if spec.name != "rbf":
            self._points = X  # cast when used: a linear kernel needs few of the rows
        elif sparse.issparse(X):
            self._points, self.reach = _with_norms_sparse(X, spec.gamma, self.dtype)
        else:
            self._points, self.reach = _with_norms(X, spec.gamma, self.dtype)

    def rows(self, index: Array, columns: Array | None = None, out: Array | None = None) -> Array:
        """Return k(x_i, x_j) for i in index (k,) and j in columns, all of them by default."""
        spec, width = self.spec, self.n if columns is None else len(columns)
        if out is None:
            out = np.empty((len(index), width), self.dtype)
        if spec.name == "precomputed":
            out[:] = self._X[index] if columns is None else self._X[np.ix_(index, columns)]
            return out
        if callable(spec.name):
            out[:] = call_kernel(
                spec.name, self._X[index], self._X if columns is None else self._X[columns]
            )
            return out
        right = self._points if columns is None else self._points[columns]
        self._fill(out, index, right)
        return out

    def square(self) -> Array:
        """Return the whole matrix (n, n), each pair of points evaluated once."""
        if self.spec.name == "precomputed":
            return np.ascontiguousarray(self._X, self.dtype)
        if callable(self.spec.name):
            return self.rows(np.arange(self.n))
        out = np.empty((self.n, self.n), self.dtype)
        for lo, hi in self._spans():
            self._fill(out[lo:hi, lo:], np.arange(lo, hi), self._points[lo:])
            mirror(out, lo, hi)
        return out

    def sums(self, weights: Array) -> Array:
        """Return Σ_j weights_j k(x_i, x_j) (n,), each pair of points evaluated once; named kernels.

        The matrix is never there as a whole.
        """
        total, block = np.zeros(self.n), np.empty((_HEIGHT, self.n), self.dtype)
        for lo, hi in self._spans():
            part = block[: hi - lo, lo:]
            self._fill(part, np.arange(lo, hi), self._points[lo:])
            total[lo:hi] += part @ weights[lo:]
            total[hi:] += weights[lo:hi] @ part[:, hi - lo :]
        return total

    def _spans(self) -> list[tuple[int, int]]:
        return [(lo, min(lo + _HEIGHT, self.n)) for lo in range(0, self.n, _HEIGHT)]

    def _fill(self, out: Array, index: Array, right: Any) -> None:
        wide = right.shape[1] > _WIDE
        right = right.astype(self.dtype, copy=False)
        height = _HEIGHT if wide else max(16, _SLICE // max(right.shape[0], 1))
        for lo in range(0, len(index), height):
            part = out[lo : lo + height]
            left = self._points[index[lo : lo + height]].astype(self.dtype, copy=False)
            if self.spec.name == "rbf":
                left = _swap_norms(left)
            if sparse.issparse(left):
                part[:] = (left @ right.T).toarray()
            else:
                np.matmul(left, right.T, out=part)
            for low in range(0, len(part), max(1, _SLICE // part.shape[1])):
                self.spec.of_products(part[low : low + max(1, _SLICE // part.shape[1])])

    def diagonal(self, index: Array) -> Array:
        """Return k(x_i, x_i) (len(index),) in float64."""
        if self.spec.name == "rbf":
            return np.ones(len(index))
        if self.spec.name == "precomputed":
            return np.asarray(self._X[index, index], dtype=np.float64)
        if callable(self.spec.name):
            return np.array(
                [self.rows(index[k : k + 1], index[k : k + 1])[0, 0] for k in range(len(index))]
            )
        return self.spec.of_products(squared_norms(self._X[index]))


def cross_kernel(left: Any, right: Any, spec: KernelSpec) -> Array:
    """Return k(left_i, right_j) (m, n) in float64; for "precomputed", see the estimator."""
    if callable(spec.name):
        return call_kernel(spec.name, left, right)
    dense = not (sparse.issparse(left) or sparse.issparse(right))
    if spec.name == "rbf" and dense and len(right):
        centre = right.mean(axis=0)  # |x − z|² far from 0 would be rounding
        left, right = left - centre, right - centre
    products = left @ right.T
    products = np.asarray(products.toarray() if sparse.issparse(products) else products, np.float64)
    if spec.name == "rbf":
        products *= 2.0
        products -= squared_norms(left)[:, None]
        products -= squared_norms(right)
        products *= spec.gamma
    return spec.of_products(products)


def call_kernel(function: Callable[..., Any], left: Any, right: Any) -> Array:
    """Return function(left, right) (m, n) as a float64 array, with its shape and values checked."""
    values = np.asarray(function(left, right), dtype=np.float64)
    shape = (left.shape[0], right.shape[0])
    if values.shape != shape:
        raise ValueError(
            f"kernel(X, Z) must return a matrix of shape (len(X), len(Z)) = {shape}; "
            f"got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError("kernel(X, Z) must return finite numbers; got NaN or Inf.")
    return values


def squared_norms(X: Any) -> Array:
    """Return |x_i|² (n,) in float64 for a dense or sparse X."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def _with_norms(X: Array, gamma: float, dtype: Any) -> tuple[Array, float]:
    """Return √(2γ)(x − mean) with the features 1 and −γ|x − mean|² added, and the largest norm."""
    # Distances do not change when the origin moves; rounding errors do, with the norms.
    varies = _varying(X)
    n, d = X.shape[0], len(varies)
    points, mean, scale = np.empty((n, d + 2), dtype), X.mean(axis=0), np.sqrt(2.0 * gamma)
    height = max(1, _SLICE // max(X.shape[1], 1))
    for lo in range(0, n, height):
        part = X[lo : lo + height] - mean
        part *= scale
        single = part.astype(dtype)
        np.take(single, varies, axis=1, out=points[lo : lo + len(part), :d], mode="clip")
    points[:, d] = 1
    norms = 0.5 * squared_norms(points[:, :d])
    points[:, d + 1] = -norms
    return points, float(norms.max(initial=0.0))


def _varying(X: Array) -> Array:
    """Which features differ between points; distances do not see the others (image borders)."""
    n, d = X.shape
    varies, lo = np.full(d, d <= _WIDE), 0
    while lo < n and not varies.all():
        varies |= (X[lo : lo + 256] != X[0]).any(axis=0)
        lo += 256
    return np.flatnonzero(varies)


def _with_norms_sparse(X: Any, gamma: float, dtype: Any) -> tuple[Any, float]:
    points = (X * np.sqrt(2.0 * gamma)).astype(dtype)
    norms = 0.5 * squared_norms(points)
    ones = sparse.csr_matrix(np.ones((X.shape[0], 1)))
    added = [points, ones, sparse.csr_matrix(-norms[:, None])]
    return sparse.hstack(added, format="csr", dtype=dtype), float(norms.max(initial=0.0))


def _swap_norms(points: Any) -> Any:
    """Exchange the last two features, so that a product with the other side adds both norms."""
    d = points.shape[1] - 2
    if sparse.issparse(points):
        ones, norms = points[:, d : d + 1], points[:, d + 1 :]
        return sparse.hstack([points[:, :d], norms, ones], format="csr")
    points[:, d + 1], points[:, d] = points[:, d].copy(), points[:, d + 1].copy()
    return points
