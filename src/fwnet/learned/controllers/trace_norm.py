"""LearnedTraceNorm: how sharp the soft oracle of the trace-norm ball is, step by step."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain, TraceNormBall
from fwnet.iterates import Iterate
from fwnet.learned.controllers.base import Controller
from fwnet.numerics import checks
from fwnet.oracles import Linearization, Oracle
from fwnet.oracles.soft_trace_norm import soft_vertex
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch

_LOW, _HIGH = 0.1, 100.0  # range of β: from all directions alike to the first alone


@final
class LearnedTraceNorm(Controller, Oracle):
    """The soft trace-norm oracle with a learned schedule of its sharpness.

        S = −radius · U diag(softmax(β_t σ / σ₁)) Vᵀ,   G = U diag(σ) Vᵀ,   β_t in [0.1, 100]

    β_t comes from a network that sees how fast σ falls, how far the gap has fallen, and log t. S
    lies on the ball whatever β is, and descends: its decrease is a weighted mean of the σ, so the
    line search that it is made for never raises f.

    Arguments:
        hidden: units of the network's layer.

    Example:
        >>> from fwnet import learned
        >>> problem = SoftmaxRegression(torch.eye(4), torch.tensor([0, 1, 2, 2]))
        >>> oracle = learned.LearnedTraceNorm()
        >>> solver = FrankWolfe(TraceNormBall(2.0), LineSearch(), oracle=oracle, max_steps=5)
        >>> result = solver(problem)
        >>> bool(torch.linalg.svdvals(result.x).sum() <= 2.001)
        True
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (TraceNormBall,)

    def __init__(self, hidden: int = 8) -> None:
        super().__init__(hidden=hidden)
        checks.at_least("hidden", hidden, 1)
        self.first = nn.Linear(4, hidden)
        self.head = nn.Linear(hidden, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # β = √(low · high), about 3

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return FrankWolfe(domain, LineSearch(), oracle=self, **budgets)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> tuple[int, Tensor | None]:
        self.check_domain(domain)
        return 0, None

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert isinstance(domain, TraceNormBall)
        t, first = state
        value, gradient, along = problem.first_order(it)
        u, sigma, vt = torch.linalg.svd(dense_gradient(gradient), full_matrices=False)
        gap = (along + domain.radius * sigma[..., 0]).detach()
        first = gap if first is None else first
        beta = self.sharpness(sigma.detach(), gap / first, t)
        vertex, inner = soft_vertex(domain, u, sigma, vt, beta)
        found = Linearization(value, gradient, along, vertex, along - inner, exact=False)
        return found, (t + 1, first)

    def sharpness(self, sigma: Tensor, fallen: Tensor, t: int) -> Tensor:  # (*batch,)
        """β from the spectrum `(*batch, k)`, gap over first gap `(*batch,)` and the index."""
        top = sigma[..., 0].clamp_min(torch.finfo(sigma.dtype).tiny)
        second = sigma[..., min(1, sigma.shape[-1] - 1)] / top
        spread = sigma.mean(-1) / top
        clock = torch.full_like(top, math.log(t + 1) / 4)
        decades = fallen.clamp(1e-9, 1e9).log() / 4
        features = torch.stack([second, spread, clock, decades], -1).to(self.head.weight.dtype)
        share = self.head(self.first(features).tanh()).squeeze(-1).sigmoid().to(sigma.dtype)
        return _LOW * (_HIGH / _LOW) ** share
