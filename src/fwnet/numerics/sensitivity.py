"""How a minimiser moves with the data, on the face where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor


def reattached(x: Tensor, gradient: Tensor, response: Tensor) -> Tensor:
    """x with the derivative of a minimiser: dx/dθ = −response · ∂gradient/∂θ.

    Arguments:
        x: the minimiser, without a graph, `(*batch, n)`.
        gradient: ∇f(x, θ) at that x, with a graph to θ.
        response: of the `Face` of x, `(*batch, n, n)`.
    """
    change = (response @ (gradient - gradient.detach()).unsqueeze(-1)).squeeze(-1)
    shift: Tensor = _FirstOrder.apply(change)  # type: ignore[no-untyped-call]
    return x - shift


@final
@dataclass(frozen=True, eq=False)
class Face:
    """An orthonormal basis, and which of its vectors are directions of the face.

    Arguments:
        basis: `(*batch, n, n)`, a vector a row.
        free: `(*batch, n)` booleans; none is true at a vertex.
    """

    basis: Tensor
    free: Tensor

    @classmethod
    def of(cls, normals: Tensor) -> Face:
        """The directions that are orthogonal to every row of `(*batch, K, n)`; rows may be 0."""
        size = torch.linalg.vector_norm(normals, dim=-1, keepdim=True)
        rows = normals / torch.where(size == 0, 1.0, size)
        values, vectors = torch.linalg.eigh(rows.mT @ rows)
        return cls(vectors.mT, values <= _cutoff(normals.dtype, 1e-10))  # of rows of length 1

    def response(self, gram: Tensor) -> Tensor:
        """The pseudo-inverse of ∇²f on the directions of the face, `(*batch, n, n)`.

        Curvature counts as 0 where it is small beside the largest on the face, or no more than the
        rounding of all of ∇²f: the largest on the face may be rounding itself.

        Arguments:
            gram: ⟨d_j, ∇²f d_k⟩ of all vectors of the basis, `(*batch, n, n)`.
        """
        inside = self.free.unsqueeze(-1) & self.free.unsqueeze(-2)
        values, vectors = torch.linalg.eigh(torch.where(inside, (gram + gram.mT) / 2, 0.0))
        whole = gram.diagonal(dim1=-2, dim2=-1).abs().sum(-1, keepdim=True)
        rounding = 8 * torch.finfo(gram.dtype).eps * whole
        keep = values > torch.maximum(_cutoff(gram.dtype, 1e-12) * values[..., -1:], rounding)
        inverse = torch.where(keep, 1 / torch.where(keep, values, 1.0), 0.0)
        rows = vectors.mT @ self.basis
        return rows.mT @ (inverse.unsqueeze(-1) * rows)


def _cutoff(dtype: torch.dtype, cutoff: float) -> float:
    return max(cutoff, 1e-6) if dtype == torch.float32 else cutoff


class _FirstOrder(torch.autograd.Function):
    """The identity, which refuses to be differentiated twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        if torch.is_grad_enabled():  # only with create_graph=True
            raise RuntimeError(
                "a minimiser's derivatives on its face are first derivatives only; a graph of "
                "them would miss how the curvature changes. Use SimplexQP, or FWNet."
            )
        return grad
