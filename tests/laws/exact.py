"""Objectives of the kernel machines in extended precision, from what a fit publishes.

Numbers are Python's fractions for small linear sums, mpmath's at 60 digits for kernels, NumPy's
long doubles where there are many points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import mpmath
import numpy as np

Array = np.ndarray
U = float(np.finfo(np.float64).eps)
FEW = 60  # points up to which mpmath is fast enough

mpmath.mp.dps = 60


class Gap(NamedTuple):
    """(P − D)/P in extended precision, and a bound on what double precision makes of it."""

    relative: float
    rounding: float


def lifted(x: Any, many: bool) -> Array:
    """The numbers in extended precision."""
    array = np.asarray(x, dtype=np.float64)
    if many:
        return array.astype(np.longdouble)
    flat = [mpmath.mpf(float(entry)) for entry in array.ravel()]
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(array.shape)


def positive(x: Array) -> Array:
    return np.where(x > 0, x, 0 * x)


@dataclass(frozen=True)
class Kernel:
    """k(x, z) by its formula, in whatever numbers x and z are."""

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def __call__(self, X: Array, Z: Array) -> Array:
        if self.name == "linear":
            return X @ Z.T
        if self.name == "poly":
            return (self._number(self.gamma, X) * (X @ Z.T) + self._number(self.coef0, X)) ** (
                self.degree
            )
        squares = np.stack([((x - Z) ** 2).sum(-1) for x in X])
        exponent = -self._number(self.gamma, X) * squares
        if exponent.dtype == object:
            return np.vectorize(mpmath.exp, otypes=[object])(exponent)
        return np.exp(exponent)

    @staticmethod
    def _number(value: float, like: Array) -> Any:
        return mpmath.mpf(value) if like.dtype == object else np.longdouble(value)


@dataclass(frozen=True, eq=False)
class Machine:
    """What a fit published of one problem."""

    X: Array  # (n, d), all points
    coef: Array  # (n,), yᵢβᵢ, 0 for the points that are no support vectors
    intercept: float
    w: Array | None  # (d,), for a linear kernel
    box: Array  # (n,)
    kernel: Kernel
    gram: Array | None = None  # of a precomputed kernel


class Parts(NamedTuple):
    """Scores of the returned function, its |w|², the dual's βᵀKβ, and their rounding."""

    scores: Array
    square: Any
    dual_square: Any
    scores_error: Array
    square_error: float


def parts(machine: Machine) -> Parts:
    """In double precision a sum of k products errs by k u times their absolute values."""
    n, d = machine.X.shape
    many = n > FEW
    k = 2 * (n + d) + 20
    X, coef = lifted(machine.X, many), lifted(machine.coef, many)
    magnitude = np.abs(machine.coef)
    if machine.w is not None:
        w = lifted(machine.w, many)
        own = coef @ X
        wide = magnitude @ np.abs(machine.X)
        return Parts(
            X @ w,
            w @ w,
            own @ own,
            k * U * (np.abs(machine.X) @ np.abs(machine.w)),
            k * U * float(wide @ (np.abs(own.astype(np.float64)) + k * U * wide)),
        )
    K = machine.kernel(X, X) if machine.gram is None else lifted(machine.gram, many)
    scores = K @ coef
    square = coef @ scores
    size = np.abs(K.astype(np.float64))
    if machine.kernel.name == "poly":  # its base is a sum
        base = np.abs(machine.kernel.gamma) * (np.abs(machine.X) @ np.abs(machine.X).T)
        size = (base + abs(machine.kernel.coef0)) ** machine.kernel.degree
    if machine.kernel.name == "rbf":  # |x − z|² = |x|² + |z|² − 2⟨x, z⟩ rounds in its terms
        norms = (machine.X**2).sum(1)
        size = size * (1 + machine.kernel.gamma * 2 * (norms[:, None] + norms))
    error = k * U * (size @ magnitude)
    return Parts(scores, square, square, error, float(magnitude @ error))


Loss = Callable[[Array], Array]  # scores -> excesses e


def relative_gap(machine: Machine, excess: Loss, linear: float | Any) -> Gap:
    """(P − D)/P of the function that is returned, D at the best multiple of its coefficients.

        P = ½|w|² + ½b² + ½ Σ Cᵢeᵢ²,   D(β) = ⟨linear, β⟩ − ½ βᵀ(K + 1 + diag(1/C))β

    Arguments:
        linear: ⟨linear, β⟩ at the coefficients.
    """
    found = parts(machine)
    many = len(machine.X) > FEW
    b, box, coef = (lifted(x, many) for x in (machine.intercept, machine.box, machine.coef))
    b = b[()]
    scores = found.scores + b
    e = excess(scores)
    primal = (found.square + b * b + (box * e * e).sum()) / 2
    total = coef.sum()
    curvature = found.dual_square + total * total + (coef * coef / box).sum()
    best = linear * linear / (2 * curvature) if curvature > 0 else 0 * b
    dual = max(linear - curvature / 2, best) if linear > 0 else 0 * b
    relative = float((primal - dual) / primal) if primal > 0 else 0.0
    k = 2 * sum(machine.X.shape) + 20
    errors = found.scores_error + k * U * (1.0 + abs(machine.intercept))
    slope = np.abs(e.astype(np.float64)) + errors
    magnitude = float(np.abs(machine.coef).sum())
    rounding = float((machine.box * slope * errors).sum()) + found.square_error
    rounding += k * U * (magnitude + magnitude**2 + float(primal) + float(abs(dual)))
    return Gap(relative, rounding / max(float(primal), 1e-300))
