"""Boxes, and the ball of the l∞ norm."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.domains.base import Domain, NormBall, slack
from fwnet.domains.norm_balls import against
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, dense_cost, norm
from fwnet.vertices import Dense, Sign, Vertex


@final
@dataclass(frozen=True)
class LInfBall(NormBall):
    """Ball of the maximum norm.

        {x : max |x_i| <= radius}

    The vertices are radius · (±1, …, ±1).

    Example:
        >>> LInfBall(2.0).lmo(torch.tensor([1.0, -3.0])).dense()
        tensor([-2.,  2.])
    """

    radius: float = 1.0
    polyhedral: ClassVar[bool] = True

    def vertex(self, cost: Cost) -> Vertex:
        return Sign(against(dense_cost(cost), 1.0), self.radius)

    def norm(self, x: Tensor) -> Tensor:
        return x.abs().amax(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.sqrt(shape[-1])

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: x clipped."""
        return x.clamp(-self.radius, self.radius)

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """e_i where |x_i| = radius."""
        return torch.diag_embed((x.abs() >= self.radius - tol).to(x))


@final
@dataclass(frozen=True, eq=False)
class Box(Domain):
    """Box.

        {x : lower <= x <= upper}

    Arguments:
        lower, upper: numbers, or tensors `(n,)` (or `(*batch, n)`, a box for each problem).

    Example:
        >>> Box(0.0, torch.tensor([1.0, 2.0])).lmo(torch.tensor([1.0, -1.0])).dense()
        tensor([0., 2.])
    """

    lower: float | Tensor
    upper: float | Tensor
    polyhedral: ClassVar[bool] = True

    def __post_init__(self) -> None:
        lower, upper = _bound("Box(lower=...)", self.lower), _bound("Box(upper=...)", self.upper)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise ValueError(
                "Box(lower=..., upper=...) must have one shape if both are tensors; "
                f"got {tuple(lower.shape)} and {tuple(upper.shape)}."
            )
        wrong = (lower > upper).nonzero()
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            low, high = lower.expand_as(upper + lower)[place], upper.expand_as(upper + lower)[place]
            where = f" at entry {place}" if place else ""
            raise ValueError(
                f"Box(lower=..., upper=...) must have lower <= upper; got lower={low.item()} and "
                f"upper={high.item()}{where}. Did you swap them?"
            )

    def __repr__(self) -> str:
        return f"Box({_short(self.lower)}, {_short(self.upper)})"

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        for bound in (self.lower, self.upper):
            if isinstance(bound, Tensor) and bound.shape != shape[len(shape) - bound.ndim :]:
                raise ValueError(
                    f"{name}: {self} has bounds of shape {tuple(bound.shape)}; "
                    f"got shape {tuple(shape)}."
                )

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        lower, upper = self._bounds(cost)
        return Dense(torch.where(cost > 0, lower, upper))

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        lower, upper = self._bounds(checks.a_tensor("x", x))
        largest = max(float(bound.detach().abs().max()) for bound in (lower, upper))
        tol = slack(x, tol, largest)
        return ((x >= lower - tol) & (x <= upper + tol)).all(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        lower, upper = self._bounds(torch.zeros(shape[-1:], dtype=torch.float64))
        width = (upper - lower) + torch.zeros(shape[-1], dtype=torch.float64)
        return float(norm(width.detach()).max())

    def _start(self, zeros: Tensor) -> Tensor:
        """The midpoint."""
        lower, upper = self._bounds(zeros)
        return zeros + (lower + (upper - lower) / 2)

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: x clipped."""
        lower, upper = self._bounds(x)
        return torch.minimum(torch.maximum(x, lower), upper)

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """e_i where x_i is at a bound."""
        lower, upper = self._bounds(x)
        return torch.diag_embed(((x <= lower + tol) | (x >= upper - tol)).to(x))

    def _bounds(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return (
            torch.as_tensor(self.lower, dtype=like.dtype, device=like.device),
            torch.as_tensor(self.upper, dtype=like.dtype, device=like.device),
        )


def _bound(name: str, value: float | Tensor) -> Tensor:
    if isinstance(value, Tensor) and value.ndim:
        return checks.real_tensor(name, value).to("cpu", torch.float64)
    if not isinstance(value, Tensor | numbers.Real):
        raise TypeError(f"{name} must be a number or a torch.Tensor; got {value!r}.")
    number = float(value.detach() if isinstance(value, Tensor) else value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, since a domain is bounded; got {value!r}.")
    return torch.tensor(number, dtype=torch.float64)


def _short(bound: float | Tensor) -> str:
    return f"tensor{tuple(bound.shape)}" if isinstance(bound, Tensor) and bound.ndim else f"{bound}"
