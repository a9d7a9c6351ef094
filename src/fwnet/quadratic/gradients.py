"""Gradients through a solution on the simplex: Newton's equations on the face that it lies on.

The solution x of min ½ xᵀQx + cᵀx moves as dx = −P (dQ x + dc), where P inverts Q on the directions
of the face, {d : Σ d = 0, d = 0 off the support}. P is symmetric, so a loss with ∂loss/∂x = v needs
one solve, w = P v; and dP = −P dQ P, so that solve is its own derivative, as often as one likes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics.precision import without_autocast
from fwnet.quadratic.faces import as_doubles, compiled_for, factor_face, spectral_face_solve


class FaceSystem(ABC):
    """Q on one face for each problem of a batch, ready to be solved with."""

    @abstractmethod
    def solve(self, v: Tensor) -> Tensor:
        """w = P v, without a graph.

        Arguments:
            v: `(batch, n)`.
        """

    @staticmethod
    @abstractmethod
    def gradients(p: Tensor, y: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """Gradient of −pᵀQy by each tensor that Q is made of, in operations with a graph."""


def face_solve(system: FaceSystem, v: Tensor, *parts: Tensor) -> Tensor:
    """w = P v, differentiable in v and in the parts that Q is made of."""
    if not torch.is_grad_enabled():
        return system.solve(v)
    w: Tensor = _FaceSolve.apply(system, v, *parts)  # type: ignore[no-untyped-call]
    return w


class _FaceSolve(torch.autograd.Function):
    @staticmethod
    def forward(system: FaceSystem, v: Tensor, *parts: Tensor) -> Tensor:
        return system.solve(v)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.system = inputs[0]
        ctx.save_for_backward(output, *inputs[2:])

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor | None, ...]:
        w, *parts = ctx.saved_tensors
        with without_autocast(u.device):
            p = face_solve(ctx.system, u, *parts)
            return None, p, *ctx.system.gradients(p, w, *parts)


@final
class DenseFaceSystem(FaceSystem):
    """Faces of a dense Q: Cholesky, checked; the spectrum where a face is singular.

    Arguments:
        Q: `(batch, n, n)` symmetric, positive semidefinite on the faces.
        free: `(batch, n)` booleans.
    """

    def __init__(self, Q: Tensor, free: Tensor) -> None:
        self._Q, self._free = Q.detach(), free
        self._code = compiled_for(Q)
        if self._code is None:
            size = self._Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1)
            self._factor = factor_face(self._Q, free)
            shaky = self._factor.pivot <= 1e4 * torch.finfo(Q.dtype).eps * size
            self._singular = shaky.nonzero().squeeze(-1)

    @torch.no_grad()
    def solve(self, v: Tensor) -> Tensor:
        w, rows = self._batched(v) if self._code is None else self._compiled(self._code, v)
        if rows.numel():
            w[rows] = spectral_face_solve(self._Q[rows], self._free[rows], v[rows])
        return w

    def _compiled(self, code: Any, v: Tensor) -> tuple[Tensor, Tensor]:
        """Solutions, and the rows with a singular face."""
        w, weak = np.empty(v.shape), np.empty(len(v), np.bool_)
        eps = torch.finfo(v.dtype).eps
        code.face_solve_all(
            as_doubles(self._Q),
            np.ascontiguousarray(self._free.numpy()),
            as_doubles(v),
            eps,
            w,
            weak,
        )
        return torch.from_numpy(w).to(v.dtype), torch.from_numpy(weak.nonzero()[0])

    def _batched(self, v: Tensor) -> tuple[Tensor, Tensor]:
        eps = torch.finfo(v.dtype).eps
        w, level = self._factor.solve(v)
        error = torch.where(self._free, v + level.unsqueeze(-1) - self._times(w), 0.0)
        if bool(error.abs().amax() > eps**0.7 * v.abs().amax()):
            w = w + self._factor.solve(error)[0]
        return w, self._singular

    def _times(self, w: Tensor) -> Tensor:
        return (self._Q @ w.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def gradients(p: Tensor, y: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """−½ (p yᵀ + y pᵀ): symmetric, as Q is."""
        return (torch.stack((p, y), -1) @ (-0.5 * torch.stack((y, p), -2)),)


@final
class FeatureFaceSystem(FaceSystem):
    """Faces of Q = ZZᵀ + diag(D), in feature space: O(n d²) instead of O(n³).

        w = (v − Zp + level)/D on the face,   p = Zᵀw,   Σ w = 0

    Arguments:
        rows: (Z, −1), `(batch, n, d + 1)`.
        D: `(batch, n)` positive.
        free: `(batch, n)` booleans.
        cholesky: the factor that `factor_features` would return, if it is known.
    """

    def __init__(
        self, rows: Tensor, D: Tensor, free: Tensor, cholesky: Tensor | None = None
    ) -> None:
        self.rows, self.D, self.free = rows, D, free
        self.weighted = rows * (free / D).unsqueeze(-1)
        self.cholesky = factor_features(rows, self.weighted) if cholesky is None else cholesky

    @classmethod
    def of(cls, Z: Tensor, D: Tensor, free: Tensor) -> FeatureFaceSystem:
        return cls(augmented(Z.detach()), D.detach(), free)

    @torch.no_grad()
    def solve(self, v: Tensor) -> Tensor:
        w = self._once(v)
        image = torch.bmm(self.rows.mT, w.unsqueeze(-1))  # (Zᵀw, −Σw), and Σw is 0
        residual = (v - w * self.D).unsqueeze(-1).baddbmm_(self.rows, image, alpha=-1).squeeze(-1)
        level = (residual * self.free).sum(-1, keepdim=True) / self.free.sum(-1, keepdim=True)
        residual = (residual - level) * self.free
        if bool(residual.abs().amax() > torch.finfo(v.dtype).eps ** 0.7 * v.abs().amax()):
            w = w + self._once(residual)
        return w

    def _once(self, v: Tensor) -> Tensor:
        right = torch.bmm(self.weighted.mT, v.unsqueeze(-1))
        pair = torch.cholesky_solve(right, self.cholesky)
        return torch.baddbmm(v.unsqueeze(-1), self.rows, pair, alpha=-1).squeeze(-1) * (
            self.free / self.D
        )

    @staticmethod
    def gradients(p: Tensor, y: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """−(p yᵀZ + y pᵀZ) and −p ∘ y."""
        Z = parts[0]
        pair = torch.stack((p, y), -1)
        images = torch.bmm(torch.stack((-y, -p), -2), Z)
        return torch.bmm(pair, images), -p * y


def augmented(Z: Tensor) -> Tensor:
    """(z, −1) for each point, to be multiplied with (w, level)."""
    return torch.cat((Z, torch.full_like(Z[..., :1], -1.0)), -1)


def factor_features(rows: Tensor, weighted: Tensor) -> Tensor:
    """The Cholesky factor of diag(1, ..., 1, 0) + Σ rows rowsᵀ/D over the face.

    Arguments:
        rows: `(batch, n, d + 1)`, from `augmented`.
        weighted: the same over D on the face, 0 elsewhere.
    """
    gram = torch.bmm(rows.mT, weighted)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    diagonal[:, :-1] += 1.0
    factor: Tensor = torch.linalg.cholesky_ex(gram)[0]
    return factor
