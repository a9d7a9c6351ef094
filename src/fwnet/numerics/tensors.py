"""Matrices that are known by their products, and factors for each problem of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import torch
from torch import Tensor

_Parts = TypeVar("_Parts", bound=tuple[Tensor, ...])


def once(compute: Callable[[Any], Tensor]) -> property:
    """A property that is computed once; in a graph of torch.compile, which merges equal terms and
    cannot trace a cache, whenever it is read.
    """
    name = compute.__name__

    def get(self: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return compute(self)
        kept = self.__dict__.get(name)
        if kept is None:
            kept = self.__dict__[name] = compute(self)
        return kept

    return property(get, doc=compute.__doc__)


@final
@dataclass(frozen=True, eq=False)
class ImplicitMatrix:
    """A matrix G that is only asked for G V and Gᵀ U, thin V and U.

    The gradient of a problem over large matrices: Xᵀ(P − Y), or a sparse residual.

    Arguments:
        shape: `(*batch, d, m)`.
        matmul: V `(*batch, m, k)` -> G V `(*batch, d, k)`; without a batch also v `(m,)` -> `(d,)`.
        rmatmul: U `(*batch, d, k)` -> Gᵀ U `(*batch, m, k)`; also u `(d,)` -> `(m,)`.
        materialize: () -> G, where all of it is needed.
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
        whole: Tensor = self._dense
        return whole

    @once
    def _dense(self) -> Tensor:
        return self.materialize()


Cost = Tensor | ImplicitMatrix


def expand(factor: Any, dims: int) -> Any:
    """A factor per problem, shaped to multiply tensors with `dims` more dimensions."""
    if isinstance(factor, Tensor) and factor.ndim:
        return factor.reshape(*factor.shape, *(1,) * dims)
    return factor


def picked(mask: Tensor, these: _Parts, others: _Parts) -> _Parts:
    """Of two named tuples of tensors `(*batch, …)`, the first where the mask `(*batch,)` holds."""
    pairs = zip(these, others, strict=True)
    make: Any = type(these)
    return make(*(torch.where(expand(mask, x.ndim - mask.ndim), x, y) for x, y in pairs))


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


def dense_cost(cost: Cost) -> Tensor:
    """The cost as a tensor, for domains that look at every entry."""
    return cost.dense() if isinstance(cost, ImplicitMatrix) else cost


def unit(x: Tensor) -> Tensor:
    """x / |x| along the last dimension, whatever the scale of x; e_1 where x = 0."""
    scale = x.detach().abs().amax(-1, keepdim=True)
    zero = scale == 0
    first = torch.zeros_like(x)
    first[..., 0] = 1.0
    x = torch.where(zero, first, x / torch.where(zero, 1.0, scale))  # squares stay in range
    return x / norm(x).unsqueeze(-1)


def norm(x: Tensor, p: float = 2.0) -> Tensor:
    """The lp norm along the last dimension."""
    size: Tensor = torch.linalg.vector_norm(x, ord=p, dim=-1)
    return size


def argmin(values: Tensor) -> Tensor:
    """Index of the smallest entry of each row; on the CPU by NumPy, five to ten times faster."""
    few = values.numel() < 4096
    if few or values.device.type != "cpu" or torch.compiler.is_compiling():
        return values.argmin(-1)
    return torch.from_numpy(np.asarray(values.numpy(force=True).argmin(-1)))


def is_read(tensor: Tensor) -> bool:
    """Whether Python may read numbers of a tensor: it waits for no device, and breaks no graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def taken(tensor: Tensor, index: Tensor) -> Tensor:
    """Of `(*batch, K, …)`, what stands at an index `(*batch,)` along K: `(*batch, …)`.

    One index `()` is not read where that takes time.
    """
    if index.ndim == 0:
        if is_read(index):
            return tensor[index]
        return tensor.index_select(0, index.reshape(1)).squeeze(0)
    b, place = index.ndim, index.unsqueeze(-1)
    rest = tensor.shape[b + 1 :]
    if rest:
        place = place.reshape(*place.shape, *(1,) * len(rest)).expand(*place.shape, *rest)
    return tensor.gather(b, place).squeeze(b)


def is_plain(number: Tensor) -> bool:
    """Whether a number can be a Python float, whose arithmetic is cheaper than a tensor's."""
    return number.ndim == 0 and not torch.is_grad_enabled() and is_read(number)
