"""Factors: a matrix of low rank by its singular value decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.iterates import ActiveSet
from fwnet.trace import Result
from fwnet.vertices import Rank1


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """W = U diag(s) Vᵀ with orthonormal columns, so that ‖W‖_* = Σ s.

    Arguments:
        U: `(d, k)`.
        s: `(k,)`, descending, at least 0.
        V: `(m, k)`.

    Example:
        >>> from fwnet.low_rank import Factors
        >>> W = Factors(torch.eye(3)[:, :1], torch.tensor([2.0]), torch.eye(2)[:, :1])
        >>> W.dense()
        tensor([[2., 0.],
                [0., 0.],
                [0., 0.]])
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

    def atoms(self, radius: float) -> ActiveSet:
        """W = Σ (s_i / radius) · (radius u_i v_iᵀ), weights in float64; the rest of 1 is at 0."""
        atoms = Rank1((self.U.mT * radius).contiguous(), self.V.mT.contiguous())
        return ActiveSet(atoms, self.s.double() / radius)

    @classmethod
    def of_atoms(cls, active: ActiveSet, radius: float) -> Factors:
        """Σ w_k u_k v_kᵀ of any atoms of rank 1, recompressed."""
        assert isinstance(active.atoms, Rank1)
        used = active.used
        w, u, v = active.weights[used], active.atoms.u[used], active.atoms.v[used]
        if len(w):
            return cls.of_product(u.mT * w.to(u.dtype), v.mT, radius)
        return cls.zero(u.shape[-1], v.shape[-1], u.dtype, u.device)

    @classmethod
    def of_result(cls, result: Result) -> Factors:
        """W of a `Result` of `solve`, whose atoms are its singular triples."""
        assert result.active is not None
        assert isinstance(result.active.atoms, Rank1)
        u, v = result.active.atoms.u, result.active.atoms.v
        size = torch.linalg.vector_norm(u.double(), dim=-1)  # squares of float32 may underflow
        s = (result.active.weights * size).to(u.dtype)
        U = (u.double() / size.unsqueeze(-1)).to(u.dtype).mT
        return cls(U.contiguous(), s, v.mT.contiguous())

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
    def zero(
        cls, d: int, m: int, dtype: torch.dtype, device: torch.device | None = None
    ) -> Factors:
        """W = 0, with one column."""
        U, V, s = (torch.zeros(size, 1, dtype=dtype, device=device) for size in (d, m, 1))
        U[0], V[0] = 1.0, 1.0
        return cls(U, s[0], V)
