"""The kernel matrix of many points as a map that makes columns when they are asked for."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fwnet.numerics.linear_maps import DenseMap, LinearMap
from fwnet.quadrature.kernels import SmoothKernel

_DENSE = 4096  # points up to which the whole matrix is made at once


@final
class KernelMap(LinearMap):
    """K = k(xᵢ, xⱼ)·[gᵢ = gⱼ]: column i is made when e_i is first met, and kept.

    A step of Frank-Wolfe asks for one column; the matrix itself, n² numbers, never exists.

    Arguments:
        kernel: k.
        X: `(n, d)`.
        groups: g `(n,)`, integers; points of different groups have nothing in common. None for
            one group.
    """

    def __init__(self, kernel: SmoothKernel, X: Tensor, groups: Tensor | None = None) -> None:
        self.make, self.groups = kernel.column_maker(X), groups
        self.shape = torch.Size((len(X), len(X)))
        self.dtype, self.device = X.dtype, X.device
        self._kept: dict[int, Tensor] = {}

    def columns(self, index: Tensor) -> Tensor:
        made = [self._column(i) for i in index.reshape(-1).tolist()]
        return torch.stack(made).reshape(*index.shape, self.shape[0])

    def apply(self, x: Tensor) -> Tensor:
        support = x.nonzero()[:, 0]
        return x[support] @ self.columns(support) if len(support) else torch.zeros_like(x)

    def adjoint(self, z: Tensor) -> Tensor:
        return self.apply(z)

    def _column(self, i: int) -> Tensor:
        if i not in self._kept:
            column = self.make(i)
            if self.groups is not None:
                column = column * (self.groups == self.groups[i])
            self._kept[i] = column
        return self._kept[i]


def kernel_map(kernel: SmoothKernel, X: Tensor) -> LinearMap:
    """K as a matrix if X has few points, else as a `KernelMap`."""
    return DenseMap(kernel(X, X), symmetric=True) if len(X) <= _DENSE else KernelMap(kernel, X)
