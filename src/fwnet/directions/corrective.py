"""Corrections: the exact minimum over the hull of a few recent points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet import checks
from fwnet.directions.base import Direction
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move, Term, expand
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner
from fwnet.quadratic_programs import simplex_qp
from fwnet.vertices import Dense, Vertex


@final
@dataclass(frozen=True, eq=False)
class CorrectionState:
    """Recent points `(*batch, K, *shape)` and their images, newest first; the last x and gradient."""

    domain: Domain
    points: Tensor | None = None
    images: Tensor | None = None
    x: Tensor | None = None
    gradient: Tensor | None = None


@final
class Corrections(Direction):
    """The minimum of f over the convex hull of x, the vertex, a projected step and recent points.

        d = y − x,   y = argmin of f over conv{x, s, P(x − η∇f(x)), p_1, …, p_memory}

    with a Barzilai-Borwein η, where the domain projects cheaply (else without that point). On a
    quadratic the minimum is exact: a quadratic programme of memory + 3 weights. Elsewhere it is
    that of the second-order model at x, and the rule's line search keeps the step honest.

    Arguments:
        memory: how many recent points are kept.
    """

    def __init__(self, memory: int = 6) -> None:
        super().__init__()
        self.memory = checks.at_least("Corrections(memory=...)", memory, 0)

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
        points, images = self._hull(problem, it, lin.vertex, gradient, state)
        along = problem.along_x(it, lin.gradient)
        slopes = (points.flatten(b + 1) @ gradient.flatten(b).unsqueeze(-1)).squeeze(-1)
        slopes = slopes - along.unsqueeze(-1)
        bends = problem.gram(it, points - it.x.unsqueeze(b), images - it.image.unsqueeze(b))
        # The first weight is that of x itself, from which slopes and bends are measured.
        weights = simplex_qp(pad(bends, (1, 0, 1, 0)), pad(slopes, (1, 0)))
        rest = weights[..., 1:]
        term = Term(1.0, Dense(_mix(rest, points), state.domain.event_dim), _mix(rest, images))
        slope = (rest * slopes).sum(-1)
        move = Move(it, weights[..., 0] - 1, (term,), lin.value, slope)
        keep = slice(0, self.memory)
        kept = points.movedim(b, 0)[keep].movedim(0, b), images.movedim(b, 0)[keep].movedim(0, b)
        return move, CorrectionState(state.domain, *kept, it.x, gradient)

    def _hull(
        self,
        problem: Problem,
        it: Iterate,
        vertex: Vertex,
        gradient: Tensor,
        state: CorrectionState,
    ) -> tuple[Tensor, Tensor]:
        """The points besides x, `(*batch, K, *shape)`, and their images."""
        b = problem.batch_dims
        fresh = [(vertex.dense(), problem.vertex_image(vertex))]
        projected = _projected_step(problem, it, gradient, state)
        if projected is not None:
            fresh.append((projected, problem.image(projected)))
        points = torch.stack([point for point, _ in fresh], b)
        images = torch.stack([image for _, image in fresh if image is not None], b)
        if state.points is None or state.images is None:
            return points, images
        return torch.cat([points, state.points], b), torch.cat([images, state.images], b)


def _projected_step(
    problem: Problem, it: Iterate, gradient: Tensor, state: CorrectionState
) -> Tensor | None:
    """P(x − η∇f(x)) with the Barzilai-Borwein η = ⟨s, s⟩ / ⟨s, y⟩ of the last step."""
    if state.x is None or state.gradient is None:
        return None
    b = problem.batch_dims
    step, change = it.x - state.x, gradient - state.gradient
    bend = inner(step, change, b)
    length = torch.where(bend > 0, inner(step, step, b) / bend, 0.0)
    return state.domain.project(it.x - expand(length, it.x.ndim - b) * gradient)


def _mix(weights: Tensor, points: Tensor) -> Tensor:
    """Σ_k weights_k · points_k."""
    shape = (*weights.shape[:-1], *points.shape[weights.ndim :])
    return (weights.unsqueeze(-2) @ points.flatten(weights.ndim)).reshape(shape)
