"""LearnedLowRank: a learned momentum step for the trace-norm ball, inside a hull that is safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from fwnet.directions import Corrections, Proposal
from fwnet.directions.proposals import Candidates, finite_or
from fwnet.directions.singular_vertices import Spectrum, spectrum
from fwnet.domains import Domain, TraceNormBall
from fwnet.iterates import Iterate
from fwnet.learned.controllers.hull import HullDirection
from fwnet.numerics import checks
from fwnet.numerics.tensors import expand
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import inner

FEATURES = 5
_MOMENTUM = math.log(0.8 / 0.2)  # of the untrained policy, as a logit


@final
@dataclass(frozen=True, eq=False)
class MomentumState:
    """What a learned step remembers: where it was, the momentum, the length, the first gap."""

    x: Tensor
    momentum: Tensor
    length: Tensor  # (*batch,)
    gap: Tensor  # (*batch,)
    t: int


@final
class MomentumStep(Proposal):
    """A projected momentum step along the reshaped gradient; length, memory and shape learned.

        M_t = μ_t M_{t−1} − ℓ_t G_t,   G_t = U diag(σ₁ (σ/σ₁)^{p_t}) Vᵀ,   point = P(W + M_t)

    ∇f(W) = U diag(σ) Vᵀ: p = 1 is the gradient, p = 0 moves all singular directions alike. ℓ_t is a
    multiple of |G|² / ⟨G, ∇²f G⟩, which is known from the vertices' images. The log of the multiple
    and the logits of μ and p/2 are linear in dimensionless features: the length before, the gap
    since the start, log t, and how far the last step followed the momentum. Untrained, the multiple
    is 1, μ = 0.8 and p = 1.

    Arguments:
        count: singular directions, which are in the hull as vertices too.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = checks.at_least("LearnedLowRank(directions=...)", count, 1)
        self.policy = nn.Linear(FEATURES, 3, bias=False)
        nn.init.zeros_(self.policy.weight)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        assert isinstance(domain, TraceNormBall)
        b = problem.batch_dims
        found = spectrum(problem, domain, lin, self.count)
        cauchy = _length(problem, it, found, domain)
        features = self._features(it, lin, cauchy, state, b)
        out = self.policy(features.to(self.policy.weight.dtype)).to(it.x.dtype)
        grow, keep, power = out.clamp(-8.0, 8.0).unbind(-1)
        length = grow.exp() * cauchy
        top = found.sigma[..., :1].clamp_min(torch.finfo(it.x.dtype).tiny)
        shape = top * (found.sigma / top) ** (2 * power.sigmoid()).unsqueeze(-1)
        step = expand(length, 2) * ((found.u * shape.unsqueeze(-2)) @ found.vt)
        momentum = -step
        if state is not None:
            momentum = expand((keep + _MOMENTUM).sigmoid(), 2) * state.momentum - step
        momentum = finite_or(torch.zeros_like(momentum), momentum, b)
        ahead = domain.project(it.x + momentum)
        gap = lin.decrease.detach() if state is None else state.gap
        t = 0 if state is None else state.t + 1
        candidates = [Candidates(ahead.unsqueeze(b)), found.vertices]
        return candidates, MomentumState(it.x, momentum, length.detach(), gap, t)

    def _features(
        self,
        it: Iterate,
        lin: Linearization,
        cauchy: Tensor,
        last: MomentumState | None,
        b: int,
    ) -> Tensor:  # (*batch, FEATURES)
        """Dimensionless numbers, none far from 1."""
        one = torch.ones_like(cauchy)
        if last is None:
            parts = [one, 0 * one, 0 * one, 0 * one, one]
        else:
            tiny = torch.finfo(cauchy.dtype).tiny
            ratio = (last.length / cauchy).clamp(1e-4, 1e4).log()
            gap, first = lin.decrease.clamp_min(tiny), last.gap.clamp_min(tiny)
            fallen = (gap / first).clamp(1e-9, 1e9).log()
            size = inner(last.momentum, last.momentum, b).clamp_min(tiny)
            followed = (inner(it.x - last.x, last.momentum, b) / size).clamp(-2.0, 2.0)
            clock = math.log(last.t + 2) / 2
            parts = [one, ratio, fallen / 4, clock * one, followed]
        return torch.stack(parts, -1).detach()


@final
class LearnedLowRank(HullDirection):
    """A learned optimizer over low-rank matrices: the best point of a hull around a learned step.

        y = argmin of f over conv{W, s, P(W + M), −radius u_i v_iᵀ, p_1, …, p_memory}

    s is the oracle's vertex, P(W + M) the learned momentum step of `MomentumStep`, u_i v_iᵀ the
    singular directions of the gradient, p_k recent points. Every point of the hull is in the
    ball, whatever the weights are; and since the search over the hull starts from the line search
    toward s and never raises f, f(y) is at most what Frank-Wolfe's line search reaches.

    For matrices with a short side, such as those of softmax regression with ten classes: each step
    decomposes d × m matrices in full, and costs three passes over the data, the gradient, the
    singular directions and the learned point.

    Arguments:
        directions: how many singular directions are in the hull.
        memory: how many recent points.
        rounds: Newton steps over the hull, see `Corrections`.

    Example:
        >>> from fwnet import learned
        >>> X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
        >>> problem = fwnet.SoftmaxRegression(X, X[:, :3].argmax(1))
        >>> learned.LearnedLowRank().solver(fwnet.TraceNormBall(5.0), tol=1e-4)(problem).status
        'converged'

    Reference: Polyak (1964) for the momentum; Carlson et al. (2015) for steps along the reshaped
    spectrum.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (TraceNormBall,)

    def __init__(self, directions: int = 10, memory: int = 4, rounds: int = 1) -> None:
        super().__init__(directions=directions, memory=memory, rounds=rounds)
        checks.at_least("LearnedLowRank(rounds=...)", rounds, 1)
        self.hull = Corrections(memory, [MomentumStep(directions)], rounds)


def _length(problem: Problem, it: Iterate, found: Spectrum, domain: TraceNormBall) -> Tensor:
    """|G|² / ⟨G, ∇²f G⟩ for the gradient G, from the images of its singular directions."""
    b = problem.batch_dims
    weights = (-found.sigma / domain.radius).unsqueeze(-2)  # G = Σ σ_i u_i v_iᵀ
    vertices, images = found.vertices.points, found.vertices.images
    assert images is not None
    direction = (weights @ vertices.flatten(b + 1)).reshape(it.x.unsqueeze(b).shape)
    image = (weights @ images.flatten(b + 1)).reshape(*it.x.shape[:b], 1, *images.shape[b + 1 :])
    curvature = problem.gram(it, direction, image).squeeze(-1).squeeze(-1)
    tiny = torch.finfo(curvature.dtype).tiny
    # f that does not curve along G is linear there: the far end of the ball is near enough.
    far = domain.radius / found.sigma[..., 0].clamp_min(tiny)
    return torch.minimum(found.sigma.square().sum(-1) / curvature.clamp_min(tiny), 1e3 * far)
