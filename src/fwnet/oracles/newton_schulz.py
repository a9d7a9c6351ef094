"""NewtonSchulz: every singular direction alike, by products of matrices alone."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor

from fwnet.domains import Cost, Domain, SpectralBall, TraceNormBall
from fwnet.numerics import checks
from fwnet.numerics.polar import orthogonalize
from fwnet.numerics.tensors import dense_cost
from fwnet.oracles.base import Answer, CostOracle
from fwnet.vertices import Dense


@final
class NewtonSchulz(CostOracle):
    """Nearly the polar factor of the gradient G = U S Vᵀ, in the ball by a bound, not by luck.

        spectral ball:    −radius · U Vᵀ
        trace-norm ball:  −radius / min(d, m) · U Vᵀ

    Three products a step, no decomposition. The answer lies in the ball: its spectral norm is
    divided by the largest value that the polynomials can take; see `orthogonalize`.

    Arguments:
        steps: four give 97 % of the best ⟨G, vertex⟩ or more, five all of it, for singular values
            above a hundredth of the largest.

    Reference: Amsel et al., The Polar Express (2025).
    """

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.steps = checks.at_least("NewtonSchulz(steps=...)", steps, 1)

    def extra_repr(self) -> str:
        return f"steps={self.steps}"

    def begin(self, domain: Domain, x: Tensor) -> None:
        if not isinstance(domain, SpectralBall | TraceNormBall):
            raise TypeError(
                "NewtonSchulz answers for SpectralBall and TraceNormBall only; "
                f"got {domain}. Use Exact()."
            )

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, SpectralBall | TraceNormBall)
        cost = dense_cost(cost)
        share = 1 if isinstance(domain, SpectralBall) else min(cost.shape[-2:])
        vertex = Dense(orthogonalize(cost, self.steps).mul_(-domain.radius / share), 2)
        return Answer(vertex, vertex.inner(cost), state)
