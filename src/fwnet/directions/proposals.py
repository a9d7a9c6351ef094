"""Proposal: a point of the domain that the corrective direction takes into its hull."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.directions.base import toward
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.numerics.tensors import expand
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner
from fwnet.vertices import OneHot


class Candidates(NamedTuple):
    """Points of the domain `(*batch, K, *shape)`, with their images where those are known."""

    points: Tensor
    images: Tensor | None = None  # (*batch, K, m)
    lasting: bool = True  # stay in the hull's memory; else for one step only


class Proposal(nn.Module, ABC):
    """Proposes points to move toward; a slot of `Corrections` that may hold weights.

    Example:
        >>> from fwnet.directions import Exchanges, ProjectedStep, Proposal
        >>> isinstance(ProjectedStep(), Proposal)
        True
        >>> Corrections(proposals=[ProjectedStep(), Exchanges(4)]).memory
        6
    """

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        """The state before the first step; raise here if the proposal does not fit."""
        return None

    @abstractmethod
    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        """Points of the domain, none if it has none, and the next state."""


@final
@dataclass(frozen=True, eq=False)
class LastStep:
    """Where the last step started, the gradient there, and the η it was given."""

    x: Tensor
    gradient: Tensor
    length: Tensor  # (*batch,)


@final
class ProjectedStep(Proposal):
    """A gradient step of Barzilai and Borwein's length, projected.

        p = P(x − η∇f(x)),   η = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇f⟩

    None where the domain does not project cheaply, and at the first step, which has no Δx: there
    η is that of the segment toward the vertex, and serves until f curves.

    Example:
        >>> from fwnet.directions import ProjectedStep
        >>> direction = Corrections(proposals=[ProjectedStep()])
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), direction=direction, tol=1e-4)(problem).status
        'converged'
    """

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        last = next_step(problem, it, lin, state)
        if state is None:
            return [], last
        ahead = it.x - expand(last.length, it.x.ndim - problem.batch_dims) * last.gradient
        b = problem.batch_dims
        point = domain.project(finite_or(it.x, ahead, b))
        if point is None:
            return [], last
        # A decomposition of numbers that large may overflow.
        return [Candidates(finite_or(it.x, point, b).unsqueeze(b))], last


@final
class Exchanges(Proposal):
    """On the simplex, x with one coordinate filled or emptied: points that cost a column each.

        radius · e_i  for the `count` smallest ∇f_i after that of the oracle's vertex,
        (x − x_j e_j) / (1 − x_j / radius)  for the `count` largest x_j (∇f_j − ⟨∇f, x⟩ / radius)

    Where a gradient costs n columns, these are nearly free, and save a third of the steps.

    Arguments:
        count: how many of each.

    Example:
        >>> from fwnet.directions import Exchanges
        >>> direction = Corrections(proposals=[Exchanges(2)])
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), direction=direction, tol=1e-4)(problem).status
        'converged'
    """

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.count = checks.at_least("Exchanges(count=...)", count, 1)

    def extra_repr(self) -> str:
        return f"count={self.count}"

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> None:
        if not isinstance(domain, Simplex):
            raise TypeError(f"Exchanges is for Simplex only; got {domain}. Leave it out.")

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        assert isinstance(domain, Simplex)
        surplus = lin.along.unsqueeze(-1) / domain.radius - dense_gradient(lin.gradient)
        return [exchanges(problem, domain, it, lin, surplus, self.count)], state


def exchanges(
    problem: Problem,
    domain: Simplex,
    it: Iterate,
    lin: Linearization,
    growth: Tensor,  # (*batch, n)
    count: int,
) -> Candidates:
    """The vertices of the coordinates that should grow most, x without those that should shrink.

    The oracle's own vertex is in the hull already.
    """
    x, z, radius = it.x.unsqueeze(-2), it.image, domain.radius
    assert z is not None
    count = min(count, x.shape[-1] - 1)
    if count == 0:  # one coordinate has nothing to exchange with
        return Candidates(x[..., :0, :], z.unsqueeze(-2)[..., :0, :], lasting=False)
    best = lin.vertex.dense() > 0
    enter = growth.masked_fill(best, -torch.inf).topk(count, -1).indices
    leave = (it.x * growth).topk(count, -1, largest=False).indices
    index = torch.cat([enter, leave], -1)
    vertices = OneHot(index, it.x.new_full(index.shape, radius), x.shape[-1], unit=radius == 1)
    units, columns = vertices.dense(), problem.vertex_images(vertices)
    weight = it.x.gather(-1, leave).unsqueeze(-1) / radius  # (*batch, count, 1)
    # Without the coordinate that is nearly all of x, nothing but rounding would be left.
    weight = torch.where(weight > 0.999, 0.0, weight)
    rest = 1 - weight
    emptied = (x - weight * units[..., count:, :]).clamp_min(0) / rest
    moved = (z.unsqueeze(-2) - weight * columns[..., count:, :]) / rest
    points = torch.cat([units[..., :count, :], emptied], -2)
    return Candidates(points, torch.cat([columns[..., :count, :], moved], -2), lasting=False)


def finite_or(x: Tensor, point: Tensor, batch_dims: int) -> Tensor:
    """`point`, and x where it is not finite: a length overflows where f hardly curves."""
    fine = torch.isfinite(point.flatten(batch_dims).sum(-1))
    return torch.where(expand(fine, point.ndim - batch_dims), point, x)


def next_step(problem: Problem, it: Iterate, lin: Linearization, last: LastStep | None) -> LastStep:
    """x, ∇f(x) and η = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇f⟩, or the η before where f did not curve."""
    gradient = dense_gradient(lin.gradient)
    b = problem.batch_dims
    if last is None:
        move = toward(problem, it, lin)
        curvature = problem.curvature(it, move)
        assert curvature is not None
        size = inner(move.direction, move.direction, b)
        kind = torch.finfo(size.dtype)
        length = (size / curvature.clamp_min(kind.tiny)).clamp_max(kind.max)
        return LastStep(it.x, gradient, length)
    step, change = it.x - last.x, gradient - last.gradient
    curvature = inner(step, change, b)
    size = inner(step, step, b)
    length = (size / curvature).detach()
    usable = (length > 0) & torch.isfinite(length)  # a step of 0, or none that curves: neither
    length = torch.where(usable, size / torch.where(usable, curvature, 1.0), last.length)
    return LastStep(it.x, gradient, length)
