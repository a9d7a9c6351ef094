"""What a linear minimisation oracle returns: points with structure.

A vertex knows how to apply itself (inner product with a cost), to add itself to a point and to
become dense; most never need n numbers. Every class holds tensors with *leading* dimensions:

    ()        the vertex of one problem
    (B,)      one vertex for each of B problems
    (..., K)  K vertices for each problem: the atoms of an active set

so a stack of atoms is a vertex too, and an active set needs no second class per type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

import torch
from torch import Tensor

from fwnet.numerics.linear_maps import LinearMap
from fwnet.numerics.tensors import ImplicitMatrix, expand, is_plain, taken

_V = TypeVar("_V", bound="Vertex")


@dataclass(frozen=True, eq=False)
class Vertex(ABC):
    """Points of a domain with leading dimensions; see the subclasses for their structure."""

    tensors: ClassVar[dict[str, int]] = {}  # field -> number of dimensions after the leading ones
    event_dim: ClassVar[int] = 1  # dimensions of one dense point

    @abstractmethod
    def dense(self) -> Tensor:
        """The points as a tensor `(*leading, *shape)`."""

    @abstractmethod
    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        """⟨cost, v⟩ with leading dimensions; atoms share a cost without their dimension."""

    def image(self, matrix: LinearMap) -> Tensor:
        """A v: one column of A for a one-hot vertex."""
        return matrix.apply(self.dense())

    def add_to(self, x: Tensor, scale: Tensor | float) -> Tensor:
        """x + scale · v, written into `x`; the caller owns `x`."""
        return x.add_(expand(scale, self.event_dim) * self.dense())

    def combine(self, weights: Tensor) -> Tensor:
        """Σ_k weights[..., k] · atom_k of atoms `(..., K)`, as a tensor `(..., *shape)`."""
        return (expand(weights, self.event_dim) * self.dense()).sum(weights.ndim - 1)

    def same_as(self, other: Vertex) -> Tensor:
        """For atoms `(..., K)` and one vertex `(...)`: which atoms equal it, `(..., K)`."""
        equal: Tensor | None = None
        for name, dims in self.tensors.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            same = mine == theirs.unsqueeze(theirs.ndim - dims)
            if dims:
                same = same.flatten(same.ndim - dims).all(-1)
            equal = same if equal is None else equal & same
        assert equal is not None
        return equal

    @property
    def leading(self) -> torch.Size:
        """The leading dimensions."""
        name, dims = next(iter(self.tensors.items()))
        tensor: Tensor = getattr(self, name)
        return tensor.shape[: tensor.ndim - dims]

    def each(self: _V, change: Callable[..., Tensor], *others: Vertex) -> _V:
        """The same kind of vertex, with `change(tensor, event_dims)` applied to every tensor.

        Arguments:
            others: alike vertices, whose tensors are further arguments of `change`.
        """
        fields: dict[str, Any] = dict(vars(self))
        for name, dims in self.tensors.items():
            fields[name] = change(fields[name], dims, *(getattr(other, name) for other in others))
        return type(self)(**fields)

    def select(self: _V, slot: Tensor) -> _V:
        """From atoms `(..., K)`, the one at `slot` `(...)`."""
        return self.each(lambda tensor, dims: taken(tensor, slot))

    def as_atoms(self: _V) -> _V:
        """A vertex `(...)` as one atom `(..., 1)`."""
        return self.each(lambda tensor, dims: tensor.unsqueeze(tensor.ndim - dims))


@final
@dataclass(frozen=True, eq=False)
class OneHot(Vertex):
    """v = value · e_index, in R^size (simplex, l1 ball)."""

    index: Tensor  # (...) int64
    value: Tensor  # (...)
    size: int
    unit: bool = False  # every value is 1: no need to multiply

    tensors: ClassVar[dict[str, int]] = {"index": 0, "value": 0}

    def dense(self) -> Tensor:
        zeros = self.value.new_zeros(*self.leading, self.size)
        return zeros.scatter(-1, self.index.unsqueeze(-1), self.value.unsqueeze(-1))

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        assert isinstance(cost, Tensor)
        shared = 0 < self.index.ndim == cost.ndim  # atoms share their problem's cost
        found = cost.gather(-1, self.index) if shared else taken(cost, self.index)
        return found if self.unit else self.value * found

    def image(self, matrix: LinearMap) -> Tensor:
        column = matrix.columns(self.index)
        if self.unit:
            return column
        return column * (self.value.unsqueeze(-1) if self.value.ndim else self.value)

    def add_to(self, x: Tensor, scale: Tensor | float) -> Tensor:
        amount = scale * self.value if not (self.unit and isinstance(scale, Tensor)) else scale
        if is_plain(self.index):
            x[self.index].add_(amount)  # a view: half the cost of a scatter
            return x
        return x.scatter_add_(-1, self.index.unsqueeze(-1), amount.unsqueeze(-1))

    def same_as(self, other: Vertex) -> Tensor:
        assert isinstance(other, OneHot)
        # Compare values even if `unit`: in a slot that was never used the value is 0.
        same = self.index == other.index.unsqueeze(-1)
        return same & (self.value == other.value.unsqueeze(-1))

    def combine(self, weights: Tensor) -> Tensor:
        zeros = weights.new_zeros(*weights.shape[:-1], self.size)
        return zeros.scatter_add(-1, self.index, weights * self.value)


@final
@dataclass(frozen=True, eq=False)
class Rank1(Vertex):
    """v = u vᵀ, in R^(d×m) (trace-norm ball, spectraplex)."""

    u: Tensor  # (..., d)
    v: Tensor  # (..., m)

    tensors: ClassVar[dict[str, int]] = {"u": 1, "v": 1}
    event_dim: ClassVar[int] = 2

    def dense(self) -> Tensor:
        return self.u.unsqueeze(-1) * self.v.unsqueeze(-2)

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        if isinstance(cost, ImplicitMatrix):
            if self.u.ndim > cost.ndim - 1:  # atoms: one product for all of them
                return (cost.matmul(self.v.mT).mT * self.u).sum(-1)
            return _dot(cost.matvec(self.v), self.u)
        if self.u.ndim == cost.ndim:
            return ((cost @ self.v.mT).mT * self.u).sum(-1)
        return _dot((cost @ self.v.unsqueeze(-1)).squeeze(-1), self.u)

    def add_to(self, x: Tensor, scale: Tensor | float) -> Tensor:
        if x.ndim == 2:
            return x.addr_(self.u * scale, self.v)
        return x.add_((self.u * expand(scale, 1)).unsqueeze(-1) * self.v.unsqueeze(-2))

    def combine(self, weights: Tensor) -> Tensor:
        return (self.u * weights.unsqueeze(-1)).mT @ self.v

    def same_as(self, other: Vertex) -> Tensor:
        """Never: singular vectors do not repeat exactly."""
        return self.u.new_zeros(self.leading, dtype=torch.bool)


@final
@dataclass(frozen=True, eq=False)
class Permutation(Vertex):
    """v[i, columns[i]] = 1, in R^(n×n) (Birkhoff polytope)."""

    columns: Tensor  # (..., n) int64
    dtype: torch.dtype

    tensors: ClassVar[dict[str, int]] = {"columns": 1}
    event_dim: ClassVar[int] = 2

    def dense(self) -> Tensor:
        n = self.columns.shape[-1]
        zeros = torch.zeros(*self.columns.shape, n, dtype=self.dtype, device=self.columns.device)
        return zeros.scatter_(-1, self.columns.unsqueeze(-1), 1.0)

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        if isinstance(cost, ImplicitMatrix):
            cost = cost.dense()
        if self.columns.ndim == cost.ndim:  # (..., K, n) against (..., n, n): pick row by row
            return cost.mT.gather(-2, self.columns).sum(-1)
        return cost.gather(-1, self.columns.unsqueeze(-1)).squeeze(-1).sum(-1)

    def add_to(self, x: Tensor, scale: Tensor | float) -> Tensor:
        values = expand(scale, 2) * x.new_ones(*self.columns.shape, 1)
        return x.scatter_add_(-1, self.columns.unsqueeze(-1), values)

    def combine(self, weights: Tensor) -> Tensor:
        n = self.columns.shape[-1]
        zeros = weights.new_zeros(*weights.shape[:-1], n, n)
        spread = weights.unsqueeze(-2).expand(*weights.shape[:-1], n, -1)
        return zeros.scatter_add(-1, self.columns.mT, spread)  # row i: Σ_k w_k at columns[k, i]


@final
@dataclass(frozen=True, eq=False)
class Sign(Vertex):
    """v = radius · signs, signs in {−1, +1}^n (l∞ ball)."""

    signs: Tensor  # (..., n)
    radius: float

    tensors: ClassVar[dict[str, int]] = {"signs": 1}

    def dense(self) -> Tensor:
        return self.radius * self.signs

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        assert isinstance(cost, Tensor)
        return self.radius * _inner_vectors(self.signs, cost)


@final
@dataclass(frozen=True, eq=False)
class Slice(Vertex):
    """v = (0, …, values, …, 0): one block of a product, starting at `start`, in R^size."""

    values: Tensor  # (..., width)
    start: int
    size: int

    tensors: ClassVar[dict[str, int]] = {"values": 1}

    @property
    def stop(self) -> int:
        """One past the last coordinate of the block."""
        return self.start + self.values.shape[-1]

    def dense(self) -> Tensor:
        return torch.nn.functional.pad(self.values, (self.start, self.size - self.stop))

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        assert isinstance(cost, Tensor)
        return _inner_vectors(self.values, cost[..., self.start : self.stop])

    def image(self, matrix: LinearMap) -> Tensor:
        if not matrix.has_blocks:
            return matrix.apply(self.dense())
        return matrix.block(self.start, self.stop).apply(self.values)

    def add_to(self, x: Tensor, scale: Tensor | float) -> Tensor:
        x[..., self.start : self.stop] += expand(scale, 1) * self.values
        return x

    def same_as(self, other: Vertex) -> Tensor:
        """Equal values, and in the same place."""
        if isinstance(other, Slice) and (other.start, other.stop) == (self.start, self.stop):
            return Vertex.same_as(self, other)
        return torch.zeros(self.leading, dtype=torch.bool, device=self.values.device)


@final
@dataclass(frozen=True, eq=False)
class Dense(Vertex):
    """v as a plain tensor: vectors, or matrices with `event_dim` 2."""

    x: Tensor  # (..., *shape)
    dims: int = 1

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.dims

    @property
    def tensors(self) -> dict[str, int]:  # type: ignore[override]
        return {"x": self.dims}

    def dense(self) -> Tensor:
        return self.x

    def inner(self, cost: Tensor | ImplicitMatrix) -> Tensor:
        if isinstance(cost, ImplicitMatrix):
            cost = cost.dense()
        if self.dims == 1:
            return _inner_vectors(self.x, cost)
        return _inner_vectors(self.x.flatten(-self.dims), cost.flatten(-self.dims))


def as_dense(vertex: Vertex) -> Dense:
    """Any vertex as a `Dense` one."""
    return vertex if isinstance(vertex, Dense) else Dense(vertex.dense(), vertex.event_dim)


def _inner_vectors(points: Tensor, cost: Tensor) -> Tensor:
    if points.ndim > cost.ndim:  # atoms (..., K, n) against (..., n)
        return (points @ cost.unsqueeze(-1)).squeeze(-1)
    return _dot(points, cost)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(a, b)
    return product
