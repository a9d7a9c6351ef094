"""Softmin: the paper's neural oracle for the simplex."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.oracles.base import Linearization, Oracle
from fwnet.problems import Problem
from fwnet.vertices import Dense, Vertex


@final
class Softmin(Oracle):
    """Softmin over the simplex; β → ∞ is the exact oracle.

        s_i = radius · exp(−β_t g_i) / Σ_j exp(−β_t g_j),   β_t = β · (t + 1)^growth

    With `relative`, g is divided by |⟨g, x⟩| / radius first, so that β has no units: an SVM's
    gradients are small, and an absolute β of 10 barely prefers one vertex over another.

    Arguments:
        beta: sharpness, positive; `math.inf` gives the exact oracle.
        relative: measure the gradient in units of its own weighted mean.
        growth: exponent of the annealing: 0 keeps β constant, 1 lets it grow linearly in t.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> solver = FrankWolfe(Simplex(), oracle=Softmin(beta=10.0), max_steps=100)
        >>> bool(Simplex().contains(solver(problem).x))
        True

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), eq. 4.
    """

    fits = (Simplex,)

    def __init__(self, beta: float = 10.0, relative: bool = False, growth: float = 0.0) -> None:
        super().__init__()
        if beta != math.inf:
            checks.positive("Softmin(beta=...)", beta)
        checks.non_negative("Softmin(growth=...)", growth)
        self.beta, self.relative, self.growth = float(beta), relative, float(growth)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, relative={self.relative}, growth={self.growth}"

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> int:
        self.check_fits(domain)
        return 0

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert isinstance(domain, Simplex)
        value, gradient, along = problem.first_order(it)
        assert isinstance(gradient, Tensor)
        scale = along.abs() / domain.radius if self.relative else None
        vertex = self.ask(domain, gradient, scale, state)
        decrease = along - vertex.inner(gradient)
        return Linearization(value, gradient, along, vertex, decrease, exact=False), state + 1

    def ask(self, domain: Simplex, gradient: Tensor, scale: Tensor | None, t: int) -> Vertex:
        """The soft vertex for a gradient."""
        beta = self.beta * (t + 1) ** self.growth
        if math.isinf(beta):
            return domain.vertex(gradient)
        if scale is not None:
            tiny = torch.finfo(gradient.dtype).tiny
            least = gradient.detach().amin(-1, keepdim=True)  # changes nothing, and ∞ − ∞ is NaN
            gradient = (gradient - least) / scale.clamp_min(tiny).unsqueeze(-1)
        return Dense(domain.radius * torch.softmax(-beta * gradient, -1))
