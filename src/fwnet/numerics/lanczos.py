"""Golub-Kahan-Lanczos: the top singular pair of a matrix that is known by its products.

`lanczos` finds a pair; `bounded_lanczos` also bounds the largest singular value from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics.tensors import Cost, ImplicitMatrix, unit

Array = np.ndarray[Any, np.dtype[Any]]
_BASIS = 96  # vectors that are kept; then the best third restarts
_LONG_BASIS = 480  # vectors without a restart, for a bound
_MISS = 1e-9  # the probability that a bound fails, over the random start


class SingularPair(NamedTuple):
    """u, sigma, v with G v = sigma u and Gᵀ u = sigma v; |u| = |v| = 1."""

    u: Tensor  # (*batch, d)
    sigma: Tensor  # (*batch,)
    v: Tensor  # (*batch, m)


@final
class Products:
    """G v and Gᵀ u for vectors; plain products where there is no batch."""

    def __init__(self, matrix: Cost) -> None:
        self.shape = matrix.shape
        self.matvec: Callable[[Tensor], Tensor]
        self.rmatvec: Callable[[Tensor], Tensor]
        if isinstance(matrix, ImplicitMatrix):
            self.matvec, self.rmatvec = matrix.matvec, matrix.rmatvec
        elif matrix.ndim == 2:
            self.matvec, self.rmatvec = matrix.mv, matrix.mT.mv
        else:
            self.matvec = lambda v: (matrix @ v.unsqueeze(-1)).squeeze(-1)
            self.rmatvec = lambda u: (matrix.mT @ u.unsqueeze(-1)).squeeze(-1)


class _Bidiagonal:
    """Orthonormal bases with a small matrix between them.

        G Vₖ = Uₖ T,   Gᵀ Uₖ = Vₖ Tᵀ + beta vₖ₊₁ eₖᵀ

    T is bidiagonal, after a restart behind a diagonal block and a column that couples it. Both
    bases are reorthogonalised in full. What is only the rounding of a product counts as 0 and adds
    a zero vector, which changes nothing.
    """

    def __init__(self, products: Products, start: Tensor, size: int = _BASIS) -> None:
        d, m = products.shape
        self.products = products
        self.side = min(d, m)
        self.size = min(self.side, size)
        self.left = start.new_empty(self.size, d)
        self.right = start.new_empty(self.size + 1, m)
        self.right[0] = unit(start)
        self.alphas: list[float] = []  # the diagonal of T after its first block
        self.betas: list[float] = []  # above it; the last one is outside of T
        self.kept = np.zeros(0)  # the diagonal of the first block
        self.spike = np.zeros(0)  # the column next to it
        self.scale = 1.0  # keeps squares of huge and tiny products in range
        self.noise = 10 * torch.finfo(start.dtype).eps
        self.largest = 0.0  # size so far, in units of which products round

    @property
    def k(self) -> int:
        """Number of vectors."""
        return len(self.kept) + len(self.alphas)

    def grow(self) -> None:
        """One more vector on either side."""
        k = self.k
        w = self.products.matvec(self.right[k])
        if k == 0:
            self.scale = _extreme(w)
        w = w if self.scale == 1.0 else w / self.scale
        if self.alphas:
            w = torch.sub(w, self.left[k - 1], alpha=self.betas[-1])
        elif k:
            w = w - torch.from_numpy(self.spike).to(w) @ self.left[:k]
        alpha = self._append(self.left, k, w)
        w = self.products.rmatvec(self.left[k])
        w = w if self.scale == 1.0 else w / self.scale
        w = torch.sub(w, self.right[k], alpha=alpha)
        self.betas.append(self._append(self.right, k + 1, w))
        self.alphas.append(alpha)

    def restart(self) -> None:
        """Keep the best third of the singular triples of T, and the vector that comes next."""
        count = self.size // 3
        p, values, q = np.linalg.svd(self.small())
        left, right = (torch.from_numpy(x).to(self.left) for x in (p, q))
        self.left[:count] = left[:, :count].mT @ self.left
        self.right[:count] = right[:count] @ self.right[:-1]
        self.right[count] = self.right[-1]
        self.kept, self.spike = values[:count], self.betas[-1] * p[-1, :count]
        self.alphas, self.betas = [], []

    def small(self) -> Array:
        """T in float64."""
        first = len(self.kept)
        small = np.diag(np.concatenate([self.kept, self.alphas]))
        small[:first, first] = self.spike
        place = np.arange(first, self.k - 1)
        small[place, place + 1] = self.betas[:-1]
        return small

    def values(self) -> tuple[Array, Array]:
        """The singular values of T, ascending, and the left vector of the largest."""
        small = self.small()
        squares, vectors = np.linalg.eigh(np.nan_to_num(small @ small.T))
        return np.sqrt(squares.clip(min=0.0)), vectors[:, -1]

    def above(self, reach: float) -> float:
        """An upper bound of the largest singular value in units of the largest one of T.

            max {λ : Σⱼ pⱼ(λ)² <= reach},   j = 0, …, k

        where pⱼ are the Lanczos polynomials: pⱼ(GᵀG) v₁ = vⱼ₊₁, orthonormal. An eigenvector w of
        GᵀG with |⟨w, v₁⟩|² >= 1/reach has an eigenvalue λ in this set, since Σⱼ pⱼ(λ) vⱼ₊₁ has the
        norm (Σⱼ pⱼ(λ)²)^½ and the component ⟨w, v₁⟩ Σⱼ pⱼ(λ)² along w. Needs k steps without a
        restart.

        Reference: Hochstenbach, Probabilistic upper bounds for the matrix two-norm (2013).
        """
        top = np.linalg.norm(np.nan_to_num(self.small()), 2)
        if top == 0.0:
            return 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            alphas, betas = np.array(self.alphas) / top, np.array(self.betas) / top
            before = np.concatenate([[0.0], betas[:-1]])
            diagonal, beside = alphas**2 + before**2, alphas * betas
            points = 1.0 + np.logspace(-14, 4, 181)
            old, now = np.zeros_like(points), np.ones_like(points)
            total, link = np.ones_like(points), 0.0
            for j in range(self.k):
                following = (points - diagonal[j]) * now - link * old
                link = beside[j]
                old, now = now, following / link
                total = total + now**2
                done = ~(total <= reach)  # also beyond the range of numbers
                old, now = np.where(done, 0.0, old), np.where(done, np.inf, now)
        return math.sqrt(points[done.argmax()]) if done[-1] else math.inf

    def pair(self, p: Array, sigma: float) -> SingularPair:
        """The pair of G for the left singular vector p of T and its value."""
        left, right = (torch.from_numpy(x).to(self.left) for x in (p, p @ self.small()))
        u, v = left @ self.left[: self.k], unit(right) @ self.right[: self.k]
        return SingularPair(unit(u), torch.tensor(sigma * self.scale).to(u), unit(v))

    def _append(self, basis: Tensor, k: int, w: Tensor) -> float:
        """Add w to the first k vectors; return its size."""
        known = basis[:k]
        w = torch.addmv(w, known.T, known.mv(w), alpha=-1.0)
        size = float(torch.linalg.vector_norm(w))
        if size < 0.1 * self.largest:  # what is left of a long vector is less orthogonal
            w = torch.addmv(w, known.T, known.mv(w), alpha=-1.0)
            size = float(torch.linalg.vector_norm(w))
        size = 0.0 if size <= self.noise * self.largest else size
        torch.mul(w, 0.0 if size == 0.0 else 1.0 / size, out=basis[k])
        self.largest = max(self.largest, size)
        return size


def lanczos(
    products: Products, start: Tensor, tol: float, max_restarts: int
) -> tuple[SingularPair, bool]:
    """The top singular pair, and whether its residual is at most `tol` · sigma.

    For a singular triple (p, s, q) of T, the residual of (Uₖ p, s, Vₖ q) is beta |pₖ|. The error
    of s is at most that, and mostly about residual² / distance to the next value, but a residual
    that small is needed: values that are closer than it look like one.

    Reference: Golub and Kahan (1965); thick restarts as in Baglama and Reichel (2005).
    """
    bases = _Bidiagonal(products, start)
    check, restarts, last = 4, 0, (0, 0.0)
    while True:
        bases.grow()
        k = bases.k
        if k < min(check, bases.size):
            continue
        values, p = bases.values()
        sigma = values[-1]
        excess = _excess(bases.betas[-1] * abs(p[-1]), sigma, tol)
        accurate = excess <= 0.0 or (k == bases.side and restarts == 0)
        if accurate or (k == bases.size and restarts == max_restarts):
            return bases.pair(p, sigma), accurate
        # residuals fall by some factor a step: check again when they should be small enough
        rate = max((last[1] - excess) / (k - last[0]), 0.05)
        check, last = k + max(1, min(math.ceil(excess / rate), 1 + k // 4)), (k, excess)
        if k == bases.size:
            bases.restart()
            check, restarts, last = bases.k + 16, restarts + 1, (bases.k, excess)


def bounded_lanczos(
    products: Products, start: Tensor, noise: float, enough: Callable[[float, float], bool]
) -> tuple[SingularPair, Tensor, bool]:
    """The top singular pair, an upper bound of sigma `()`, and whether it is good enough.

    The bound fails for one start in 10⁹; see `_Bidiagonal.above`. It needs no estimate of the
    distance to the next value: it stays wide until nearly tied values are separated.

    Arguments:
        start: `(m,)`, any vector plus Gaussian noise.
        noise: standard deviation of each entry of that noise.
        enough: of sigma and its bound, whether to stop.
    """
    bases = _Bidiagonal(products, start, _LONG_BASIS)
    square = float(start.double().square().sum())
    reach = square / (noise * _MISS) ** 2  # |⟨w, start⟩| < noise · _MISS is that improbable
    check = 8
    while True:
        bases.grow()
        if bases.k < min(check, bases.size):
            continue
        values, p = bases.values()
        rounding = 1.0 + 8.0 * torch.finfo(start.dtype).eps
        ratio = bases.above(reach) * rounding
        pair = bases.pair(p, values[-1])
        upper = pair.sigma.double() * ratio
        good = enough(float(pair.sigma), float(upper))
        if good or bases.k == bases.size:
            return pair, upper, good
        check = bases.k + max(4, bases.k // 4)


def _excess(residual: float, sigma: float, tol: float) -> float:
    """The decades by which a residual is too large; NaN counts as small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        decades = float(np.log10(residual / sigma / tol))
    return decades if math.isfinite(decades) else -math.inf


def _extreme(w: Tensor) -> float:
    """The largest entry if squares could overflow or vanish, else 1."""
    size = float(w.abs().amax())
    return 1.0 if 1e-10 < size < 1e10 or size == 0 or not math.isfinite(size) else size
