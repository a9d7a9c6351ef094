"""LearnedStep: a learned step size toward the points of the classic path."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from fwnet.directions import Averaging
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.learned.features import NUMBERS, TENSORS
from fwnet.numerics.tensors import is_plain
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe
from fwnet.steps import StepRule

START = (-1.4, 0.0)  # c = 3.2 at every step
_FEWEST, _MOST = 0.5, 32.0  # where the second feature is cut off


@final
class LearnedStep(Controller, StepRule):
    """L2LC_γ made safe: a learned step size toward the points of the classic path.

        x_{t+1} = x_t + γ_t (z_{t+1} − x_t),   γ_t = min(1, c_t / (t + 1)),   c_t in [a, b]

    z is the path of Frank-Wolfe with 2/(t + 2), see `fwnet.Averaging`; x is an average of it, and
    c_t says how fast old points fade:

        c_t = a + (b − a) σ(θ₀ + θ₁ log(γ_LS (t + 1) / 4))

    with γ_LS, the step that a line search would take; 4/(t + 1) where the curvature is not known.
    Two learned, dimensionless numbers. Most of the gain comes from the average, with any c near 3.

    **Never behind 2/(t + 2).** Where f(x_t + γ_t d) > f(x_t + d), d = z_{t+1} − x_t, the step goes
    all the way: γ = 1, x_{t+1} = z_{t+1}. So at every step and for every weight that is a number

        f(x_t) <= f(z_t),   hence   f(x_t) − min f <= 2 C_f / (t + 2),

    the rate of the classic rule, within its horizon and beyond: z does not depend on the weights.
    On a quadratic both values are known from slope and curvature; elsewhere f is evaluated twice,
    from images.

    Arguments:
        low: a, above 0.
        high: b.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> learned.LearnedStep().solver(fwnet.Simplex(), tol=1e-2)(problem).status
        'converged'
    """

    reads_objective = True
    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)

    def __init__(self, low: float = 1.5, high: float = 10.0) -> None:
        super().__init__(low=low, high=high)
        if not 0 < low <= high < math.inf:
            raise ValueError(
                f"LearnedStep needs 0 < low <= high < inf; got low={low!r}, high={high!r}."
            )
        self.low, self.high = float(low), float(high)
        self.policy = nn.Parameter(torch.tensor(START))

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return FrankWolfe(domain, self, direction=Averaging(), **budgets)

    def init(self, problem: Problem, it: Iterate) -> int:
        self.check_weights()
        return 0

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        xp = NUMBERS if is_plain(move.slope) else TENSORS
        curvature = problem.curvature(it, move)
        seen: Any = [move.slope, torch.ones_like(move.slope) if curvature is None else curvature]
        slope, curve = (v.item() if xp is NUMBERS else v.detach() for v in seen)
        tiny = torch.finfo(it.x.dtype).tiny
        wanted = 4.0 + 0 * slope
        if curvature is not None:
            wanted = xp.clip(-slope / xp.clip(curve, tiny, math.inf) * (state + 1), _FEWEST, _MOST)
        features = [1 + 0 * slope, xp.log(wanted / 4)]
        top = self.low + (self.high - self.low) * xp.sigmoid(xp.dot(features, self.policy))
        step_size = xp.clip(top / (state + 1), 0.0, 1.0)
        return self._guarded(problem, move, step_size, slope, curve), state + 1

    def _guarded(
        self, problem: Problem, move: Move, step_size: Any, slope: Any, curve: Any
    ) -> Tensor | float:
        """γ, or 1 where f is smaller there."""
        if problem.quadratic:
            behind = step_size * (slope + step_size * curve / 2) > slope + curve / 2
        else:
            trial = torch.as_tensor(step_size).to(move.slope)
            end = torch.ones_like(move.slope)
            behind = problem.value(move.trial(trial)) > problem.value(move.trial(end))
        if isinstance(step_size, Tensor):
            return torch.where(behind, 1.0, step_size)
        return 1.0 if behind else step_size
