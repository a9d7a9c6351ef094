"""Matrices that are known by their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class ImplicitMatrix:
    """A matrix G that is only asked for G V and Gᵀ U, thin V and U.

    The gradient of a problem over large matrices: Xᵀ(P − Y), or a sparse residual.

    Arguments:
        shape: `(*batch, d, m)`.
        matmul: V `(*batch, m, k)` -> G V `(*batch, d, k)`; without a batch also v `(m,)` -> `(d,)`.
        rmatmul: U `(*batch, d, k)` -> Gᵀ U `(*batch, m, k)`; also u `(d,)` -> `(m,)`.
        materialize: () -> G, for whoever needs all of it.
        dtype, device: of its products.
    """

    shape: torch.Size
    matmul: Callable[[Tensor], Tensor]
    rmatmul: Callable[[Tensor], Tensor]
    materialize: Callable[[], Tensor]
    dtype: torch.dtype
    device: torch.device

    @property
    def ndim(self) -> int:
        """Number of dimensions, as of the dense matrix."""
        return len(self.shape)

    def matvec(self, v: Tensor) -> Tensor:
        """G v."""
        return self.matmul(v) if v.ndim == 1 else self.matmul(v.unsqueeze(-1)).squeeze(-1)

    def rmatvec(self, u: Tensor) -> Tensor:
        """Gᵀ u."""
        return self.rmatmul(u) if u.ndim == 1 else self.rmatmul(u.unsqueeze(-1)).squeeze(-1)

    def dense(self) -> Tensor:
        """G as a tensor, computed once."""
        return self.materialize() if torch.compiler.is_compiling() else self._dense

    @cached_property
    def _dense(self) -> Tensor:  # a compiler shares equal terms, and cannot trace the cache
        return self.materialize()
