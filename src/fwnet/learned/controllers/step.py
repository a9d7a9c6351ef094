"""LearnedStep: a step size that is learned within a guarantee."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, final

import torch
from torch import Tensor, nn

from fwnet import checks
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.learned.features import STEP_FEATURES, StepMemory, step_features
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe
from fwnet.steps import StepRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets


@final
class StepNetwork(nn.Module):
    """A number in (0, 1) from the features of a step, `start` before any training."""

    def __init__(self, hidden: int, start: float) -> None:
        super().__init__()
        checks.at_least("hidden", hidden, 1)
        self.first = nn.Linear(STEP_FEATURES, hidden)
        self.head = nn.Linear(hidden, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, math.log(start / (1 - start)))

    def forward(self, features: Tensor) -> Tensor:  # (*batch, features) -> (*batch,)
        out = self.first(features.to(self.head.weight.dtype)).tanh()
        share: Tensor = self.head(out).squeeze(-1).sigmoid()
        return share.to(features.dtype)


@final
class LearnedStep(Controller, StepRule):
    """L2LC_γ made safe: a learned numerator, and the rate of Frank-Wolfe whatever it is.

        γ_t = min(1, c_t / (t + 1)),   c_t in [a, b],   1 < a <= b

    c_t comes from a network that sees scale-free features of the step. c = 1 is the plain average
    of all vertices, the start forgotten; c = 2 nearly the classic 2/(t + 2). No function value is
    needed, and no step is refused: good Frank-Wolfe steps are not monotone.

    **Rate.** With h_t = f(x_t) − min f and the curvature constant C_f, every step obeys
    h_{t+1} <= (1 − γ_t) h_t + γ_t² C_f / 2. Then for every t >= 1

        h_t <= M / t,   M = b² C_f / (2 (a − 1)).

    Proof. Write τ = t + 1. Where c_t >= τ, γ_t = 1 and h_{t+1} <= C_f / 2 <= M / b <= M / τ, as
    τ <= b and b >= a − 1; at t = 0 this is always so, as c_0 > 1. Elsewhere t >= 1, and from
    h_t <= M / t = M / (τ − 1), by the choice of M,

        h_{t+1} <= (1 − a/τ) M / (τ − 1) + (a − 1) M / τ²
                <= ((τ − a) + (a − 1)) M / (τ(τ − 1)) = M / τ.

    Arguments:
        hidden: units of the network's layer.
        low: a, above 1.
        high: b.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> fwnet.FrankWolfe(fwnet.Simplex(), learned.LearnedStep(), tol=1e-2)(problem).status
        'converged'
    """

    reads_objective = True
    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)

    def __init__(self, hidden: int = 12, low: float = 1.02, high: float = 3.0) -> None:
        super().__init__(hidden=hidden, low=low, high=high)
        if not 1 < low <= high < math.inf:
            raise ValueError(
                f"LearnedStep needs 1 < low <= high < inf; got low={low!r}, high={high!r}."
            )
        self.low, self.high = float(low), float(high)
        self.network = StepNetwork(hidden, 0.04)

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, self, **budgets)

    def init(self, problem: Problem, it: Iterate) -> StepMemory | None:
        self.check_weights()
        return None

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        features = step_features(problem, it, move, state)
        top = self.low + (self.high - self.low) * self.network(features)
        t = 0 if state is None else state.t
        step_size = (top / (t + 1)).clamp_max(1.0)
        return step_size, remember(move, state, step_size)


def remember(move: Move, memory: StepMemory | None, step_size: Tensor) -> StepMemory:
    """What the next step's features compare with."""
    gap = (-move.slope.detach()).clamp_min(torch.finfo(move.slope.dtype).tiny)
    first = gap if memory is None else memory.gap
    t = 1 if memory is None else memory.t + 1
    return StepMemory(t, first, gap, step_size.detach(), move.direction.detach())
