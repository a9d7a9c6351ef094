"""Golub-Kahan-Lanczos: the top singular pair of a matrix that is known by its products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from fwnet.domains.base import Cost, norm, unit
from fwnet.matrices import ImplicitMatrix

_BASIS = 96  # vectors that are kept; then the best third restarts


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

    Fully reorthogonalised. A zero product adds a zero vector, which changes nothing.
    """

    def __init__(self, products: Products, start: Tensor) -> None:
        *batch, d, m = products.shape
        self.products = products
        self.k = 0
        self.size = min(d, m, _BASIS)
        self.side = min(d, m)
        self.left = start.new_empty(*batch, self.size, d)
        self.right = start.new_empty(*batch, self.size + 1, m)
        self.small = start.new_zeros(*batch, self.size, self.size)
        self.beta = start.new_zeros(batch)
        self.right[..., 0, :] = unit(start)
        self.scale: Tensor | None = None  # keeps squares of huge and tiny products in range
        self.tiny = torch.finfo(start.dtype).tiny

    def grow(self) -> None:
        """One more vector on either side."""
        k = self.k
        w = self.products.matvec(self.right.select(-2, k))
        if k == 0:
            self.scale = _extreme(w)
        w = w if self.scale is None else w / self.scale
        if k:
            self.small[..., :k, k], w = _remove(self.left.narrow(-2, 0, k), w)
        self.small[..., k, k] = self._store(self.left.select(-2, k), w)
        w = self.products.rmatvec(self.left.select(-2, k))
        w = w if self.scale is None else w / self.scale
        self.k = k = k + 1
        basis = self.right.narrow(-2, 0, k)
        _, w = _remove(basis, w)
        _, w = _remove(basis, w)
        self.beta = self._store(self.right.select(-2, k), w)

    def restart(self) -> None:
        """Keep the best third of the singular triples of T, and the vector that comes next."""
        kept = self.size // 3
        p, values, q = (x.to(self.left) for x in torch.linalg.svd(self.square()))
        self.left[..., :kept, :] = p[..., :kept].mT @ self.left
        self.right[..., :kept, :] = q[..., :kept, :] @ self.right[..., :-1, :]
        self.right[..., kept, :] = self.right[..., -1, :]
        self.small.zero_()
        self.small.diagonal(dim1=-2, dim2=-1)[..., :kept] = values[..., :kept]
        self.k = kept

    def square(self) -> Tensor:
        """T as far as it is known, in float64."""
        return self.small[..., : self.k, : self.k].double().cpu()

    def pair(self, p: Tensor, sigma: Tensor) -> SingularPair:
        """The pair of G for the left singular vector p of T and its value."""
        p, q, sigma = (x.to(self.left) for x in (p, p.unsqueeze(-2) @ self.square(), sigma))
        u = (p.unsqueeze(-2) @ self.left[..., : self.k, :]).squeeze(-2)
        v = (unit(q) @ self.right[..., : self.k, :]).squeeze(-2)
        if self.scale is not None:
            sigma = sigma * self.scale.squeeze(-1)
        return SingularPair(unit(u), sigma, unit(v))

    def _store(self, place: Tensor, w: Tensor) -> Tensor:
        size = norm(w)
        torch.div(w, size.clamp_min(self.tiny).unsqueeze(-1), out=place)
        return size


def lanczos(
    products: Products, start: Tensor, tol: float, max_restarts: int
) -> tuple[SingularPair, bool]:
    """The top singular pair, and whether it is accurate.

    For a singular triple (p, s, q) of T, the residual of (Uₖ p, s, Vₖ q) is beta |pₖ|. The error
    of s is at most that, and about residual² / distance to the next value. Values that are closer
    than the residual look like one, so that the second estimate counts only if it is small.

    Reference: Golub and Kahan (1965); thick restarts as in Baglama and Reichel (2005).
    """
    bases = _Bidiagonal(products, start)
    check, restarts = 4, 0
    while True:
        bases.grow()
        k = bases.k
        if k < min(check, bases.size):
            continue
        check = k + 2 + k // 6
        small = bases.square()
        values, vectors = torch.linalg.eigh((small @ small.mT).nan_to_num())
        p, sigma = vectors[..., -1], values[..., -1].clamp_min(0).sqrt()
        residual = bases.beta.double().cpu() * p[..., -1].abs()
        distance = (sigma - values[..., -2].clamp_min(0).sqrt()).clamp_min(1e-300)
        close = (residual <= tol * sigma) | (
            (residual * (residual / distance) <= tol * sigma)
            & (residual <= 3e-3 * math.sqrt(tol) * sigma)
        )
        exhausted = k == bases.side and restarts == 0
        accurate = exhausted or bool((close | ~residual.isfinite()).all())
        if accurate or (k == bases.size and restarts == max_restarts):
            return bases.pair(p, sigma), accurate
        if k == bases.size:
            bases.restart()
            check, restarts = bases.k + 16, restarts + 1


def _remove(basis: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients of w `(…, n)` in an orthonormal basis `(…, k, n)`, and the rest of w."""
    if w.ndim == 1:
        coefficients = basis.mv(w)
        return coefficients, torch.addmv(w, basis.T, coefficients, alpha=-1.0)
    column = basis @ w.unsqueeze(-1)
    return column.squeeze(-1), w - (basis.mT @ column).squeeze(-1)


def _extreme(w: Tensor) -> Tensor | None:
    """The largest entries `(*batch, 1)` if their squares could overflow or vanish, else None."""
    size = w.abs().amax(-1, keepdim=True)
    if bool(((size > 1e-10) & (size < 1e10)).all()):
        return None
    return torch.where((size == 0) | ~torch.isfinite(size), 1.0, size)
