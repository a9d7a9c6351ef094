"""Simplex and hypersimplex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.domains.base import Domain, settle, settle_radius, slack
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, argmin, dense_cost
from fwnet.vertices import Dense, OneHot, Vertex


@final
@dataclass(frozen=True)
class Simplex(Domain):
    """Scaled probability simplex.

        {x : x >= 0, Σ x = radius}

    The vertices are radius · e_i.

    Example:
        >>> Simplex().lmo(torch.tensor([3.0, 1.0, 2.0])).dense()
        tensor([0., 1., 0.])
    """

    radius: float = 1.0
    polyhedral: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle_radius(self)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        index = argmin(cost)
        value = cost.new_full(index.shape, self.radius)
        return OneHot(index, value, cost.shape[-1], unit=self.radius == 1)

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self.radius)
        return (x.amin(-1) >= -tol) & ((x.sum(-1) - self.radius).abs() <= tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return self.radius * 2**0.5 if shape[-1] > 1 else 0.0

    def _start(self, zeros: Tensor) -> Tensor:
        """The barycentre, radius/n everywhere."""
        return zeros.fill_(self.radius / zeros.shape[-1])

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """x = Σ (x_i / radius) · (radius e_i), over the i with x_i > 0 in any problem."""
        used = x.reshape(-1, x.shape[-1]).gt(0).any(0).nonzero().squeeze(-1)
        index = used.expand(*x.shape[:-1], -1)
        value = torch.full(index.shape, self.radius, dtype=x.dtype, device=x.device)
        atoms = OneHot(index, value, x.shape[-1], unit=self.radius == 1)
        return atoms, x[..., used].clamp_min(0) / self.radius

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """The ones vector, and e_i where x_i = 0."""
        return _with_ones(x, x <= tol)

    def tangent(self, gradient: Tensor) -> Tensor:
        return gradient - gradient.amin(-1, keepdim=True)

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection by sorting (Held, Wolfe and Crowder, 1974)."""
        # A shift changes nothing, and entries more than radius below the largest become 0: so
        # compute with numbers of the size of the radius.
        x = (x - x.amax(-1, keepdim=True)).clamp_min(-self.radius)
        ordered = x.sort(-1, descending=True).values
        rank = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        excess = (ordered.cumsum(-1) - self.radius) / rank
        support = (ordered > excess).sum(-1, keepdim=True)
        return (x - excess.gather(-1, (support - 1).clamp_min(0))).clamp_min(0)


@final
@dataclass(frozen=True)
class HyperSimplex(Domain):
    """Hypersimplex: k coordinates share the mass.

        {x : 0 <= x <= radius, Σ x = k · radius}

    The vertices have k entries `radius` and zeros elsewhere.

    Example:
        >>> HyperSimplex(2).lmo(torch.tensor([3.0, 1.0, 2.0])).dense()
        tensor([0., 1., 1.])
    """

    k: int
    radius: float = 1.0
    polyhedral: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, k=checks.at_least("HyperSimplex(k=...)", self.k, 1))
        settle_radius(self)

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        check_count(name, shape, self, self.k)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        chosen = cost.topk(self.k, dim=-1, largest=False).indices
        return Dense(torch.zeros_like(cost).scatter(-1, chosen, self.radius))

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self.k * self.radius)
        inside = (x.amin(-1) >= -tol) & (x.amax(-1) <= self.radius + tol)
        return inside & ((x.sum(-1) - self.k * self.radius).abs() <= tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        self.check_shape("shape", shape)
        return self.radius * math.sqrt(2 * min(self.k, shape[-1] - self.k))

    def _start(self, zeros: Tensor) -> Tensor:
        """The barycentre, k · radius/n everywhere."""
        return zeros.fill_(self.k * self.radius / zeros.shape[-1])

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: a shift of x, clipped to [0, radius]."""
        return shift_and_clip(x, self.radius, self.k)

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """The ones vector, and e_i where x_i is 0 or radius."""
        return _with_ones(x, (x <= tol) | (x >= self.radius - tol))


def check_count(name: str, shape: tuple[int, ...], domain: Domain, k: int) -> None:
    """Raise unless points of `shape` have the k coordinates that a vertex needs."""
    if shape[-1] < k:
        raise ValueError(
            f"{name}: {domain} needs at least k={k} coordinates; got shape {tuple(shape)}."
        )


def shift_and_clip(x: Tensor, cap: float, k: int) -> Tensor:
    """clip(x − s, 0, cap) with the shift s for which it sums to k · cap, k at most n.

    s lies between e − cap and e, e the k-th largest entry: at e, fewer than k entries exceed s; at
    e − cap, at least k reach the cap. Entries further than cap from that interval are clipped for
    every such s, so all numbers can be kept to the size of cap. Bisection finds which entries are
    clipped; the others give s in closed form.
    """
    x = (x - x.topk(k, -1).values[..., -1:]).clamp(-cap, cap)
    low, high = torch.full_like(x[..., :1], -cap), torch.zeros_like(x[..., :1])
    for _ in range(30 if x.dtype == torch.float32 else 60):
        middle = (low + high) / 2
        above = (x - middle).clamp(0, cap).sum(-1, keepdim=True) > k * cap
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    shift = (low + high) / 2
    free = (x > shift) & (x < shift + cap)
    full = (x >= shift + cap).sum(-1, keepdim=True)
    number = free.sum(-1, keepdim=True)
    exact = ((x * free).sum(-1, keepdim=True) + cap * (full - k).to(x.dtype)) / number.clamp_min(1)
    return (x - torch.where(number > 0, exact, shift)).clamp(0, cap)


def _with_ones(x: Tensor, fixed: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(x).unsqueeze(-2), torch.diag_embed(fixed.to(x))], -2)
