"""Points on a grid of 256 levels, such as pixels: their products in 8-bit integers, exactly.

    x = low + step·(128 + k),   k in −128 … 127
    |x − z|² = step²(|k|² + |l|² − 2⟨k, l⟩)

Processors with instructions for it multiply such integers four times as fast as float32, eight
times as fast as float64. Sums and distances are exact, so a kernel value in float32 is off by its
own rounding only.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, final

import numpy as np
import torch

from fwnet.estimators.svm.encoding import Array, Encoded, Encoding, portions

_MOST = 255  # the highest level
_LONGEST = 1 << 15  # features whose squared distances, at most 255² each, sum up in 32 bits
_SAMPLE = 9  # points that are looked at for the step of the grid
_APART = 1e-6  # of the range: numbers that are closer are one level
_STEEPEST = 0.86  # max 2√t e⁻ᵗ, at t = ¼


@final
@dataclass(frozen=True, eq=False)
class GridPoints(Encoded):
    """Points on a grid; their products are −γ|x − z|²."""

    levels: Array  # (n, d) k
    unit: float  # −γ step²
    precision: Any
    start: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.precision)

    @property
    def exponents(self) -> Array:
        return self.unit * self.squares

    def __len__(self) -> int:
        return len(self.levels)

    def take(self, index: Any, start: int = 0) -> GridPoints:
        whole = self.levels
        some = whole[index] if isinstance(index, slice) else whole.take(index, 0)
        return GridPoints(some, self.unit, self.precision, start)

    def products(self, right: GridPoints, out: Array) -> None:
        distances(self.levels, right.levels, (self.squares, right.squares), out)
        out *= out.dtype.type(self.unit)

    @cached_property
    def squares(self) -> Array:
        """|k|² (n,)."""
        return squares(self.levels)


@final
@dataclass(frozen=True, eq=False)
class IntegerGrid(Encoding):
    """The grid low + step·{0, …, 255}, and the largest distance of a point from it."""

    gamma: float
    low: float
    step: float
    off: float
    known: tuple[Array, Array]  # points, and their k
    exact: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Array, gamma: float, most: float) -> IntegerGrid | None:
        """Return the grid from which no point of X (n, d) is further than `most`, if there is one.

        Pixels that were divided by 255 in float32 are off by some 1e-7.
        """
        if X.shape[1] > _LONGEST or len(np.unique(X[0])) > _MOST + 1:
            return None
        some = np.unique(X[np.linspace(0, len(X) - 1, _SAMPLE).astype(np.int64)])
        low, high = float(X.min()), float(X.max())
        apart = np.diff(some)
        apart = apart[apart > _APART * (high - low)]
        top = round(min((high - low) / float(apart.min()), _MOST + 1.0)) if len(apart) else 0
        if not 0 < top <= _MOST:
            return None
        step = (high - low) / top
        whole, off = np.empty(X.shape, np.int8), 0.0
        for part in portions(*X.shape):
            levels = _levels(X[part], low, step)
            np.subtract(levels, 128.0, out=whole[part], casting="unsafe")
            levels *= -step
            levels -= low
            levels += X[part]
            off = max(off, math.sqrt(np.einsum("ij,ij->i", levels, levels).max()))
            if not off <= most:
                return None
        return cls(gamma, low, step, off, (X, whole))

    def encode(self, X: Any, dtype: Any, index: Array | None = None) -> GridPoints:
        return GridPoints(self.levels(X, index), -self.gamma * self.step**2, dtype)

    def levels(self, X: Array, index: Array | None = None) -> Array:
        """Return k (n, d) as 8-bit integers, of the points in index."""
        if X is not self.known[0]:
            some, index = X if index is None else X[index], None
            whole = np.empty(some.shape, np.int8)
            for part in portions(*some.shape):
                whole[part] = _levels(some[part], self.low, self.step) - 128.0
            return whole
        return self.known[1] if index is None else self.known[1].take(index, 0)

    @property
    def error(self) -> float:
        """A bound for the error of exp(−γ|x − z|²) if the grid stands for x and z.

        γ||x − z|² − |x' − z'|²| <= γ(2rδ + δ²),   r = |x' − z'|, δ twice the distance from the grid
        """
        delta = 2.0 * math.sqrt(self.gamma) * self.off
        return delta * (_STEEPEST + delta)


def squares(points: Array) -> Array:
    """Return |k|² (n,) as 32-bit integers."""
    return np.asarray(np.einsum("ij,ij->i", points, points, dtype=np.int32))


def distances(left: Array, right: Array, squares: tuple[Array, Array], out: Array) -> None:
    """Write |k − l|² (m, n) for the rows of two arrays of 8-bit integers, in the type of out."""
    sums = torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T)
    sums.mul_(-2).add_(torch.from_numpy(squares[0])[:, None]).add_(torch.from_numpy(squares[1]))
    torch.from_numpy(out).copy_(sums)


@cache
def has_fast_products() -> bool:
    """Whether this machine multiplies 8-bit integers exactly, and faster than float32.

    Without instructions for it, sums may saturate, or be taken one by one.
    """
    left = np.full((256, 512), -128, np.int8)
    left[1::2] = 127
    left[::3, ::2] = 1
    single, out, norms = left.astype(np.float32), np.empty((256, 256)), squares(left)
    try:
        distances(left, left, (norms, norms), out)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    products = left.astype(float) @ left.astype(float).T
    if not (out == norms[:, None] + norms - 2.0 * products).all():
        return False
    exact, plain = [], []
    for _ in range(3):
        start = time.perf_counter()
        distances(left, left, (norms, norms), out)
        middle = time.perf_counter()
        np.matmul(single, single.T)
        exact.append(middle - start)
        plain.append(time.perf_counter() - middle)
    return min(exact) < min(plain)


def _levels(X: Array, low: float, step: float) -> Array:
    scaled = X - low
    scaled *= 1.0 / step
    return np.rint(scaled, out=scaled)
