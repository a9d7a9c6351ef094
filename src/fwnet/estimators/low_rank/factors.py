"""Factors: a matrix of low rank by its singular value decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """W = U diag(s) Vᵀ with orthonormal columns, so that ‖W‖_* = Σ s.

    Arguments:
        U: `(d, k)`.
        s: `(k,)`, descending, at least 0.
        V: `(m, k)`.
    """

    U: Tensor
    s: Tensor
    V: Tensor

    @property
    def left(self) -> Tensor:
        """U diag(s): with V, two factors of W."""
        return self.U * self.s

    @property
    def rank(self) -> int:
        """How many singular values are above 0."""
        return int((self.s > 0).sum())

    def dense(self) -> Tensor:
        """W, `(d, m)`."""
        return self.left @ self.V.mT

    def to(self, dtype: torch.dtype) -> Factors:
        """The same in another type."""
        return Factors(self.U.to(dtype), self.s.to(dtype), self.V.to(dtype))

    def into(self, radius: float) -> Factors:
        """The same matrix, scaled down if its trace norm exceeds the radius; no zero columns."""
        kept = max(1, self.rank)
        total = float(self.s.double().sum())
        # One part in 10⁷ below the radius: rounding of U and V must not lead out of the ball.
        limit = radius * (1 - 1e-7)
        s = self.s[:kept] * (limit / total) if total > limit else self.s[:kept]
        return Factors(self.U[:, :kept].contiguous(), s, self.V[:, :kept].contiguous())

    @classmethod
    def of_product(cls, L: Tensor, R: Tensor, radius: float) -> Factors:
        """L Rᵀ, recompressed in float64: two thin QR decompositions and a small SVD."""
        left, small_left = torch.linalg.qr(L.double())
        right, small_right = torch.linalg.qr(R.double())
        u, s, vh = torch.linalg.svd(small_left @ small_right.mT, full_matrices=False)
        noise = s[0] * max(len(L), len(R)) * torch.finfo(L.dtype).eps
        s = torch.where(s > noise, s, 0.0)
        whole = cls((left @ u).to(L.dtype), s.to(L.dtype), (right @ vh.mT).to(L.dtype))
        return whole.into(radius)

    @classmethod
    def zero(cls, d: int, m: int, dtype: torch.dtype) -> Factors:
        """W = 0, with one column."""
        U, V = torch.zeros(d, 1, dtype=dtype), torch.zeros(m, 1, dtype=dtype)
        U[0], V[0] = 1.0, 1.0
        return cls(U, torch.zeros(1, dtype=dtype), V)
