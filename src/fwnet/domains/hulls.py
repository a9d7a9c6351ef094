"""Domains made of others: the hull of given points, the product of domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import torch
from torch import Tensor

from fwnet.domains.base import Domain, settle, slack
from fwnet.domains.minimizers import weights_following
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, dense_cost, norm
from fwnet.quadratic.nearest import nearest_weights
from fwnet.vertices import Dense, Vertex


@final
@dataclass(frozen=True, eq=False)
class ConvexHull(Domain):
    """Convex hull of finitely many points.

        {Σ w_k vertices_k : w >= 0, Σ w_k = 1}

    Arguments:
        vertices: `(K, *shape)`; points that are not extreme are allowed.

    Example:
        >>> triangle = ConvexHull(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        >>> triangle.lmo(torch.tensor([-1.0, -2.0])).dense()
        tensor([0., 1.])
    """

    vertices: Tensor

    def __post_init__(self) -> None:
        vertices = checks.real_tensor("ConvexHull(vertices=...)", self.vertices)
        if vertices.ndim < 2:
            raise ValueError(
                "ConvexHull(vertices=...) must have shape (K, *shape), K points; "
                f"got {tuple(vertices.shape)}."
            )

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.vertices.ndim - 1

    @property
    def polyhedral(self) -> bool:  # type: ignore[override]
        return True

    def __repr__(self) -> str:
        return f"ConvexHull({len(self.vertices)} points of shape {tuple(self.vertices.shape[1:])})"

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        wanted = tuple(self.vertices.shape[1:])
        fits = tuple(shape[-self.event_dim :]) == wanted
        self.check_kind(f"points of shape {wanted}", fits, name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        vertices = self.vertices.to(cost)
        best = (cost.flatten(-self.event_dim) @ vertices.flatten(1).T).argmin(-1)
        return Dense(vertices[best], self.event_dim)

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, float(self.vertices.detach().abs().max()))
        distance = (self.project(x) - x).flatten(-self.event_dim)
        return norm(distance) <= tol

    def diameter(self, shape: tuple[int, ...]) -> float:
        if len(self.vertices) == 1:
            return 0.0
        return float(torch.pdist(self.vertices.detach().flatten(1).double()).max())

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """Vertices with a positive weight in any problem, by non-negative least squares."""
        weights = self._weights(x)
        used = weights.reshape(-1, len(self.vertices)).gt(0).any(0)
        atoms = self.vertices.to(x)[used]
        leading = (*weights.shape[:-1], len(atoms))
        atoms = atoms.expand(*leading, *atoms.shape[1:])
        return Dense(atoms, self.event_dim), weights[..., used].to(x)

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection, by non-negative least squares in float64."""
        weights, vertices = self._weights(x), self.vertices.flatten(1).to(x.device, torch.float64)
        if torch.is_grad_enabled() and (x.requires_grad or vertices.requires_grad):
            # Of ½ |Σ w_k vertices_k − x|².
            flat = x.flatten(-self.event_dim).to(torch.float64)
            gradient = (weights @ vertices - flat) @ vertices.mT
            weights = weights_following(weights, gradient, vertices @ vertices.mT, 0.0)
        return (weights @ vertices).reshape(x.shape).to(x.dtype)

    def _weights(self, x: Tensor) -> Tensor:
        flat = x.detach().flatten(-self.event_dim)
        points = flat.reshape(-1, flat.shape[-1]).to("cpu", torch.float64)
        vertices = self.vertices.detach().flatten(1).to("cpu", torch.float64)
        weights = torch.stack([nearest_weights(vertices, point) for point in points])
        return weights.reshape(*flat.shape[:-1], -1).to(x.device)


class ProductBlock(NamedTuple):
    """One factor of a product: coordinates start to stop are a point of `shape` in `domain`."""

    domain: Domain
    start: int
    stop: int
    shape: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Product(Domain):
    """Product of domains.

        {(x_1, …, x_k) : x_i in domain_i}

    A point is one vector: the blocks, flattened, one after the other.

    Arguments:
        domains: the factors.
        shapes: the shape of a point of each, as `(n,)` or `(d, m)`.

    Example:
        >>> product = Product((Simplex(), L1Ball(2.0)), ((2,), (3,)))
        >>> product.lmo(torch.tensor([1.0, 2.0, 0.0, 0.0, 5.0])).dense()
        tensor([ 1.,  0.,  0.,  0., -2.])
    """

    domains: Sequence[Domain]
    shapes: Sequence[tuple[int, ...]]
    blocks: tuple[ProductBlock, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("domains", "shapes"):
            value = getattr(self, name)
            if not isinstance(value, Sequence):
                raise TypeError(
                    f"Product({name}=...) must be a list or tuple, an item a block; got {value!r}."
                )
        if not self.domains or len(self.domains) != len(self.shapes):
            raise ValueError(
                "Product(domains=..., shapes=...) must hold one shape for each domain, and at "
                f"least one; got {len(self.domains)} domains and {len(self.shapes)} shapes."
            )
        blocks: list[ProductBlock] = []
        start = 0
        for i, (domain, given) in enumerate(zip(self.domains, self.shapes, strict=True)):
            if not isinstance(domain, Domain):
                raise TypeError(f"Product(domains=...), block {i}: {domain!r} is not a Domain.")
            name = f"Product(shapes=...), block {i}"
            if not isinstance(given, Sequence):
                raise TypeError(f"{name} must be a tuple of sizes such as (3,); got {given!r}.")
            shape = tuple(given)
            domain.check_shape(name, shape)
            if len(shape) != domain.event_dim or min(shape) < 1:
                raise ValueError(
                    f"{name}: one point of {domain} has {domain.event_dim} dimension(s) of at "
                    f"least 1; got shape {shape}."
                )
            blocks.append(ProductBlock(domain, start, start + math.prod(shape), shape))
            start = blocks[-1].stop
        settle(self, blocks=tuple(blocks))

    @property
    def polyhedral(self) -> bool:  # type: ignore[override]
        return all(block.domain.polyhedral for block in self.blocks)

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        size = self.blocks[-1].stop
        if shape[-1] != size:
            raise ValueError(
                f"{name}: this Product takes vectors of {size} entries, its flattened blocks; "
                f"got shape {tuple(shape)}."
            )

    def split(self, x: Tensor) -> list[Tensor]:
        """The blocks of x `(*batch, n)`, each `(*batch, *shape)`."""
        return [x[..., b.start : b.stop].reshape(*x.shape[:-1], *b.shape) for b in self.blocks]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""
        return torch.cat(
            [p.flatten(-len(b.shape)) for p, b in zip(parts, self.blocks, strict=True)], -1
        )

    def _parts(self, x: Tensor) -> list[tuple[Domain, Tensor]]:
        """Each domain with its block of x."""
        return [(b.domain, part) for b, part in zip(self.blocks, self.split(x), strict=True)]

    def vertex(self, cost: Cost) -> Vertex:
        parts = self._parts(dense_cost(cost))
        return Dense(self.join([domain.vertex(part).dense() for domain, part in parts]))

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """The vertices of the blocks, and the sum of their bounds."""
        answers = [domain.certified_vertex(part) for domain, part in self._parts(dense_cost(cost))]
        vertex = Dense(self.join([vertex.dense() for vertex, _ in answers]))
        return vertex, torch.stack([bound.double() for _, bound in answers]).sum(0)

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        parts = self._parts(checks.a_tensor("x", x))
        return torch.stack([domain.contains(part, tol) for domain, part in parts]).all(0)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return math.hypot(*(block.domain.diameter(block.shape) for block in self.blocks))

    def _start(self, zeros: Tensor) -> Tensor:
        """The starts of the blocks."""
        kind = (zeros.dtype, zeros.device)
        return self.join([d.start(tuple(part.shape), *kind) for d, part in self._parts(zeros)])

    def project(self, x: Tensor) -> Tensor | None:
        """Block by block, if every block has a projection."""
        projected = [domain.project(part) for domain, part in self._parts(x)]
        found = [part for part in projected if part is not None]
        return self.join(found) if len(found) == len(projected) else None
