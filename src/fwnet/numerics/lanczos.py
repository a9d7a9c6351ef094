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
_Size = float | Tensor
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
    a zero vector, which changes nothing. Sizes are numbers, or tensors `(*batch, 1)` if there is a
    batch.
    """

    def __init__(self, products: Products, start: Tensor, size: int = _BASIS) -> None:
        *batch, d, m = products.shape
        self.products = products
        self.side = min(d, m)
        self.size = min(self.side, size)
        self.left = start.new_empty(*batch, self.size, d)
        self.right = start.new_empty(*batch, self.size + 1, m)
        self.right[..., 0, :] = unit(start)
        self.alphas: list[_Size] = []  # the diagonal of T after its first block
        self.betas: list[_Size] = []  # above it; the last one is outside of T
        self.kept = np.zeros((*batch, 0))  # the diagonal of the first block
        self.spike = np.zeros((*batch, 0))  # the column next to it
        self.scale: Tensor | None = None  # keeps squares of huge and tiny products in range
        self.noise = 10 * torch.finfo(start.dtype).eps
        self.largest: _Size = 0.0  # size so far, in units of which products round

    @property
    def k(self) -> int:
        """Number of vectors."""
        return self.kept.shape[-1] + len(self.alphas)

    def grow(self) -> None:
        """One more vector on either side."""
        k = self.k
        w = self.products.matvec(self.right.select(-2, k))
        if k == 0:
            self.scale = _extreme(w)
        w = w if self.scale is None else w / self.scale
        if self.alphas:
            w = _subtract(w, self.betas[-1], self.left.select(-2, k - 1))
        elif k:
            spike = torch.from_numpy(self.spike).to(w)
            w = w - (spike.unsqueeze(-2) @ self.left.narrow(-2, 0, k)).squeeze(-2)
        alpha = self._append(self.left, k, w)
        w = self.products.rmatvec(self.left.select(-2, k))
        w = w if self.scale is None else w / self.scale
        w = _subtract(w, alpha, self.right.select(-2, k))
        self.betas.append(self._append(self.right, k + 1, w))
        self.alphas.append(alpha)

    def restart(self) -> None:
        """Keep the best third of the singular triples of T, and the vector that comes next."""
        count = self.size // 3
        p, values, q = np.linalg.svd(self.small())
        left, right = (torch.from_numpy(x).to(self.left) for x in (p, q))
        self.left[..., :count, :] = left[..., :count].mT @ self.left
        self.right[..., :count, :] = right[..., :count, :] @ self.right[..., :-1, :]
        self.right[..., count, :] = self.right[..., -1, :]
        self.kept, self.spike = values[..., :count], self.beta[..., None] * p[..., -1, :count]
        self.alphas, self.betas = [], []

    @property
    def beta(self) -> Array:
        """The last beta, `(*batch,)`."""
        return _numbers(self.betas[-1:])[..., 0]

    def small(self) -> Array:
        """T in float64."""
        first, k = self.kept.shape[-1], self.k
        small = np.zeros((*self.kept.shape[:-1], k, k))
        place = np.arange(k)
        small[..., place, place] = np.concatenate([self.kept, _numbers(self.alphas)], -1)
        small[..., :first, first] = self.spike
        small[..., place[first:-1], place[first + 1 :]] = _numbers(self.betas)[..., :-1]
        return small

    def values(self) -> tuple[Array, Array]:
        """The singular values of T, ascending, and the left vector of the largest."""
        small = self.small()
        squares, vectors = np.linalg.eigh(np.nan_to_num(small @ small.swapaxes(-1, -2)))
        return np.sqrt(squares.clip(min=0.0)), vectors[..., -1]

    def above(self, reach: Array) -> Array:
        """An upper bound of the largest singular value in units of the largest one of T.

            max {λ : Σⱼ pⱼ(λ)² <= reach},   j = 0, …, k

        where pⱼ are the Lanczos polynomials: pⱼ(GᵀG) v₁ = vⱼ₊₁, orthonormal. An eigenvector w of
        GᵀG with |⟨w, v₁⟩|² >= 1/reach has an eigenvalue λ in this set, since Σⱼ pⱼ(λ) vⱼ₊₁ has the
        norm (Σⱼ pⱼ(λ)²)^½ and the component ⟨w, v₁⟩ Σⱼ pⱼ(λ)² along w. Needs k steps without a
        restart.

        Reference: Hochstenbach, Probabilistic upper bounds for the matrix two-norm (2013).
        """
        alphas, betas = _numbers(self.alphas), _numbers(self.betas)
        top = np.linalg.norm(np.nan_to_num(self.small()), 2, (-2, -1))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            alphas, betas = alphas / top[..., None], betas / top[..., None]
            before = np.concatenate([np.zeros_like(betas[..., :1]), betas[..., :-1]], -1)
            diagonal, beside = alphas**2 + before**2, alphas * betas
            points = 1.0 + np.logspace(-14, 4, 181)
            old, now = np.zeros((*top.shape, 181)), np.ones((*top.shape, 181))
            total = np.ones_like(now)
            link = np.zeros_like(top)
            for j in range(self.k):
                following = (points - diagonal[..., j, None]) * now - link[..., None] * old
                link = beside[..., j]
                old, now = now, following / link[..., None]
                total = total + now**2
                done = ~(total <= reach[..., None])  # also beyond the range of numbers
                old, now = np.where(done, 0.0, old), np.where(done, np.inf, now)
        first = np.where(done[..., -1], done.argmax(-1), -1)
        bound = np.where(first >= 0, np.sqrt(points[first]), np.inf)
        return np.where(top > 0, bound, 1.0)

    def pair(self, p: Array, sigma: Array) -> SingularPair:
        """The pair of G for the left singular vector p of T and its value."""
        row = p[..., None, :]
        left, right = (torch.from_numpy(x).to(self.left) for x in (row, row @ self.small()))
        u = (left @ self.left[..., : self.k, :]).squeeze(-2)
        v = (unit(right) @ self.right[..., : self.k, :]).squeeze(-2)
        value = torch.as_tensor(sigma).to(self.left)
        if self.scale is not None:
            value = value * self.scale.squeeze(-1)
        return SingularPair(unit(u), value, unit(v))

    def _append(self, basis: Tensor, k: int, w: Tensor) -> _Size:
        """Add w to the first k vectors; return its size."""
        known, place = basis.narrow(-2, 0, k), basis.select(-2, k)
        if w.ndim == 1:
            w = torch.addmv(w, known.T, known.mv(w), alpha=-1.0)
            size = float(torch.linalg.vector_norm(w))
            assert not isinstance(self.largest, Tensor)
            if size < 0.1 * self.largest:  # what is left of a long vector is less orthogonal
                w = torch.addmv(w, known.T, known.mv(w), alpha=-1.0)
                size = float(torch.linalg.vector_norm(w))
            size = 0.0 if size <= self.noise * self.largest else size
            torch.mul(w, 0.0 if size == 0.0 else 1.0 / size, out=place)
            self.largest = max(self.largest, size)
            return size
        w = w - (known.mT @ (known @ w.unsqueeze(-1))).squeeze(-1)
        w = w - (known.mT @ (known @ w.unsqueeze(-1))).squeeze(-1)
        sizes: Tensor = torch.linalg.vector_norm(w, dim=-1, keepdim=True)
        sizes = torch.where(sizes <= self.noise * self.largest, 0.0, sizes)
        torch.div(w, torch.where(sizes == 0, torch.inf, sizes), out=place)
        self.largest = torch.maximum(sizes, torch.as_tensor(self.largest).to(sizes))
        return sizes


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
        sigma = values[..., -1]
        excess = _excess(bases.beta * np.abs(p[..., -1]), sigma, tol)
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
    products: Products, start: Tensor, noise: float, enough: Callable[[Array, Array], bool]
) -> tuple[SingularPair, Tensor, bool]:
    """The top singular pair, an upper bound of sigma `(*batch,)`, and whether it is good enough.

    The bound fails for one start in 10⁹; see `_Bidiagonal.above`. It needs no estimate of the
    distance to the next value: it stays wide until nearly tied values are separated.

    Arguments:
        start: `(*batch, m)`, any vector plus Gaussian noise.
        noise: standard deviation of each entry of that noise.
        enough: of sigma and its bound, `(*batch,)`, whether to stop.
    """
    bases = _Bidiagonal(products, start, _LONG_BASIS)
    square = start.double().square().sum(-1).cpu().numpy()
    reach = square / (noise * _MISS) ** 2  # |⟨w, start⟩| < noise · _MISS is that improbable
    check = 8
    while True:
        bases.grow()
        if bases.k < min(check, bases.size):
            continue
        values, p = bases.values()
        rounding = 1.0 + 8.0 * torch.finfo(start.dtype).eps
        ratio = bases.above(reach) * rounding
        pair = bases.pair(p, values[..., -1])
        upper = pair.sigma.double() * torch.as_tensor(ratio).to(pair.sigma.device)
        good = enough(pair.sigma.double().cpu().numpy(), upper.cpu().numpy())
        if good or bases.k == bases.size:
            return pair, upper, good
        check = bases.k + max(4, bases.k // 4)


def _excess(residual: Array, sigma: Array, tol: float) -> float:
    """The decades by which the worst residual of a batch is too large; NaN counts as small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        decades = np.log10(residual / sigma / tol)
    return float(np.where(np.isfinite(decades), decades, -np.inf).max())


def _subtract(w: Tensor, size: _Size, x: Tensor) -> Tensor:
    """w − size · x."""
    if isinstance(size, Tensor):
        return torch.addcmul(w, size, x, value=-1.0)
    return torch.sub(w, x, alpha=size)


def _numbers(sizes: list[_Size]) -> Array:
    """Sizes as an array `(*batch, len)` in float64."""
    if sizes and isinstance(sizes[0], Tensor):
        stacked = torch.cat([x for x in sizes if isinstance(x, Tensor)], -1)
        array: Array = stacked.to("cpu", torch.float64).numpy()
        return array
    return np.array(sizes, dtype=np.float64)


def _extreme(w: Tensor) -> Tensor | None:
    """The largest entries `(*batch, 1)` if their squares could overflow or vanish, else None."""
    size = w.abs().amax(-1, keepdim=True)
    if bool(((size > 1e-10) & (size < 1e10)).all()):
        return None
    return torch.where((size == 0) | ~torch.isfinite(size), 1.0, size)
