"""Points as the products of a kernel need them: common features dense, rare ones pair by pair.

    rbf   −γ|x − z|² = ⟨(√(2γ) x, −γ|x|², 1), (√(2γ) z, 1, −γ|z|²)⟩
    else  ⟨x, z⟩

A feature that nearly always has one value (a pixel at the border, a one-hot code) costs a matrix
product as much as any other. Distances do not see where the origin is: measured from that value the
feature is nearly always 0, and only the pairs of points that both have it add anything. Rare
features of sparse input are measured from 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fwnet.estimators.svm.pairwise import compiled

Array = NDArray[Any]
TILE = 512  # points on either side of a product: one that stays in the cache, worth its packing
_CACHED = 1 << 18  # numbers that are encoded at a time: what lies between stays in the cache
WIDE = 32  # features from where it is worth looking for rare ones
EXACT = 1e-13  # an error of kernel values that float64 makes too
_RARE = 0.05  # share of points with a feature below which its pairs cost less than its products


class Encoded(ABC):
    """Points in one precision; the products of two such sides are what a kernel starts from."""

    start: int  # place of the first point, for pieces

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The precision of the products."""

    @property
    @abstractmethod
    def exponents(self) -> Array:
        """−γ|x|² (n,), for rbf."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Any, start: int = 0) -> Encoded:
        """Return some of the points: an array of indices or a slice."""

    @abstractmethod
    def products(self, right: Any, out: Array) -> None:
        """Write the products (n, m) with the points on the right, which are encoded alike."""

    @cached_property
    def pieces(self) -> list[Encoded]:
        """The points in pieces of at most TILE."""
        n = len(self)
        if n <= TILE:
            return [self]
        return [self.take(slice(lo, lo + TILE), lo) for lo in range(0, n, TILE)]


class Encoding(ABC):
    """How points are encoded.

    Attributes:
        exact: whether the products are exact in float32, but for one rounding.
    """

    exact: ClassVar[bool] = False

    @property
    def error(self) -> float:
        """A bound for the error of the kernel values that comes from encoding the points."""
        return 0.0

    @abstractmethod
    def encode(self, X: Any, dtype: Any, index: Array | None = None) -> Encoded:
        """Return the points X, or some of them, in one precision."""

    def for_few(self, X: Any, n: int) -> Encoding:
        """Return the encoding for n of the points."""
        return self


@final
@dataclass(frozen=True, eq=False)
class EncodedFeatures(Encoded):
    """Common features dense, rare ones sparse."""

    dense: Array  # (n, k) common features; for rbf also 1 and −γ|x|²
    rare: Any  # (n, r) CSR, or None
    distances: bool  # whether the products are exponents of rbf
    start: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.dense.dtype

    @property
    def exponents(self) -> Array:
        return self.dense[:, -1]

    def __len__(self) -> int:
        return len(self.dense)

    def take(self, index: Any, start: int = 0) -> EncodedFeatures:
        rare = None if self.rare is None else self.rare[index]
        dense = self.dense[index] if isinstance(index, slice) else self.dense.take(index, 0)
        return EncodedFeatures(dense, rare, self.distances, start)

    def products(self, right: EncodedFeatures, out: Array) -> None:
        if self.distances and self.dense.shape[1] > 2 * WIDE:
            # Norms by themselves: nothing is copied, and BLAS halves the work of X against X.
            np.matmul(self.dense[:, :-2], right.dense[:, :-2].T, out=out)
            out += self.dense[:, -1:]
            out += right.dense[:, -1]
        else:
            np.matmul(self._left, right.dense.T, out=out)
        if self.rare is not None:
            a, b = self.rare, right._by_feature
            add_pairs(out, a.indptr, a.indices, a.data, b.indptr, b.indices, b.data)

    @cached_property
    def _left(self) -> Array:
        """The last two features exchanged: a product with the other side then adds both norms."""
        if not self.distances:
            return self.dense
        left = self.dense.copy()
        left[:, -2], left[:, -1] = self.dense[:, -1], self.dense[:, -2]
        return left

    @cached_property
    def _by_feature(self) -> Any:
        return self.rare.tocsc()


@final
@dataclass(frozen=True, eq=False)
class FeatureEncoding(Encoding):
    """Which features are common and which are rare, and where each one's origin is."""

    common: Array  # (k,) indices
    rare: Array  # (r,) indices
    origin: Array  # (d,)
    scale: float
    distances: bool

    @classmethod
    def of(cls, X: Any, gamma: float | None) -> FeatureEncoding:
        """Look at points X (n, d), dense or CSR; gamma is None for products without distances."""
        n, d = X.shape
        scale = 1.0 if gamma is None else float(np.sqrt(2.0 * gamma))
        common, rare = np.arange(d), np.arange(0)
        origin = np.zeros(d)
        if sparse.issparse(X):
            few = np.bincount(X.indices, minlength=d) < _RARE * n
            common, rare = np.flatnonzero(~few), np.flatnonzero(few)
            if gamma is not None:
                origin[common] = np.asarray(X.mean(axis=0)).ravel()[common]
        elif gamma is not None:  # products see where the origin is
            origin = np.full(n, 1.0 / n) @ X  # rounding errors grow with the norms
            if d > WIDE:
                usual = np.median(X[np.linspace(0, n - 1, 9).astype(np.int64)], axis=0)
                others = sum(np.count_nonzero(X[part] != usual, 0) for part in portions(n, d))
                few = others < _RARE * n
                common, rare = np.flatnonzero(~few), np.flatnonzero(few)
                origin[rare] = usual[rare]
        return cls(common, rare, origin, scale, gamma is not None)

    def for_few(self, X: Any, n: int) -> FeatureEncoding:
        """Return the encoding for n of the points: the pairs of rare features pay above TILE."""
        if n > TILE or not len(self.rare) or sparse.issparse(X):
            return self
        return replace(self, common=np.arange(X.shape[1]), rare=self.rare[:0])

    def encode(self, X: Any, dtype: Any, index: Array | None = None) -> EncodedFeatures:
        if sparse.issparse(X):
            return self._sparse(X if index is None else X[index], dtype)
        if not self.distances:
            some = X if index is None else X[index]
            return EncodedFeatures(some.astype(dtype), None, False)
        n, sometimes = len(X) if index is None else len(index), []
        dense = np.empty((n, len(self.common) + 2), dtype)
        for part in portions(n, X.shape[1]):
            some = X[part] if index is None else X.take(index[part], 0)
            moved = some - self.origin
            common = moved.take(self.common, 1) if len(self.rare) else moved
            np.multiply(common, self.scale, out=dense[part, :-2], casting="same_kind")
            if len(self.rare):
                sometimes.append(_csr(moved.take(self.rare, 1), self.scale, dtype))
        # Norms of what was stored, so that a point is at distance 0 of itself.
        rare, squares = None, squared_norms(dense[:, :-2])
        if sometimes:
            rare = sparse.vstack(sometimes, format="csr")
            squares += squared_norms(rare)
        dense[:, -2], dense[:, -1] = 1.0, -0.5 * squares
        return EncodedFeatures(dense, rare, True)

    def _sparse(self, X: Any, dtype: Any) -> EncodedFeatures:
        X, k = sparse.csr_array(X), len(self.common)
        rare = sparse.csr_array(((X[:, self.rare] if k else X) * self.scale).astype(dtype))
        dense = np.ones((X.shape[0], k + 2 * self.distances), dtype)
        if k:
            dense[:, :k] = (X[:, self.common].toarray() - self.origin[self.common]) * self.scale
        if self.distances:
            dense[:, -1] = -0.5 * (squared_norms(dense[:, :k]) + squared_norms(rare))
        return EncodedFeatures(dense, rare if len(self.rare) else None, self.distances)


def _csr(some: Array, scale: float, dtype: Any) -> Any:
    """The numbers that are not 0, scaled, as a CSR array: half the time of SciPy's conversion."""
    there = some != 0
    starts = np.append(0, np.cumsum(np.count_nonzero(there, 1)))
    values = (some[there] * scale).astype(dtype)
    return sparse.csr_array((values, np.nonzero(there)[1], starts), shape=some.shape)


def portions(n: int, d: int) -> list[slice]:
    """Slices of n rows of d numbers, small enough for the cache to hold what lies between."""
    rows = 1 + _CACHED // d
    return [slice(lo, lo + rows) for lo in range(0, n, rows)]


def squared_norms(X: Any) -> Array:
    """Return |x_i|² (n,) in float64 for a dense or sparse X."""
    if sparse.issparse(X):
        square = X.astype(np.float64)
        return np.asarray(square.multiply(square).sum(axis=1)).ravel()
    if X.shape[1] <= WIDE:  # einsum takes long over short rows
        return np.asarray(np.square(X, dtype=np.float64) @ np.ones(X.shape[1]))
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


@compiled
def add_pairs(out, starts, features, values, tops, points, others):  # type: ignore[no-untyped-def]
    """out[i, j] += Σ over features of values: CSR rows on the left, CSC columns on the right."""
    for i in range(out.shape[0]):
        row = out[i]
        for a in range(starts[i], starts[i + 1]):
            f, value = features[a], values[a]
            for b in range(tops[f], tops[f + 1]):
                row[points[b]] += value * others[b]
