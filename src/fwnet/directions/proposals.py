"""Proposal: a point of the domain that the corrective direction takes into its hull."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from fwnet.directions.base import toward
from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner
from fwnet.scaling import expand


class Proposal(nn.Module, ABC):
    """Proposes a point to move toward; a slot of `Corrections` that may hold weights."""

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        """The state before the first step; raise here if the proposal does not fit."""
        return None

    @abstractmethod
    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Tensor | None, Any]:
        """A point of the domain `(*batch, *shape)`, or None, and the next state."""


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
    """

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Tensor | None, Any]:
        last = next_step(problem, it, lin, state)
        if state is None:
            return None, last
        ahead = it.x - expand(last.length, it.x.ndim - problem.batch_dims) * last.gradient
        return domain.project(ahead), last


def next_step(problem: Problem, it: Iterate, lin: Linearization, last: LastStep | None) -> LastStep:
    """x, ∇f(x) and η = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇f⟩, or the η before where f did not curve."""
    gradient = dense_gradient(lin.gradient)
    b = problem.batch_dims
    if last is None:
        move = toward(problem, it, lin)
        bend = problem.curvature(it, move)
        assert bend is not None
        size = inner(move.direction, move.direction, b)
        return LastStep(it.x, gradient, size / bend.clamp_min(torch.finfo(size.dtype).tiny))
    step, change = it.x - last.x, gradient - last.gradient
    bend = inner(step, change, b)
    length = torch.where(bend > 0, inner(step, step, b) / bend, last.length)
    return LastStep(it.x, gradient, length)
