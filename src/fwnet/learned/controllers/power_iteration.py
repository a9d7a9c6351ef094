"""LearnedPowerIteration: an adapted power iteration, nine learned numbers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import Cost, Domain, TraceNormBall
from fwnet.learned.controllers.base import Controller
from fwnet.numerics import checks
from fwnet.numerics.lanczos import Products, SingularPair
from fwnet.numerics.tensors import norm, picked, unit
from fwnet.oracles import PowerIteration
from fwnet.oracles.base import Answer, CostOracle
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch
from fwnet.vertices import Rank1


class WarmStart(NamedTuple):
    """The right vectors `(*batch, m)` of the last two answers."""

    last: Tensor
    before: Tensor


@final
class LearnedPowerIteration(Controller, CostOracle):
    """Power iteration with a learned shift and a learned momentum: K steps, 2 K products.

        y = GᵀG v_k / λ,   v_{k+1} ∝ y − s_k v_k − b_k v_{k−1},   λ = |G v_k|²
        vertex = −radius · u vᵀ

    Shift s_k and momentum b_k are linear in 1, the logarithm of the residual |y − v_k|, how much it
    fell in the last step and the share of steps that is left; all are dimensionless. Untrained,
    both are 0: the plain power iteration. The next solver step starts from v + a (v − v before), a
    learned too.

    The answer is a vertex of the ball whatever the weights are, and the best vector that was
    visited, the first included, so that a warm start never gets worse. A Krylov method (Lanczos)
    with as many products finds the *best* polynomial for its matrix, so it is at least as good
    from the same start; it keeps K vectors where this keeps two, and is no recurrent network.

    Arguments:
        steps: K.

    Example:
        >>> from fwnet import learned
        >>> problem = SoftmaxRegression(torch.eye(4), torch.tensor([0, 1, 2, 2]))
        >>> oracle = learned.LearnedPowerIteration(steps=3)
        >>> solver = FrankWolfe(TraceNormBall(2.0), LineSearch(), oracle=oracle, max_steps=5)
        >>> result = solver(problem)
        >>> bool(torch.linalg.svdvals(result.x).sum() <= 2.001)
        True

    Reference: De Sa et al., Accelerated stochastic power iteration (2018), for the momentum.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (TraceNormBall,)

    def __init__(self, steps: int = 5) -> None:
        super().__init__(steps=steps)
        self.steps = checks.at_least("LearnedPowerIteration(steps=...)", steps, 1)
        self.policy = nn.Linear(4, 2, bias=False)
        nn.init.zeros_(self.policy.weight)
        self.ahead = nn.Parameter(torch.zeros(()))

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return FrankWolfe(domain, LineSearch(), oracle=self, **budgets)

    def begin(self, domain: Domain, x: Tensor) -> WarmStart:
        self.check_domain(domain)
        v = PowerIteration().begin(domain, x)
        assert isinstance(v, Tensor)  # only growing steps and random starts keep a count too
        return WarmStart(v, v)

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, TraceNormBall)
        last, before = state
        # v and −v are the same direction: the one before must not point back.
        before = torch.where((last * before).sum(-1, keepdim=True) < 0, -before, before)
        start = last + self.ahead.to(last.dtype).clamp(-1.0, 1.0) * (last - before)
        u, sigma, v = self.pair(cost, start)
        vertex = Rank1(-domain.radius * u, v)
        return Answer(vertex, -domain.radius * sigma, WarmStart(v, last))

    def pair(self, matrix: Cost, v: Tensor) -> SingularPair:
        """The best of the vectors visited from v `(*batch, m)`; sigma is at most the largest."""
        products = Products(matrix)
        v, before, far = unit(v), torch.zeros_like(v), None
        image = products.matvec(v)
        best = SingularPair(unit(image), norm(image), v)
        for left in range(self.steps - 1, 0, -1):
            back = products.rmatvec(unit(image))
            tiny = torch.finfo(v.dtype).tiny
            y = back / norm(image).clamp_min(tiny).unsqueeze(-1)  # GᵀG v / λ
            residual = norm((y - v).detach()).clamp(1e-7, 1e7).log() / 4
            fallen = torch.zeros_like(residual) if far is None else residual - far
            shares = torch.full_like(residual, left / self.steps)
            ahead = self._ahead(y, v, before, torch.stack([residual, fallen, shares], -1))
            v, before, far = ahead, v, residual
            image = products.matvec(v)
            best = _better(best, SingularPair(unit(image), norm(image), v))
        u = unit(image)
        back = products.rmatvec(u)
        return _better(best, SingularPair(u, norm(back), unit(back)))

    def _ahead(self, y: Tensor, v: Tensor, before: Tensor, features: Tensor) -> Tensor:
        features = torch.nn.functional.pad(features, (1, 0), value=1.0)
        out = self.policy(features.to(self.policy.weight.dtype)).to(v.dtype).clamp(-2.0, 2.0)
        ahead = y - out[..., :1] * v - out[..., 1:] * before
        return unit(torch.where(norm(ahead).unsqueeze(-1) > 0, ahead, v))


def _better(one: SingularPair, other: SingularPair) -> SingularPair:
    """The pair with the larger sigma, of each matrix; the newer one where they are equal."""
    return picked(other.sigma >= one.sigma, other, one)
