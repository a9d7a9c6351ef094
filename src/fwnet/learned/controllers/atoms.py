"""LearnedAtoms: which point joins the corrective solver's hull, by four learned numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.directions import Corrections, Exchanges, Proposal
from fwnet.directions.corrective import CorrectionState, vertex_of
from fwnet.directions.proposals import Candidates, LastStep, finite_or, next_step
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.hull import HullDirection, is_single
from fwnet.numerics import checks
from fwnet.numerics.compiled import machine_code
from fwnet.oracles import Linearization
from fwnet.problems import Problem, Quadratic, SVMDual
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Dense

START = (0.0, 0.0, 0.0, -7.0)  # m = 1, β = 0, a = 0: the hand-designed atom
NEWTON_STEPS, HALVINGS = 8, 5
_CODE = "fwnet.learned.controllers.compiled_atoms"


@final
class LearnedAtoms(HullDirection):
    """The corrective solver with a learned atom in place of the projected gradient step.

        y = argmin of f over conv{x, s, p_θ, p_1, …, p_memory}
        p_θ = argmin over v of ⟨∇f, v⟩ + σ/2 |v − x − β Δx|² + a²/2 |Zᵀ(v − x)|²,   σ = 1/(m η)

    a projected quasi-Newton step: σI + ZZᵀ is f's curvature along the directions from x to the
    points of the hull, whose images are known, and σ elsewhere. η is Barzilai and Borwein's
    length, Δx the last step. The minimum costs a few projections, no product with the matrix.
    θ = (log m, β, a, log λ): length, momentum, share of the known curvature, and λ: a curvature
    below λ times the largest counts as rounding. They are dimensionless, so one θ serves every
    problem. Untrained, it is the hand-designed atom.

    As many atoms as `Corrections(memory)`, and the same guarantees: every point of the hull is
    feasible whatever the weights, and f(y) is at most what the exact line search toward the vertex
    reaches. Needs a quadratic problem. With K as a matrix (`Quadratic`, `SVMDual`), as many
    products too; least squares take one more product with Aᵀ for each point of the hull.

    Arguments:
        memory: how many recent points stay in the hull.
        exchanges: how many columns to fill and to empty besides, see `Exchanges`.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> fwnet.FrankWolfe(fwnet.Simplex(), direction=learned.LearnedAtoms())(problem).status
        'converged'

    Reference: Schmidt, van den Berg, Friedlander and Murphy (2009) for projected quasi-Newton.
    """

    def __init__(self, memory: int = 6, exchanges: int = 0) -> None:
        checks.at_least("LearnedAtoms(memory=...)", memory, 1)
        checks.at_least("LearnedAtoms(exchanges=...)", exchanges, 0)
        super().__init__(memory=memory, exchanges=exchanges)
        others = [Exchanges(exchanges)] if exchanges else []
        self.hull = Corrections(memory, [_Chosen(), *others])
        self.policy = nn.Parameter(torch.tensor(START))

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        if not problem.quadratic:
            raise TypeError(
                f"LearnedAtoms needs a quadratic problem; {type(problem).__name__} is not. Use "
                "Corrections()."
            )
        numbers = _numbers(self.policy.double()).tolist() if is_single(it.x) else None
        return super().init(problem, domain, it), None, numbers

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        hull, last, numbers = state
        now = next_step(problem, it, lin, last)
        if last is not None:
            vertex = vertex_of(problem, lin)
            atom = self._atom(problem, it, vertex, hull, now, last, numbers)
            hull = replace(hull, vertex=vertex, proposals=(atom, *hull.proposals[1:]))
        move: Move
        move, hull = self.hull(problem, it, lin, hull)
        return move, (hull, now, numbers)

    def _atom(
        self,
        problem: Problem,
        it: Iterate,
        vertex: Candidates,
        hull: CorrectionState,
        now: LastStep,
        last: LastStep,
        numbers: list[float] | None,
    ) -> Tensor:
        form = problem.form if isinstance(problem, SVMDual) else problem
        if numbers is not None and isinstance(form, Quadratic) and (code := machine_code(_CODE)):
            return _compiled(code, it, vertex, hull, now, last, numbers)
        growth, momentum, share, cut = _numbers(self.policy.to(it.x.dtype)).unbind()
        directions, products = _directions(problem, it, vertex, hull)
        sigma = 1 / (growth * now.length).unsqueeze(-1)
        Z = share * _known_curvature(directions, products, sigma, cut)
        ahead = momentum * (it.x - last.x) - now.gradient / sigma
        return _model_minimum(hull.domain, it.x, ahead, Z, sigma)


def _compiled(
    code: Any,
    it: Iterate,
    vertex: Candidates,
    hull: CorrectionState,
    now: LastStep,
    last: LastStep,
    numbers: list[float],
) -> Tensor:  # (n,)
    """p_θ of one `Quadratic` in one call: here most of the time would be spent on calls.

    In contiguous float64 whatever the problem has, so that there is one piece of machine code.
    """
    assert isinstance(hull.domain, Simplex)
    known: Any = (it.image, now.gradient, now.length, last.x, *vertex[:2], hull.points, hull.images)
    x, *arrays = (tensor.double().contiguous().numpy() for tensor in (it.x, *known))
    v, limits = np.empty_like(x), (NEWTON_STEPS, HALVINGS)
    code.learned_atom(x, *arrays, *numbers, hull.domain.radius, *limits, v)
    return torch.from_numpy(v).to(it.x.dtype)


def _numbers(policy: Tensor) -> Tensor:
    """m, β, a and λ of θ, each within its limits."""
    growth, momentum, share, cut = policy.unbind()
    limited = (growth.clamp(-4.0, 4.0).exp(), momentum.clamp(-1.0, 1.0))
    return torch.stack([*limited, share.clamp(0.0, 1.0), cut.clamp(-15.0, 0.0).exp()])


@final
class _Chosen(Proposal):
    """The point in its state, which `LearnedAtoms` chooses from the whole hull."""

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        return ([] if state is None else [Candidates(state.unsqueeze(problem.batch_dims))]), None


def _directions(
    problem: Problem, it: Iterate, vertex: Candidates, hull: CorrectionState
) -> tuple[Tensor, Tensor]:
    """Unit vectors w from x toward the vertex and the recent points, and Hw: `(*batch, K, n)`."""
    b = problem.batch_dims
    assert it.image is not None
    assert vertex.images is not None
    assert hull.points is not None
    assert hull.images is not None
    points = torch.cat([vertex.points, hull.points], b)
    images = torch.cat([vertex.images, hull.images], b)
    directions = points - it.x.unsqueeze(b)
    scale = torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
    scale = scale.clamp_min(torch.finfo(it.x.dtype).eps ** 2)
    directions, images = directions / scale, (images - it.image.unsqueeze(b)) / scale
    products = []
    for direction, moved in zip(directions.unbind(b), images.unbind(b), strict=True):
        product = problem.hessian_vertex(Dense(direction), moved)
        assert product is not None
        products.append(dense_gradient(product))
    return directions, torch.stack(products, b)


def _known_curvature(directions: Tensor, products: Tensor, sigma: Tensor, cut: Tensor) -> Tensor:
    """Z `(*batch, n, K)` such that (σI + ZZᵀ) w = Hw where the curvature along w exceeds σ.

    ZZᵀ = R M⁺ Rᵀ with R = HW − σW and M = WᵀR, of which only what is positive is kept.
    """
    rest = products - sigma.unsqueeze(-1) * directions
    small = rest @ directions.mT
    sound = torch.isfinite(small).all(-1).all(-1)[..., None, None]  # else σ is 0 or infinite
    rest, small = torch.where(sound, rest, 0.0), torch.where(sound, small, 0.0)
    values, vectors = torch.linalg.eigh((small + small.mT) / 2)
    vectors = vectors.detach()  # their derivative is infinite where two values are equal
    largest = values.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    kept = values > cut * largest
    scale = torch.where(kept, values, 1.0).rsqrt() * kept
    return (rest.mT @ vectors) * scale.unsqueeze(-2)


def _model_minimum(domain: Domain, x: Tensor, ahead: Tensor, Z: Tensor, sigma: Tensor) -> Tensor:
    """argmin over v in the simplex of σ/2 |v − x − ahead|² + ½ |Zᵀ(v − x)|².

        v(w) = P(x + ahead − Zw/σ)   at the minimum over w of
        Φ(w) = ½|w|² − wᵀZᵀ(v − x) − σ/2 |v − x − ahead|²

    Φ is convex with gradient w − Zᵀ(v − x), piecewise linear in the K numbers w: Newton's method,
    its steps halved where Φ does not fall.
    """
    eye = torch.eye(Z.shape[-1], dtype=x.dtype, device=x.device)

    def look(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """v(w), the gradient `(*batch, K, 1)` and Φ `(*batch, 1, 1)`."""
        goal = x + ahead - (Z @ w).squeeze(-1) / sigma
        v = domain.project(finite_or(x, goal, x.ndim - 1))
        assert v is not None
        moved = Z.mT @ (v - x).unsqueeze(-1)
        away = sigma * (v - x - ahead).square().sum(-1, keepdim=True) / 2
        return v, w - moved, w.mT @ (w / 2 - moved) - away.unsqueeze(-1)

    w = x.new_zeros(*x.shape[:-1], Z.shape[-1], 1)
    v, gradient, value = look(w)
    for _ in range(NEWTON_STEPS):
        free = (v > 0).to(x.dtype).unsqueeze(-1)
        inside = free * Z
        centred = inside - free * inside.sum(-2, keepdim=True) / free.sum(-2, keepdim=True)
        newton = torch.linalg.solve(eye + inside.mT @ centred / sigma.unsqueeze(-1), gradient)
        promise = gradient.mT @ newton
        if bool((promise <= torch.finfo(x.dtype).eps * value.abs()).all()):
            break
        share = torch.ones_like(value)
        for _ in range(HALVINGS):
            trial = w - share * newton
            v, after, low = look(trial)
            fell = low <= value - 1e-4 * share * promise
            if bool(fell.all()):
                break
            share = torch.where(fell, share, share / 2)
        w, gradient, value = trial, after, low
    return v
