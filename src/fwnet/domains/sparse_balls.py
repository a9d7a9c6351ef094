"""Balls whose vertices have few entries or few groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.domains.base import NormBall, settle, slack
from fwnet.domains.norm_balls import against
from fwnet.domains.simplex import Simplex, check_count, shift_and_clip
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, dense_cost, unit
from fwnet.vertices import Dense, Vertex


@final
@dataclass(frozen=True)
class KSparseBall(NormBall):
    """K-sparse ball: the convex hull of the sparse sign vectors.

        {x : Σ |x_i| <= k · radius, max |x_i| <= radius}

    The vertices have k entries ±radius and zeros elsewhere.

    Example:
        >>> KSparseBall(2).lmo(torch.tensor([3.0, -1.0, 2.0])).dense()
        tensor([-1.,  0., -1.])
    """

    k: int
    radius: float = 1.0
    polyhedral: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, k=checks.at_least("KSparseBall(k=...)", self.k, 1))
        super().__post_init__()

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        check_count(name, shape, self, self.k)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        chosen = cost.abs().topk(self.k, dim=-1, sorted=False).indices
        values = against(cost.gather(-1, chosen), self.radius)
        return Dense(torch.zeros_like(cost).scatter(-1, chosen, values))

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self.k * self.radius)
        size = x.abs()
        return (size.sum(-1) <= self.k * self.radius + tol) & (size.amax(-1) <= self.radius + tol)

    def norm(self, x: Tensor) -> Tensor:
        size = x.abs()
        return torch.maximum(size.sum(-1) / self.k, size.amax(-1))

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.sqrt(self.k)

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: a soft threshold if Σ |x_i| is too large, then a clip."""
        clipped = x.clamp(-self.radius, self.radius)
        inside = clipped.abs().sum(-1, keepdim=True) <= self.k * self.radius
        shrunk = shift_and_clip(x.abs(), self.radius, self.k) * x.sign()
        return torch.where(inside, clipped, shrunk)


@final
@dataclass(frozen=True, eq=False)
class GroupL1Ball(NormBall):
    """Ball of the group lasso norm.

        {x : Σ over groups g of |x_g|₂ <= radius}

    A vertex is a vector of length `radius` in one group.

    Arguments:
        groups: whole numbers `(n,)`; coordinates with the same label are one group.

    Example:
        >>> GroupL1Ball(torch.tensor([0, 0, 1])).lmo(torch.tensor([3.0, 4.0, 1.0])).dense()
        tensor([-0.6000, -0.8000, -0.0000])
    """

    groups: Tensor
    radius: float = 1.0
    _label: Tensor = field(init=False, repr=False)
    _count: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Tensor) or self.groups.ndim != 1 or not len(self.groups):
            got = tuple(self.groups.shape) if isinstance(self.groups, Tensor) else self.groups
            raise ValueError(
                f"GroupL1Ball(groups=...) must be a tensor (n,) of group labels; got {got!r}."
            )
        if self.groups.is_floating_point() or self.groups.is_complex():
            raise TypeError(
                "GroupL1Ball(groups=...) must hold whole numbers; "
                f"got {self.groups.dtype}. Convert with .long()."
            )
        super().__post_init__()
        labels, inverse = torch.unique(self.groups, return_inverse=True)
        settle(self, _label=inverse, _count=len(labels))

    def __repr__(self) -> str:
        return f"GroupL1Ball({self._count} groups of {len(self.groups)}, radius={self.radius})"

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        n = len(self.groups)
        kind = f"vectors of {n} entries, one for each label"
        self.check_kind(kind, shape[-1] == n, name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        cost = unit(dense_cost(cost))
        best = self._norms(cost).argmax(-1, keepdim=True)
        chosen = self._label.to(cost.device) == best
        return Dense(-self.radius * unit(torch.where(chosen, cost, 0.0)))

    def norm(self, x: Tensor) -> Tensor:
        return self._norms(x).sum(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: that of the group norms on the simplex, if x is outside."""
        norms = self._norms(x)
        inside = norms.sum(-1, keepdim=True) <= self.radius
        wanted = torch.where(inside, norms, Simplex(self.radius).project(norms))
        factor = wanted / torch.where(norms > 0, norms, 1.0)
        return torch.where(inside, x, x * factor[..., self._label.to(x.device)])

    def _norms(self, x: Tensor) -> Tensor:
        scale = x.detach().abs().amax(-1, keepdim=True)
        scale = torch.where(scale == 0, 1.0, scale)  # keeps squares in range
        squares = x.new_zeros(*x.shape[:-1], self._count)
        squares = squares.index_add(-1, self._label.to(x.device), (x / scale).square())
        empty = squares == 0  # the square root has no derivative there
        return scale * torch.where(empty, 0.0, torch.where(empty, 1.0, squares).sqrt())
