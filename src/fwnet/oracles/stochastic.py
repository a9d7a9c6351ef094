"""Stochastic: an averaged minibatch gradient."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.oracles.base import Linearization, Oracle, seed_of
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner


class StochasticState(NamedTuple):
    """The seed of step 0, step index and averaged gradient."""

    seed: int
    t: int = 0
    average: Tensor | None = None


@final
class Stochastic(Oracle):
    """Minibatch gradient, averaged so that its noise fades.

        d_t = (1 − ρ_t) d_{t−1} + ρ_t ∇f_batch(x_t),   ρ_t = 4 / (t + 8)^(2/3),   ρ_0 = 1

    Without the average, successive vertices cancel each other. The full image Ax is not kept.

    Arguments:
        batch_size: terms of the objective per step, drawn without replacement.
        generator: source of randomness; by default a new one with seed 0 for every solve.

    Example:
        >>> X = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        >>> problem = LogisticRegression(X, torch.where(X[:, 0] > 0, 1.0, -1.0))
        >>> solver = FrankWolfe(L2Ball(2.0), OpenLoop(), oracle=Stochastic(32), max_steps=200)
        >>> bool(solver(problem).value < 0.45)
        True

    Reference: Mokhtari, Hassani and Karbasi, Stochastic conditional gradient methods (2020).
    """

    reads_image = False

    def __init__(self, batch_size: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.batch_size = checks.at_least("Stochastic(batch_size=...)", batch_size, 1)
        self.generator = generator

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> StochasticState:
        terms = problem.terms()
        if terms is None:
            raise TypeError(
                f"{type(problem).__name__} is not a sum of terms that can be sampled; use "
                "FrankWolfe, or LeastSquares, LogisticRegression, SoftmaxRegression."
            )
        if self.batch_size > terms:
            raise ValueError(
                f"Stochastic(batch_size={self.batch_size}) exceeds the {terms} terms of f."
            )
        return StochasticState(seed_of(self.generator))

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        seed, t, before = state
        terms = problem.terms()
        assert terms is not None
        # A new generator for every step, so that a recomputed cell draws the same rows; on the
        # host, so that every device does.
        generator = torch.Generator().manual_seed(seed + t)
        rows = torch.randperm(terms, generator=generator)[: self.batch_size].to(it.x.device)
        sample = problem.minibatch(rows)
        value, gradient, _ = sample.first_order(sample.at(it.x))
        average = dense_gradient(gradient)
        if before is not None:
            average = torch.lerp(before, average, 4 / (t + 8) ** (2 / 3))
        vertex = domain.vertex(average)
        along = inner(average, it.x, problem.batch_dims)
        decrease = along - vertex.inner(average)
        lin = Linearization(value, average, along, vertex, decrease, exact=False)
        return lin, StochasticState(seed, t + 1, average)
