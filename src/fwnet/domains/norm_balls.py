"""Balls of the l1, l2 and lp norms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.domains.base import NormBall, check_exponent
from fwnet.domains.simplex import Simplex
from fwnet.numerics.tensors import Cost, argmin, dense_cost, norm, taken, unit
from fwnet.vertices import Dense, OneHot, Vertex


@final
@dataclass(frozen=True)
class L1Ball(NormBall):
    """Ball of the l1 norm.

        {x : Σ |x_i| <= radius}

    The vertices are ±radius · e_i.

    Example:
        >>> L1Ball(2.0).lmo(torch.tensor([1.0, -3.0, 2.0])).dense()
        tensor([0., 2., 0.])
    """

    radius: float = 1.0
    polyhedral: ClassVar[bool] = True

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        index = argmin(-cost.abs())
        return OneHot(index, against(taken(cost, index), self.radius), cost.shape[-1])

    def norm(self, x: Tensor) -> Tensor:
        return x.abs().sum(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """x = Σ |x_i|/radius · (± radius e_i), the remaining weight split between ± radius e_j.

        The two cancel; j is the largest coordinate of x, so they add only one atom.
        """
        used = x.reshape(-1, x.shape[-1]).ne(0).any(0).nonzero().squeeze(-1)
        used = used if len(used) else used.new_zeros(1)
        entries = x[..., used]
        value = against(-entries, self.radius)
        weights = at_most_one(entries.abs() / self.radius)
        index = used.expand(entries.shape)
        missing = (1.0 - weights.sum(-1, keepdim=True)).clamp_min(0)
        if bool((missing > weights.shape[-1] * torch.finfo(x.dtype).eps).any()):
            largest = weights.argmax(-1, keepdim=True)
            weights = weights.scatter_add(-1, largest, missing / 2)
            weights = torch.cat([weights, missing / 2], -1)
            value = torch.cat([value, -value.gather(-1, largest)], -1)
            index = torch.cat([index, index.gather(-1, largest)], -1)
        return OneHot(index, value, x.shape[-1]), weights

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: that of |x| on the simplex, with the signs of x."""
        inside = x.abs().sum(-1, keepdim=True) <= self.radius
        return torch.where(inside, x, Simplex(self.radius).project(x.abs()) * x.sign())

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """On the sphere: the signs of x, and e_i where x_i = 0; inside, nothing binds."""
        outside = (x.abs().sum(-1, keepdim=True) >= self.radius - tol).to(x)
        zero = x.abs() <= tol
        rows = torch.cat([x.sign().unsqueeze(-2), torch.diag_embed(zero.to(x))], -2)
        return rows * outside.unsqueeze(-1)


@final
@dataclass(frozen=True)
class L2Ball(NormBall):
    """Euclidean ball.

    {x : |x|₂ <= radius}

    Example:
        >>> L2Ball(5.0).lmo(torch.tensor([3.0, 4.0])).dense()
        tensor([-3., -4.])
    """

    radius: float = 1.0

    def vertex(self, cost: Cost) -> Vertex:
        return Dense(-self.radius * unit(dense_cost(cost)))

    def norm(self, x: Tensor) -> Tensor:
        return norm(x)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: x scaled back to the sphere if it is outside."""
        inside = norm(x).unsqueeze(-1) <= self.radius
        return torch.where(inside, x, self.radius * unit(x))


@final
@dataclass(frozen=True)
class LpBall(NormBall):
    """Ball of the lp norm, 1 < p < ∞.

        {x : (Σ |x_i|^p)^(1/p) <= radius}

    lmo(c) = −radius · w / |w|_p with w_i = sign(c_i) |c_i|^(1/(p−1)).

    Example:
        >>> LpBall(4.0).lmo(torch.tensor([0.0, 3.0])).dense()
        tensor([-0., -1.])
    """

    p: float
    radius: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exponent(self, {1: "L1Ball", 2: "L2Ball", math.inf: "LInfBall"})

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        cost = unit(cost)
        cost = cost / cost.abs().amax(-1, keepdim=True)  # the largest power is 1
        seen = cost != 0  # a power of 0 may have an infinite derivative
        power = torch.where(seen, cost.abs(), 1.0) ** (1 / (self.p - 1))
        w = torch.where(seen, cost.sign() * power, 0.0)
        return Dense(-self.radius * w / self.norm(w).unsqueeze(-1))

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.pow(shape[-1], max(0.0, 1 / 2 - 1 / self.p))

    def norm(self, x: Tensor) -> Tensor:
        return lp_norm(x, self.p)


def lp_norm(x: Tensor, p: float) -> Tensor:
    """The lp norm along the last dimension, whatever the scale of x."""
    largest = x.detach().abs().amax(-1, keepdim=True)
    scaled = x / torch.where(largest == 0, 1.0, largest)
    return largest.squeeze(-1) * norm(scaled, p)


def against(cost: Tensor, size: float) -> Tensor:
    """−size where the cost is positive, size where it is negative; either where it is 0."""
    return torch.full_like(cost, size).copysign_(-cost)


def at_most_one(weights: Tensor) -> Tensor:
    """Weights, scaled back if rounding lifts their sum above 1."""
    return weights / weights.sum(-1, keepdim=True).clamp_min(1.0)
