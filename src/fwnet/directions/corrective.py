"""Corrections: the exact minimum over the hull of a few recent points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fwnet import checks
from fwnet.directions.base import Direction
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate, Move, Term
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner
from fwnet.quadratic_programs import simplex_qp
from fwnet.scaling import expand
from fwnet.sensitivity import face_directions, pseudo_inverse, reattached
from fwnet.vertices import Dense


class View(NamedTuple):
    """What a proposal sees: where x is, where it was, and what the hull made of the last answer."""

    problem: Problem
    it: Iterate
    lin: Linearization
    gradient: Tensor  # (*batch, *shape)
    before: Tensor  # the last x, (*batch, *shape)
    gradient_before: Tensor  # (*batch, *shape)
    length: Tensor  # Barzilai-Borwein η, (*batch,)
    weight: Tensor  # of the last proposal in its hull, (*batch,)


class Proposal(nn.Module, ABC):
    """Proposes a point, whose projection joins the hull; a slot that may hold weights."""

    @abstractmethod
    def forward(self, view: View) -> Tensor:
        """The point before its projection, `(*batch, *shape)`."""


@final
class GradientStep(Proposal):
    """x − η∇f(x), with the Barzilai-Borwein η.

    Reference: Barzilai and Borwein (1988).
    """

    def forward(self, view: View) -> Tensor:
        x = view.it.x
        return x - expand(view.length, x.ndim - view.problem.batch_dims) * view.gradient


@final
@dataclass(frozen=True, eq=False)
class CorrectionState:
    """Recent points `(*batch, K, *shape)` with images, newest first; the last x, gradient and η."""

    domain: Domain
    points: Tensor | None = None
    images: Tensor | None = None
    x: Tensor | None = None
    gradient: Tensor | None = None
    length: Tensor | None = None  # η of the projected step
    weight: Tensor | None = None  # of the last proposal


@final
class Corrections(Direction):
    """The minimum of f over the convex hull of x, the vertex, a projected step and recent points.

        d = y − x,   y = argmin of f over conv{x, s, P(x − η∇f(x)), p_1, …, p_memory}

    with a Barzilai-Borwein η, where the domain projects cheaply (else without that point). On a
    quadratic the minimum is exact: a quadratic programme of memory + 3 weights. Elsewhere it is
    that of the second-order model at x, and the rule's line search keeps the step honest.

    Arguments:
        memory: how many recent points are kept.
        proposal: what is projected; x − η∇f(x) if left out.
    """

    def __init__(self, memory: int = 6, proposal: Proposal | None = None) -> None:
        super().__init__()
        self.memory = checks.at_least("Corrections(memory=...)", memory, 0)
        self.proposal = GradientStep() if proposal is None else proposal

    def extra_repr(self) -> str:
        return f"memory={self.memory}"

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> CorrectionState:
        if it.image is None:
            raise TypeError(
                f"Corrections needs a problem that knows its curvature; {type(problem).__name__} "
                "does not, or its oracle samples. Use BlendedPairwise."
            )
        return CorrectionState(domain)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.image is not None
        b = problem.batch_dims
        gradient = dense_gradient(lin.gradient)
        length = _step_length(problem, it, gradient, state)
        points, images, proposed = self._hull(problem, it, lin, gradient, state, length)
        # Differences first: near the optimum, ⟨g, p⟩ − ⟨g, x⟩ would be rounding.
        ways, bent = points - it.x.unsqueeze(b), images - it.image.unsqueeze(b)
        steep = state.domain.tangent(gradient).flatten(b)
        slopes = (ways.flatten(b + 1) @ steep.unsqueeze(-1)).squeeze(-1)
        bends = _semidefinite(problem.gram(it, ways, bent))
        if length is None:  # the curvature toward the vertex is a first guess
            size = ways.select(b, 0).flatten(b).square().sum(-1)
            length = size / bends[..., 0, 0].clamp_min(torch.finfo(size.dtype).tiny)
        # The first weight is that of x itself, from which slopes and bends are measured.
        rest = _best_weights(pad(bends, (1, 0, 1, 0)), pad(slopes, (1, 0)))[..., 1:]
        # No descent beyond rounding: leave it to the line search toward the vertex.
        lost = ((rest * slopes).sum(-1) >= 0).unsqueeze(-1)
        rest = torch.where(lost, torch.eye(1, rest.shape[-1]).to(rest)[0], rest)
        term = Term(1.0, Dense(_mix(rest, points), state.domain.event_dim), _mix(rest, images))
        move = Move(it, -rest.sum(-1), (term,), lin.value, (rest * slopes).sum(-1))
        kept = points.narrow(b, 0, min(self.memory, points.shape[b]))
        seen = images.narrow(b, 0, min(self.memory, points.shape[b]))
        weight = rest[..., 1] if proposed else torch.zeros_like(lin.value)
        return move, CorrectionState(state.domain, kept, seen, it.x, gradient, length, weight)

    def _hull(
        self,
        problem: Problem,
        it: Iterate,
        lin: Linearization,
        gradient: Tensor,
        state: CorrectionState,
        length: Tensor | None,
    ) -> tuple[Tensor, Tensor, bool]:
        """The points besides x, `(*batch, K, *shape)`, their images, whether one is proposed."""
        b = problem.batch_dims
        fresh = [(lin.vertex.dense(), problem.vertex_image(lin.vertex))]
        if length is not None and state.x is not None:
            assert state.gradient is not None
            assert state.weight is not None
            ahead = self.proposal(
                View(problem, it, lin, gradient, state.x, state.gradient, length, state.weight)
            )
            projected = state.domain.project(ahead)
            if projected is not None:
                fresh.append((projected, problem.image(projected)))
        points = torch.stack([point for point, _ in fresh], b)
        images = torch.stack([image for _, image in fresh if image is not None], b)
        if state.points is not None and state.images is not None:
            points = torch.cat([points, state.points], b)
            images = torch.cat([images, state.images], b)
        return points, images, len(fresh) > 1


def _step_length(
    problem: Problem, it: Iterate, gradient: Tensor, state: CorrectionState
) -> Tensor | None:
    """η = ⟨s, s⟩ / ⟨s, y⟩ of the last step s and the gradient's change y, or the η before."""
    if state.x is None or state.gradient is None or state.length is None:
        return None
    b = problem.batch_dims
    step, change = it.x - state.x, gradient - state.gradient
    bend = inner(step, change, b)
    return torch.where(bend > 0, inner(step, step, b) / bend, state.length)


def _best_weights(bends: Tensor, slopes: Tensor) -> Tensor:
    """argmin of ½ wᵀ bends w + slopesᵀw over the simplex, differentiable on its face."""
    weights = simplex_qp(bends, slopes)
    if not (torch.is_grad_enabled() and (bends.requires_grad or slopes.requires_grad)):
        return weights
    with torch.no_grad():
        face = face_directions(Simplex().normals(weights, 1e-9))
        response = face @ pseudo_inverse(face @ bends @ face, 1e-12) @ face
    gradient = (bends @ weights.unsqueeze(-1)).squeeze(-1) + slopes
    return reattached(weights, gradient, response)


def _semidefinite(gram: Tensor) -> Tensor:
    """Symmetric and without a negative diagonal, which is how far rounding bends a small one."""
    gram = (gram + gram.mT) / 2
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    return gram + torch.diag_embed(diagonal.clamp_min(0) - diagonal)


def _mix(weights: Tensor, points: Tensor) -> Tensor:
    """Σ_k weights_k · points_k."""
    shape = (*weights.shape[:-1], *points.shape[weights.ndim :])
    return (weights.unsqueeze(-2) @ points.flatten(weights.ndim)).reshape(shape)
