"""Kernels evaluated in tiles: k(x_i, x_j) for a few i and j at a time, in float32 or float64.

    rbf  exp(−γ|x − z|²)      poly  (γ⟨x, z⟩ + r)^p      sigmoid  tanh(γ⟨x, z⟩ + r)

A tile is one matrix product and one elementwise function, done while it is in the processor's
cache; `encoding` and `integer_grid` say what is multiplied.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fwnet.estimators.svm import integer_grid
from fwnet.estimators.svm.encoding import (
    EXACT,
    TILE,
    WIDE,
    Encoded,
    Encoding,
    FeatureEncoding,
    squared_norms,
)
from fwnet.estimators.svm.exponential import exponential
from fwnet.estimators.svm.limits import check_time
from fwnet.trace import Clock

Array = NDArray[Any]
Tile = tuple[slice, slice, Array]  # rows, columns, values
_PAD = 16  # makes a stride no power of two, for which a column falls into few cache lines
_EPS = float(np.finfo(np.float64).eps)
_SINGLE = 0.37 * 1.8e-7 + 1.3e-7  # the error of e⁻ᵗ in float32: of t, of the polynomial and result
_CALL, _SQUARE = 32, 16  # points on the left of one call of the user's kernel; for its diagonal


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
            values = torch.from_numpy(products)  # 0.4 of NumPy's time in float64
            torch.exp(values, out=values)
        elif self.name in ("poly", "sigmoid"):
            products *= products.dtype.type(self.gamma)
            products += products.dtype.type(self.coef0)
            if self.name == "poly":
                np.power(products, products.dtype.type(self.degree), out=products)
            else:
                np.tanh(products, out=products)
        return products


def tiles(
    spec: KernelSpec,
    left: Encoded,
    right: Encoded | None = None,
    out: Array | None = None,
    clock: Clock | None = None,
    threads: int = 1,
) -> Iterator[Tile]:
    """Yield the rows, the columns and the values of one tile of the kernel matrix after the other.

    Without `right`, the tiles on and above the diagonal of left against left. Tiles are views of
    `out`, or of a buffer that a later tile overwrites. Threads evaluate the next tiles meanwhile;
    values and their order are the same for any number of them. Raises OutOfTime by the clock.
    """
    compiled = spec.name == "rbf" and left.dtype == np.float32
    some = left.pieces
    pairs = combinations_with_replacement(some, 2) if right is None else product(some, right.pieces)
    if len(some) * len((left if right is None else right).pieces) == 1:
        threads = 1
    ahead = 2 * threads if threads > 1 else 0
    width = min(TILE, len(left if right is None else right)) + _PAD
    shape = (min(TILE, len(left)), width)
    buffers = [np.empty(shape, left.dtype) for _ in range(0 if out is not None else ahead + 1)]

    def evaluate(k: int, a: Encoded, b: Encoded) -> Tile:
        """The k-th tile: a against b."""
        if clock is not None:
            check_time(clock)
        m, n = len(a), len(b)
        whole = buffers[k % len(buffers)] if out is None else out
        top, first = (0, 0) if out is None else (a.start, b.start)
        tile = whole[top : top + m, first : first + n]
        a.products(b, tile)
        if compiled:
            exponential(whole, top, top + m, first, first + n)
        else:
            spec.of_products(tile)
        return slice(a.start, a.start + m), slice(b.start, b.start + n), tile

    if threads == 1:
        for k, (a, b) in enumerate(pairs):
            yield evaluate(k, a, b)
        return
    waiting: deque[Future[Tile]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for k, (a, b) in enumerate(pairs):
            if len(waiting) == ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(evaluate, k, a, b))
        while waiting:
            yield waiting.popleft().result()


def encoding_of(X: Any, gamma: float | None, slack: float = EXACT) -> Encoding:
    """Return how to encode points X (n, d): as integers if they are pixels, else by features.

    Arguments:
        gamma: None for products without distances.
        slack: an error of kernel values that integers in place of the points may make.
    """
    n, d = X.shape
    if gamma is not None and n > TILE and d > WIDE and not sparse.issparse(X):
        near = 0.5 * slack / math.sqrt(2.0 * gamma)
        fast = integer_grid.has_fast_products()
        grid = integer_grid.IntegerGrid.of(X, gamma, near) if fast else None
        if grid is not None:
            return grid
    return FeatureEncoding.of(X, gamma)


@final
class KernelRows:
    """Rows k(x_i, ·) against one set of points X, in one precision.

    `trusted` says whether no stored value is off by more than `slack`, or than float64 allows.
    The kernel is evaluated by `threads`. `error` is that of a matrix or a callable, see `rounding`.
    """

    def __init__(
        self,
        X: Any,
        spec: KernelSpec,
        dtype: Any,
        slack: float = EXACT,
        threads: int = 1,
        error: float = 0.0,
    ) -> None:
        self.spec, self.dtype, self.n, self.reach = spec, np.dtype(dtype), X.shape[0], 1.0
        self._X, self.wide = X, X.ndim > 1 and X.shape[1] > WIDE
        self.clock, self._seconds, self._values = Clock(), 0.0, 0
        self.threads, self._error = threads, error
        self.encoding: Encoding | None = None
        self.trusted = self.dtype == np.float64
        if callable(spec.name) or spec.name == "precomputed":
            self._diagonal = np.full(self.n, np.nan)  # of a callable, as far as it was asked for
            return
        gamma = spec.gamma if spec.name == "rbf" else None
        self.encoding = encoding_of(X, gamma, slack)
        if gamma is not None:
            self._points = self.encoding.encode(X, self.dtype)
            self.reach = -float(self._points.exponents.min(initial=0.0))
        self.trusted = self.stored_rounding <= slack or self.trusted

    @contextmanager
    def limited(self, clock: Clock) -> Iterator[None]:
        """Let the methods that evaluate the kernel raise OutOfTime by the clock."""
        self.clock = clock
        try:
            yield
        finally:
            self.clock = Clock()

    @property
    def megabytes(self) -> float:
        """The size of the whole matrix."""
        return self.n * self.n * self.dtype.itemsize / 2**20

    @property
    def cheap(self) -> bool:
        """Whether a row is evaluated in about the time that it takes to read it from memory."""
        return self.encoding is not None and not self.wide

    def _some(self, index: Array | None) -> Encoded:
        assert self.encoding is not None
        if self.spec.name != "rbf":  # cast when used: a linear kernel needs few of the rows
            return self.encoding.encode(self._X, self.dtype, index)
        return self._points if index is None else self._points.take(index)

    def rows(self, index: Array, columns: Array | None = None, out: Array | None = None) -> Array:
        """Return k(x_i, x_j) for i in index (k,) and j in columns, all of them by default."""
        spec, width = self.spec, self.n if columns is None else len(columns)
        if out is None:
            out = np.empty((len(index), width), self.dtype)
        if spec.name == "precomputed":
            out[:] = self._X[index] if columns is None else self._X[np.ix_(index, columns)]
            return out
        if callable(spec.name):
            others = self._X if columns is None else self._X[columns]
            for lo in range(0, len(index), _CALL):
                check_time(self.clock)
                some = index[lo : lo + _CALL]
                out[lo : lo + _CALL] = call_kernel(spec.name, self._X[some], others)
            return out
        began = Clock()
        parts = self._some(index), self._some(columns)
        for _ in tiles(spec, *parts, out, self.clock, self.threads):
            pass
        self._count(began, out.size)
        return out

    def add_product(self, index: Array, weights: Array, total: Array) -> None:
        """total += Σ_j weights_j k(x_j, ·) over j in index, without a place for the rows.

        Sums of TILE products are taken in the kernel's precision, sums of these in float64.
        """
        if not len(index):
            return
        if self.encoding is None:
            for lo in range(0, len(index), _CALL):
                total += weights[lo : lo + _CALL] @ self.rows(index[lo : lo + _CALL])
            return
        began, weights = Clock(), weights.astype(self.dtype)
        for rows, columns, tile in tiles(
            self.spec,
            self._some(index),
            self._some(None),
            clock=self.clock,
            threads=self.threads,
        ):
            total[columns] += weights[rows] @ tile
        self._count(began, len(index) * self.n)

    def _count(self, began: Clock, values: int) -> None:
        self._seconds, self._values = self._seconds + began.seconds, self._values + values

    def square(self, out: Array | None = None) -> Array:
        """Return the whole matrix (n, n), in `out` if given, each pair of points evaluated once."""
        if self.spec.name == "precomputed":
            return np.ascontiguousarray(self._X, self.dtype)
        if callable(self.spec.name):
            return self.rows(np.arange(self.n), out=out)
        if out is None:
            out = np.empty((self.n, self.n), self.dtype)
        began = Clock()
        points = self._some(None)
        for rows, columns, tile in tiles(self.spec, points, clock=self.clock, threads=self.threads):
            out[rows, columns] = tile
            if rows != columns:
                out[columns, rows] = tile.T
        self._count(began, out.size // 2)
        return out

    def seconds_for(self, values: float) -> float:
        """Return how long so many kernel values will take, by those that were made so far."""
        return values * self._seconds / max(self._values, 1)

    def rounding(self) -> float:
        """Return a bound for the error of k(x, z) in float64, relative to √(k(x, x)k(z, z)).

        The products are off by (2 + 4√d)ε of their norms; an exponent −γ|x − z|² is as far off in
        absolute terms. A matrix or a callable has the error that is known of it.
        """
        if callable(self.spec.name) or self.spec.name == "precomputed":
            return self._error
        products = _EPS * (2.0 + 4.0 * math.sqrt(self._X.shape[1]))
        if self.spec.name == "rbf":
            assert self.encoding is not None
            return products * 4.0 * max(1.0, self.reach) + self.encoding.error
        return products * (self.spec.degree + 1.0 if self.spec.name == "poly" else 1.0)

    @property
    def stored_rounding(self) -> float:
        """A bound as `rounding` for the values that are stored in this precision.

        In float32, exponents of integers are rounded three times, and te⁻ᵗ <= 0.37.
        """
        if self.dtype == np.float64:
            return self.rounding()
        exact = self.encoding is not None and self.encoding.exact
        return self.rounding() + _SINGLE if exact else np.inf

    def diagonal(self, index: Array | None = None) -> Array:
        """Return k(x_i, x_i) (len(index),) in float64, of all points by default."""
        if self.spec.name == "rbf":
            return np.ones(self.n if index is None else len(index))
        index = np.arange(self.n) if index is None else index
        if self.spec.name == "precomputed":
            return np.asarray(self._X[index, index], dtype=np.float64)
        if callable(self.spec.name):
            missing = index[np.isnan(self._diagonal[index])]
            for lo in range(0, len(missing), _SQUARE):
                some = missing[lo : lo + _SQUARE]
                self._diagonal[some] = self.rows(some, some).diagonal()
            return self._diagonal[index]
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
    values = function(left, right)
    values = np.asarray(values.toarray() if sparse.issparse(values) else values, np.float64)
    shape = (left.shape[0], right.shape[0])
    if values.shape != shape:
        raise ValueError(
            f"kernel(X, Z) must return a matrix of shape (len(X), len(Z)) = {shape}; "
            f"got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError("kernel(X, Z) must return finite numbers; got NaN or Inf.")
    return values
