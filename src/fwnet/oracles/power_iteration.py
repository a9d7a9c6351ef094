"""PowerIteration: the paper's recurrent oracle for the trace-norm ball."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Cost, Domain, TraceNormBall
from fwnet.numerics import checks
from fwnet.numerics.singular import power_iteration
from fwnet.oracles.base import Answer, CostOracle
from fwnet.vertices import Rank1


@final
class PowerIteration(CostOracle):
    """K power iterations for the top singular pair of the gradient G, a recurrent network.

        u <- G v / ‖G v‖,   v <- Gᵀu / ‖Gᵀu‖,   K times;   vertex = −radius · u vᵀ

    The vertex always lies on the sphere; with few iterations it is not the best one, and its
    decrease underestimates the gap.

    Arguments:
        steps: K.
        warm_start: start from the last step's v (one iteration is then often enough), else from
            the same random v every time.
        generator: source of the first v; by default a new one with seed 0 for every solve.

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), Fig. 5.
    """

    def __init__(
        self, steps: int = 5, warm_start: bool = True, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.steps = checks.at_least("PowerIteration(steps=...)", steps, 1)
        self.warm_start, self.generator = warm_start, generator

    def extra_repr(self) -> str:
        return f"steps={self.steps}, warm_start={self.warm_start}"

    def begin(self, domain: Domain, x: Tensor) -> Tensor:
        if not isinstance(domain, TraceNormBall):
            raise TypeError(
                f"PowerIteration supports only TraceNormBall; got {domain}. Use Exact()."
            )
        generator = self.generator
        if generator is None:
            generator = torch.Generator(device=x.device).manual_seed(0)
        shape = (*x.shape[:-2], x.shape[-1])
        v = torch.randn(shape, generator=generator, dtype=x.dtype, device=x.device)
        return v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, TraceNormBall)
        u, sigma, v = power_iteration(cost, state, self.steps)
        following = v if self.warm_start else state
        return Answer(Rank1(-domain.radius * u, v), -domain.radius * sigma, following)
