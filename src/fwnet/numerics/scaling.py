"""Factors per problem: how large they may be, and tensors with more dimensions times them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def expand(factor: Any, dims: int) -> Any:
    """A factor per problem, shaped to multiply tensors with `dims` more dimensions."""
    if isinstance(factor, Tensor) and factor.ndim:
        return factor.reshape(*factor.shape, *(1,) * dims)
    return factor


def rescaled(tensor: Tensor, scale: Tensor | float, step_size: Tensor, dims: int) -> Tensor:
    """(1 + γ·scale) · tensor, as a new tensor, in one pass."""
    if isinstance(scale, Tensor):
        return torch.addcmul(tensor, tensor, expand(scale * step_size, dims))
    if scale == 0:
        return tensor.clone()
    return torch.addcmul(tensor, tensor, expand(step_size, dims), value=scale)


def ratio(top: Tensor, bottom: Tensor) -> Tensor:
    """top / bottom, at most 1/eps in size; where that is reached, or bottom vanishes, a constant.

    For step sizes −slope / curvature, which are clamped afterwards: a derivative that the clamp
    would multiply by 0 must not be infinite. Without a slope and without curvature it is 0.
    """
    kind = torch.finfo(bottom.dtype)
    good = (bottom > kind.tiny / kind.eps) & (top.abs() < bottom / kind.eps)
    return torch.where(good, top / torch.where(good, bottom, 1.0), top.detach().sign() / kind.eps)
