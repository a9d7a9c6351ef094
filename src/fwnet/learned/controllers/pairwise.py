"""LearnedPairwise: over-relaxed pairwise steps, steered by a policy of five numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.learned.features import NUMBERS, TENSORS
from fwnet.numerics.tensors import is_plain
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe
from fwnet.steps import StepRule

FEATURES = 5


class _Averages(NamedTuple):
    """Running means over about ten steps, `(*batch,)` each, or plain numbers."""

    ended: Any  # share of the steps that ended at γ_max
    curvature: Any  # log10 of curvature / f
    slope: Any  # log10 of slope / f


@final
class LearnedPairwise(Controller, StepRule):
    """Pairwise steps with second-order partners, and a learned multiple of the line search.

        γ = ω_t γ_LS,   ω_t = 2σ(⟨θ, φ_t⟩) in [0.05, 1.95]

    φ: 1, f's curvature along the steps, how steep they are, how many ended at γ_max, and how
    much room this one has. Every ω in (0, 2) decreases f, by ω(2 − ω) of what the line search
    gains: no weights make it rise. Untrained, the line search itself. Needs a quadratic problem.

    Arguments:
        second_order: choose the partner by its own line search, as SMO does.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> learned.LearnedPairwise().solver(fwnet.Simplex())(problem).status
        'converged'
    """

    reads_objective = True
    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)

    def __init__(self, second_order: bool = True) -> None:
        super().__init__(second_order=second_order)
        self.second_order = second_order
        self.policy = nn.Parameter(torch.zeros(FEATURES))

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return PairwiseFrankWolfe(domain, self, second_order=self.second_order, **budgets)

    def init(self, problem: Problem, it: Iterate) -> Any:
        self.check_weights()
        if not problem.quadratic:
            raise TypeError(
                f"LearnedPairwise needs a quadratic problem; {type(problem).__name__} is not. "
                "Use PairwiseFrankWolfe."
            )
        return None

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        curvature = problem.curvature(it, move)
        assert curvature is not None
        tiny = torch.finfo(curvature.dtype).tiny
        seen: list[Any] = [curvature, move.slope, move.value, move.max_step]
        if is_plain(curvature):
            xp, seen = NUMBERS, [float(v) for v in seen]
        else:
            seen[3] = torch.as_tensor(seen[3]).to(curvature).expand_as(curvature)
            xp, seen = TENSORS, [v.detach() for v in seen]
        slope = -seen[1]
        curvature, value, limit = (
            xp.clip(v, tiny, math.inf) for v in (seen[0], abs(seen[2]), seen[3])
        )
        best = slope / curvature
        curved = xp.log10(xp.clip(curvature / value, 1e-3, 1e6))
        steep = xp.log10(xp.clip(slope / value, 1e-8, 1e4))
        mean = _Averages(0 * curved, curved, steep) if state is None else state
        room = xp.log10(xp.clip(best / limit, 1e-4, 1e2))
        features = [1 + 0 * curved, mean.curvature - 2, mean.slope / 2 + 1, mean.ended, room]
        omega = xp.clip(2 * xp.sigmoid(xp.dot(features, self.policy)), 0.05, 1.95)
        step_size = omega * best
        ended = 1.0 * (step_size >= seen[3])
        ended = ended.detach() if isinstance(ended, Tensor) else ended
        new = zip(mean, (ended, curved, steep), strict=True)
        return step_size, _Averages(*(0.9 * old + 0.1 * now for old, now in new))
