"""Lazy: reuse a cached vertex while it is good enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.oracles.base import Linearization, Oracle
from fwnet.problems import Problem
from fwnet.vertices import Vertex


@final
@dataclass(frozen=True, eq=False)
class LazyState:
    """Cached vertices `(*batch, K)`, and the decrease Φ that one of them must promise."""

    cache: Vertex | None = None
    target: Tensor | None = None


@final
class Lazy(Oracle):
    """A cached vertex if it promises enough, else the linear minimisation oracle.

        take a cached v with ⟨∇f(x), x − v⟩ >= Φ;   otherwise ask, and Φ <- min(Φ, gap/2)

    Every oracle call yields the true gap; steps on cached vertices leave it unknown.

    Arguments:
        memory: how many vertices are kept; the oldest is dropped first.

    Example:
        >>> A = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
        >>> problem = LeastSquares(A, torch.ones(20))
        >>> FrankWolfe(L1Ball(1.0), LineSearch(), oracle=Lazy(), tol=1e-2)(problem).status
        'converged'

    Reference: Braun, Pokutta and Zink, Lazifying conditional gradient algorithms (2017).
    """

    certifies = True  # no cached vertex can promise Φ once the gap is below it

    def __init__(self, memory: int = 1000) -> None:
        super().__init__()
        self.memory = checks.at_least("Lazy(memory=...)", memory, 1)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> LazyState:
        return LazyState()

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        value, gradient, along = problem.first_order(it)
        if state.cache is not None:
            costs, slots = state.cache.inner(gradient).min(-1)
            decrease = along - costs
            if bool((decrease >= state.target).all()):
                vertex = state.cache.select(slots)
                return Linearization(value, gradient, along, vertex, decrease, exact=False), state
        vertex = domain.vertex(gradient)
        decrease = along - vertex.inner(gradient)
        target = 0.5 * decrease
        if state.target is not None:
            target = torch.minimum(target, state.target)
        state = LazyState(self._remember(state.cache, vertex), target)
        return Linearization(value, gradient, along, vertex, decrease, exact=True), state

    def _remember(self, cache: Vertex | None, vertex: Vertex) -> Vertex:
        fresh = vertex.as_atoms()
        if cache is None:
            return fresh

        def joined(old: Tensor, dims: int, new: Tensor) -> Tensor:
            axis = old.ndim - dims - 1
            keep = min(self.memory - 1, old.shape[axis])
            return torch.cat([old.narrow(axis, old.shape[axis] - keep, keep), new], axis)

        return cache.each(joined, fresh)
