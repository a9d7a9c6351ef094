"""SoftTraceNorm: a softmax over the singular directions."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Cost, Domain, TraceNormBall
from fwnet.numerics import checks
from fwnet.numerics.tensors import dense_cost, expand
from fwnet.oracles.base import Answer, CostOracle
from fwnet.vertices import Dense, Vertex


@final
class SoftTraceNorm(CostOracle):
    """Soft oracle of the trace-norm ball, from the full SVD G = U diag(σ) Vᵀ of the gradient.

        S = −radius · U diag(softmax(β σ / σ₁)) Vᵀ

    ‖S‖_* = radius always. β → ∞ is the rank-1 oracle, β = 0 the (scaled) spectral one; between
    them all directions advance at once, which is far better for small matrices. The softmax is
    over the nonzero σ.

    Arguments:
        beta: sharpness, at least 0.

    Example:
        >>> goal = torch.diag(torch.tensor([1.0, 2.0]))
        >>> distance = Function(lambda X: ((X - goal) ** 2).sum())
        >>> solver = FrankWolfe(TraceNormBall(2.0), oracle=SoftTraceNorm(3.0), max_steps=50)
        >>> bool(torch.linalg.svdvals(solver(distance, torch.zeros(2, 2)).x).sum() <= 2.001)
        True
    """

    fits = (TraceNormBall,)

    def __init__(self, beta: float = 10.0) -> None:
        super().__init__()
        self.beta = checks.non_negative("SoftTraceNorm(beta=...)", beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"

    def begin(self, domain: Domain, x: Tensor) -> None:
        self.check_fits(domain)

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, TraceNormBall)
        u, sigma, vt = torch.linalg.svd(dense_cost(cost), full_matrices=False)
        return Answer(*soft_vertex(domain, u, sigma, vt, self.beta), state)


def soft_vertex(
    domain: TraceNormBall,
    u: Tensor,
    sigma: Tensor,
    vt: Tensor,
    beta: Tensor | float,  # (*batch,) or one number
) -> tuple[Vertex, Tensor]:
    """−radius · U diag(softmax(β σ / σ₁)) Vᵀ, and its inner product with the cost."""
    top = sigma[..., :1].clamp_min(torch.finfo(sigma.dtype).tiny)
    # A direction with σ = 0 has no sign, so it gets no weight.
    noise = max(u.shape[-2], vt.shape[-1]) * torch.finfo(sigma.dtype).eps * top
    unseen = sigma.detach() <= noise
    unseen[..., 0] = False
    scaled = expand(beta, 1) * sigma / top
    shares = torch.softmax(scaled.masked_fill(unseen, -torch.inf), -1)
    vertex = Dense(-domain.radius * (u * shares.unsqueeze(-2)) @ vt, 2)
    return vertex, -domain.radius * (shares * sigma).sum(-1)
