"""Factors per problem, applied to tensors with more dimensions."""

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
