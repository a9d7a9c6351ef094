"""How a minimiser moves with the data, on the face where it lies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reattached(x: Tensor, gradient: Tensor, response: Tensor) -> Tensor:
    """x with the derivative of a minimiser: dx/dθ = −response · ∂gradient/∂θ.

    Arguments:
        x: the minimiser, without a graph, `(*batch, n)`.
        gradient: ∇f(x, θ) at that x, with a graph to θ.
        response: the pseudo-inverse of ∇²f on the directions of the face, `(*batch, n, n)`.
    """
    change = (response @ (gradient - gradient.detach()).unsqueeze(-1)).squeeze(-1)
    shift: Tensor = _FirstOrder.apply(change)  # type: ignore[no-untyped-call]
    return x - shift


def face_directions(normals: Tensor) -> Tensor:
    """The projection onto the directions that are orthogonal to every row, `(*batch, n, n)`."""
    gram = normals.mT @ normals
    n = gram.shape[-1]
    eye = torch.eye(n, dtype=gram.dtype, device=gram.device).expand_as(gram)
    face = eye - pseudo_inverse(gram, 1e-10) @ gram
    return (face + face.mT) / 2


def pseudo_inverse(matrix: Tensor, cutoff: float) -> Tensor:
    """Of a symmetric semidefinite matrix; eigenvalues below cutoff · largest count as 0."""
    values, vectors = torch.linalg.eigh(matrix)
    if matrix.dtype == torch.float32:
        cutoff = max(cutoff, 1e-6)
    keep = values > cutoff * values[..., -1:].clamp_min(0)
    inverse = torch.where(keep, 1 / torch.where(keep, values, 1.0), 0.0)
    return (vectors * inverse.unsqueeze(-2)) @ vectors.mT


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
                "them would miss how the curvature changes. Use SimplexQP, or unrolled=True."
            )
        return grad
