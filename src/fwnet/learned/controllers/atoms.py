"""LearnedAtoms: which point joins the corrective solver's hull, by four learned numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from fwnet import checks
from fwnet.directions import Corrections, Direction, Exchanges, Proposal
from fwnet.directions.corrective import CorrectionState
from fwnet.directions.proposals import Candidates, LastStep, next_step
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe
from fwnet.vertices import Dense

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets

START = (0.0, 0.0, 0.0, -3.0)  # m = 1, β = 0, a = 0: the hand-designed atom


@final
class LearnedAtoms(Controller, Direction):
    """The corrective solver with a learned atom in place of the projected gradient step.

        y = argmin of f over conv{x, s, p_θ, p_1, …, p_memory}
        p_θ = P(x + a δ − m η ∇f(x + a δ) + β Δx)

    δ leads from x to the (damped) minimum of f over the *affine* hull of the same points, which
    convex weights cannot reach: where the hull has run out, δ extrapolates. Its image, and so the
    gradient there, are combinations of known ones. η is Barzilai and Borwein's length, Δx the
    last step. θ = (log m, β, a, log λ): length, momentum, share and damping. They have no unit,
    so one θ serves every problem; making them linear in features of the step, twenty weights,
    gained nothing on held-out data. Untrained, the hand-designed atom.

    As many atoms and as many products with the matrix as `Corrections(memory)`, and the same
    guarantees: every point of the hull is feasible whatever the weights, and f(y) is at most what
    the exact line search toward the vertex reaches. Needs a quadratic problem.

    Arguments:
        memory: how many recent points stay in the hull.
        exchanges: how many columns to fill and to empty besides, see `Exchanges`.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> fwnet.FrankWolfe(fwnet.Simplex(), direction=learned.LearnedAtoms())(problem).status
        'converged'

    Reference: Anderson (1965) for extrapolation from an affine hull.
    """

    line_search = True

    def __init__(self, memory: int = 6, exchanges: int = 0) -> None:
        checks.at_least("LearnedAtoms(memory=...)", memory, 1)
        checks.at_least("LearnedAtoms(exchanges=...)", exchanges, 0)
        super().__init__(memory=memory, exchanges=exchanges)
        others = [Exchanges(exchanges)] if exchanges else []
        self.hull = Corrections(memory, [_Given(), *others])
        self.policy = nn.Parameter(torch.tensor(START))

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, direction=self, **budgets)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        if not problem.quadratic:
            raise TypeError(
                f"LearnedAtoms needs a quadratic problem; {type(problem).__name__} is none. Use "
                "Corrections()."
            )
        return self.hull.init(problem, domain, it), None

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        hull, last = state
        now = next_step(problem, it, lin, last)
        atom = None if last is None else self._atom(problem, it, lin, hull, now, last)
        move: Move
        move, hull = self.hull(
            problem, it, lin, replace(hull, proposals=(atom, *hull.proposals[1:]))
        )
        return move, (hull, now)

    def _atom(
        self,
        problem: Problem,
        it: Iterate,
        lin: Linearization,
        hull: CorrectionState,
        now: LastStep,
        last: LastStep,
    ) -> Tensor | None:
        growth, momentum, share, damping = self.policy.to(it.x.dtype).unbind()
        way, bent = _extrapolation(problem, it, lin, hull, damping.clamp(-10.0, 5.0).exp())
        length = (growth.clamp(-4.0, 4.0).exp() * now.length).unsqueeze(-1)
        bend = problem.hessian_vertex(Dense(way), bent)
        assert bend is not None
        gradient = now.gradient + share * dense_gradient(bend)
        step = it.x - last.x
        ahead = it.x + share * way - length * gradient + momentum * step
        return hull.domain.project(ahead)


@final
class _Given(Proposal):
    """The point that its state holds: chosen by one who sees the whole hull."""

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        return ([] if state is None else [Candidates(state.unsqueeze(problem.batch_dims))]), None


def _extrapolation(
    problem: Problem, it: Iterate, lin: Linearization, hull: CorrectionState, damping: Tensor
) -> tuple[Tensor, Tensor]:
    """δ = Σ w_k (p_k − x) and its image: the minimum over the affine hull, damped by λ.

    w = −(H + λ diag H)⁻¹ slopes, with the points at distance 1, so that λ has no unit.
    """
    assert it.image is not None
    b = problem.batch_dims
    vertex, image = lin.vertex.dense().unsqueeze(b), problem.vertex_image(lin.vertex)
    assert hull.points is not None
    assert hull.images is not None
    assert image is not None
    points = torch.cat([vertex, hull.points], b)
    images = torch.cat([image.unsqueeze(b), hull.images], b)
    tiny = torch.finfo(it.x.dtype).eps ** 2
    ways = points - it.x.unsqueeze(b)
    scale = torch.linalg.vector_norm(ways, dim=-1, keepdim=True).clamp_min(tiny)
    ways, bent = ways / scale, (images - it.image.unsqueeze(b)) / scale
    steep = hull.domain.tangent(dense_gradient(lin.gradient))
    slopes = ways @ steep.unsqueeze(-1)
    gram = problem.gram(it, ways, bent)
    gram = (gram + gram.mT) / 2
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    floor = torch.finfo(it.x.dtype).eps * diagonal.amax(-1, keepdim=True) + tiny
    ridge = torch.diag_embed(damping * diagonal.clamp_min(0) + floor)
    weights = -torch.linalg.solve(gram + ridge, slopes).mT
    return (weights @ ways).squeeze(-2), (weights @ bent).squeeze(-2)
