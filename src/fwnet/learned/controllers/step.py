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
from fwnet.learned.features import (
    NUMBERS,
    TENSORS,
    StepMemory,
    see_step,
    step_features,
)
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe
from fwnet.steps import StepRule
from fwnet.steps.base import is_plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets


# Before any training: c falls from b to a with γ_LS, in about thirty steps.
START = (0.0, 0.0, 8.0, 0.0, 0.0, 0.0, 5.0)
FORGETTING = 6.5  # horizons, and again of every decade beyond


@final
class LearnedStep(Controller, StepRule):
    """L2LC_γ made safe: a learned numerator, and the rate of Frank-Wolfe whatever it is.

        γ_t = min(1, c_t / (t + 1)),   c_t in [a, b],   1 < a <= b

    c_t = a + (b − a) σ(⟨θ, φ_t⟩ + θ₀) of scale-free features φ_t of the step (see
    `fwnet.learned.features`): seven weights. c = 1 is the plain average of all vertices; c = 2
    nearly the classic 2/(t + 2). No function value is needed, and no step is refused: good
    Frank-Wolfe steps are not monotone.

    **Beyond the horizon.** f(x_t) − min f has two parts: the unrest of the steps, about c² B/t²,
    and the weight of vertices that the first steps took by mistake, about A/t^c. A small c is
    better until the second part shows, which may be after the training's longest run. So from the
    horizon H on each decade of t/H has two phases: up to 6.5 H it forgets, with c = `forget`, and
    from there to 10 H the learned c averages. With `forget` = 3 old vertices fade faster than t^-2
    from decade to decade, as with the classic rule, whatever the weights; at the end of each the
    unrest is the smaller one.

    **Rate.** With h_t = f(x_t) − min f and the curvature constant C_f, every step obeys
    h_{t+1} <= (1 − γ_t) h_t + γ_t² C_f / 2. Then for every t >= 1

        h_t <= M / t,   M = b² C_f / (2 (a − 1)).

    Proof. Write τ = t + 1. Where c_t >= τ, γ_t = 1 and h_{t+1} <= C_f / 2 <= M / b <= M / τ, as
    τ <= b and b >= a − 1; at t = 0 this is always so, as c_0 > 1. Elsewhere t >= 1, and from
    h_t <= M / t = M / (τ − 1), by the choice of M,

        h_{t+1} <= (1 − a/τ) M / (τ − 1) + (a − 1) M / τ²
                <= ((τ − a) + (a − 1)) M / (τ(τ − 1)) = M / τ.

    Arguments:
        low: a, above 1.
        high: b.
        horizon: H, the longest run of the training.
        forget: c of the forgetting phases, in [a, b].

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> fwnet.FrankWolfe(fwnet.Simplex(), learned.LearnedStep(), tol=1e-2)(problem).status
        'converged'
    """

    reads_objective = True
    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)

    def __init__(
        self,
        low: float = 1.05,
        high: float = 3.0,
        horizon: int = 500,
        forget: float = 3.0,
    ) -> None:
        super().__init__(low=low, high=high, horizon=horizon, forget=forget)
        if not 1 < low <= forget <= high < math.inf:
            raise ValueError(
                "LearnedStep needs 1 < low <= forget <= high < inf; got "
                f"low={low!r}, forget={forget!r}, high={high!r}."
            )
        self.horizon = checks.at_least("LearnedStep(horizon=...)", horizon, 1)
        self.low, self.high, self.forget = float(low), float(high), float(forget)
        self.policy = nn.Parameter(torch.tensor(START))

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, self, **budgets)

    def init(self, problem: Problem, it: Iterate) -> StepMemory | None:
        self.check_weights()
        return None

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        xp = NUMBERS if is_plain(move.slope) else TENSORS
        seen = see_step(problem, it, move, state, xp)
        t = 0 if state is None else state.t
        top: Any = self.forget + 0 * seen.gap
        if not self.forgets(t):
            features = [*step_features(seen, state, xp), 1 + 0 * seen.gap]
            share = xp.sigmoid(xp.dot(features, self.policy))
            top = self.low + (self.high - self.low) * share
        step_size = xp.clip(top / (t + 1), 0.0, 1.0)
        taken = step_size.detach() if isinstance(step_size, Tensor) else step_size
        first = seen.gap if state is None else state.gap
        return step_size, StepMemory(t + 1, first, seen, taken, move.direction.detach())

    def forgets(self, t: int) -> bool:
        """Whether step t, counted from 0, is one of a forgetting phase."""
        age = (t + 1) / self.horizon
        while age > 10:
            age /= 10
        return 1 < age < FORGETTING
