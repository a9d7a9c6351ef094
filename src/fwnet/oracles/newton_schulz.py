"""NewtonSchulz: all singular directions with the same weight, by matrix products only."""

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
    """Approximate polar factor of the gradient G = U S Vᵀ, guaranteed to lie in the ball.

        spectral ball:    −radius · U Vᵀ
        trace-norm ball:  −radius / min(d, m) · U Vᵀ

    Three products per step, no decomposition. The vertex is divided by the largest value that the
    polynomials can take, so it lies in the ball; see `orthogonalize`.

    Arguments:
        steps: if all singular values exceed a hundredth of the largest, four steps give at least
            97 % of the best ⟨G, vertex⟩ and five give all of it.

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
                "NewtonSchulz supports only SpectralBall and TraceNormBall; "
                f"got {domain}. Use Exact()."
            )

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, SpectralBall | TraceNormBall)
        cost = dense_cost(cost)
        share = 1 if isinstance(domain, SpectralBall) else min(cost.shape[-2:])
        vertex = Dense(orthogonalize(cost, self.steps).mul_(-domain.radius / share), 2)
        return Answer(vertex, vertex.inner(cost), state)
