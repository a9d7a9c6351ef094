"""Corrections: the exact minimum over the hull of a few recent points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from fwnet.directions.base import Direction
from fwnet.directions.hull_search import hull_weights, mix, quadratic_weights, semidefinite
from fwnet.directions.proposals import Candidates, ProjectedStep, Proposal
from fwnet.domains import Domain
from fwnet.domains.minimizers import following, knows_faces
from fwnet.iterates import Iterate, Move, Term
from fwnet.numerics import checks
from fwnet.numerics.tensors import expand, is_read, ratio
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Dense

_STILL = 1e-9  # of the hull's size: a shorter step is rounding


@final
@dataclass(frozen=True, eq=False)
class CorrectionState:
    """Recent points `(*batch, K, *shape)` with images, newest first; the proposals' states.

    `vertex`: this step's, where one has asked for its image before.
    """

    domain: Domain
    proposals: tuple[Any, ...]
    points: Tensor | None = None
    images: Tensor | None = None
    vertex: Candidates | None = None


@final
class Corrections(Direction):
    """The minimum of f over the convex hull of x, the vertex, proposed points and recent ones.

        d = y − x,   y = argmin of f over conv{x, s, P(x − η∇f(x)), p_1, …, p_memory}

    On a quadratic the minimum is exact: a quadratic programme of memory + 3 weights. Elsewhere it
    is that of the second-order model at x, and the rule's line search makes sure that f falls; with
    `rounds` it is that of f itself, see `hull_search`, and never above what the line search toward
    the vertex reaches.

    Where x already is the minimum over the domain, a step stays, and so would the steps after it:
    its derivative is that of the minimum, as in `ImplicitLayer`, for domains that know their faces.

    Arguments:
        memory: how many recent points are kept.
        proposals: where the points besides the vertex come from; only the projected step if left
            out.
        rounds: where f is no quadratic, Newton steps over the hull; they cost images only.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> result = FrankWolfe(Simplex(), direction=Corrections(memory=4), tol=1e-6)(problem)
        >>> result.status, result.steps < 10
        ('converged', True)
    """

    line_search = True

    def __init__(
        self, memory: int = 6, proposals: Sequence[Proposal] | None = None, rounds: int = 0
    ) -> None:
        super().__init__()
        self.rounds = checks.at_least("Corrections(rounds=...)", rounds, 0)
        self.memory = checks.at_least("Corrections(memory=...)", memory, 0)
        chosen: Any = [ProjectedStep()] if proposals is None else proposals
        if not isinstance(chosen, list | tuple) or not all(isinstance(p, Proposal) for p in chosen):
            raise TypeError(
                "Corrections(proposals=...) must be a list of proposals such as [Exchanges()]; "
                f"got {proposals!r}."
            )
        self.proposals: Any = nn.ModuleList(chosen)  # mypy takes its items for tensors

    def extra_repr(self) -> str:
        return f"memory={self.memory}" + (f", rounds={self.rounds}" if self.rounds else "")

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> CorrectionState:
        if it.image is None:
            raise TypeError(
                f"Corrections needs a problem that knows its curvature; {type(problem).__name__} "
                "does not, or its oracle samples. Use BlendedPairwise."
            )
        return CorrectionState(domain, tuple(p.init(problem, domain, it) for p in self.proposals))

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.image is not None
        b = problem.batch_dims
        gradient = dense_gradient(lin.gradient)
        points, images, lasting, proposals = self._hull(problem, it, lin, state)
        # Differences first: near the optimum, ⟨g, p⟩ − ⟨g, x⟩ would be rounding.
        directions, changes = points - it.x.unsqueeze(b), images - it.image.unsqueeze(b)
        steep = state.domain.tangent(gradient).flatten(b)
        slopes = (directions.flatten(b + 1) @ steep.unsqueeze(-1)).squeeze(-1)
        gram = semidefinite(problem.gram(it, directions, changes))
        if problem.quadratic or self.rounds == 0:
            rest = quadratic_weights(gram, slopes)
        else:
            rest = hull_weights(problem, it, directions, changes, self.rounds)
        lost = (rest * slopes).sum(-1) >= 0
        if not is_read(lost) or bool(lost.any()):
            toward = _toward_vertex(gram, slopes, directions, points)
            rest = torch.where(lost.unsqueeze(-1), toward, rest)
        shift = None
        if rest.requires_grad:
            noise = _is_rounding(rest.detach(), directions, points)
            if not problem.quadratic:  # a quadratic's model is f, whose minimum needs no search
                noise = noise | _leads_nowhere(rest, slopes, steep, points)
            rest = torch.where(noise.unsqueeze(-1), 0.0, rest)  # stay, as the move does
            least = noise & _is_least(gram, slopes)
            if lin.exact and bool(least.any()) and knows_faces(state.domain):
                shift = following(problem, state.domain, it.x, gradient) - it.x
                shift = torch.where(expand(least, it.x.ndim - b), shift, 0.0)  # all 0: a derivative
        end, image = mix(rest, points), mix(rest, images)
        if shift is not None:
            end, image = end + shift, image + problem.images(shift.unsqueeze(b)).squeeze(b)
        term = Term(1.0, Dense(end, state.domain.event_dim), image)
        move = Move(it, -rest.sum(-1), (term,), lin.value, (rest * slopes).sum(-1))
        size = min(self.memory, lasting)
        kept, seen = points.narrow(b, 0, size), images.narrow(b, 0, size)
        return move, CorrectionState(state.domain, proposals, kept, seen)

    def _hull(
        self, problem: Problem, it: Iterate, lin: Linearization, state: CorrectionState
    ) -> tuple[Tensor, Tensor, int, tuple[Any, ...]]:
        """The points besides x, `(*batch, K, *shape)`, and their images; the first `lasting` of
        them are worth remembering, newest first; the proposals' states.
        """
        b = problem.batch_dims
        fresh = [vertex_of(problem, lin) if state.vertex is None else state.vertex]
        after = []
        for proposal, before in zip(self.proposals, state.proposals, strict=True):
            candidates, then = proposal(problem, state.domain, it, lin, before)
            fresh += candidates
            after.append(then)
        parts = [c for c in fresh if c.lasting]
        if state.points is not None:
            parts.append(Candidates(state.points, state.images))
        lasting = sum(part.points.shape[b] for part in parts)
        parts += [c for c in fresh if not c.lasting]
        images = [problem.images(c.points) if c.images is None else c.images for c in parts]
        points = torch.cat([c.points for c in parts], b)
        return points, torch.cat(images, b), lasting, tuple(after)


def _toward_vertex(gram: Tensor, slopes: Tensor, directions: Tensor, points: Tensor) -> Tensor:
    """The weights where the hull shows no descent beyond rounding: all on the vertex.

    The rule's line search then decides; x stays where even that would move it by rounding only.
    """
    first = torch.zeros_like(slopes)
    first[..., 0] = 1.0
    length = ratio(-slopes[..., :1], gram[..., 0, :1]).clamp(0, 1).detach()
    return first * ~_is_rounding(length * first, directions, points).unsqueeze(-1)


def _is_rounding(weights: Tensor, directions: Tensor, points: Tensor) -> Tensor:
    """Where Σ w_k (p_k − x) is no more than the rounding of the points, `(*batch,)`.

    Then the direction is noise, and so is the derivative of the step along it.
    """
    b = weights.ndim - 1
    length = mix(weights, directions).flatten(b).abs().amax(-1)
    size = torch.maximum(points.flatten(b).abs().amax(-1), directions.flatten(b).abs().amax(-1))
    return length <= 64 * torch.finfo(weights.dtype).eps * size


def _leads_nowhere(rest: Tensor, slopes: Tensor, steep: Tensor, points: Tensor) -> Tensor:
    """Where Σ w_k slope_k is less than what the rounding of the points does to it, `(*batch,)`.

    Then the slope along the step is noise, and the derivative of a line search divides it by a
    curvature that is smaller still.
    """
    b = rest.ndim - 1
    size = points.detach().flatten(b).abs().amax(-1) * steep.detach().abs().sum(-1)
    promise = -(rest.detach() * slopes.detach()).sum(-1)
    return promise <= 4 * torch.finfo(rest.dtype).eps * size


def _is_least(gram: Tensor, slopes: Tensor) -> Tensor:
    """Where no direction of the hull leads down by more than rounding, `(*batch,)`.

    The best step along d_k is |slope_k| / |d_k| long in the norm of ∇²f: compare it with the hull.
    """
    sizes = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    return (slopes >= -_STILL * sizes * sizes.amax(-1, keepdim=True)).all(-1)


def vertex_of(problem: Problem, lin: Linearization) -> Candidates:
    """The oracle's vertex as a point of a hull, `(*batch, 1, *shape)`."""
    b, image = problem.batch_dims, problem.vertex_image(lin.vertex)
    assert image is not None
    return Candidates(lin.vertex.dense().unsqueeze(b), image.unsqueeze(b))
