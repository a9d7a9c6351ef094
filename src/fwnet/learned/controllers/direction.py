"""LearnedDirection: a network proposes a point, an exact search over a hull keeps it honest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import Tensor, nn

from fwnet import checks
from fwnet.directions import Corrections, Direction, ProjectedStep, Proposal
from fwnet.directions.proposals import LastStep, next_step
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.learned.features import (
    COORDINATE_FEATURES,
    PROBLEM_FEATURES,
    CoordinateView,
    coordinate_view,
    softsign,
)
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets

_REACH = 0.95  # multipliers of the step lie in [1/39, 39]


@final
class LearnedPoint(Proposal):
    """A projected gradient step with a learned length and momentum for each coordinate.

        p = P(x + m_i η (⟨∇f, x⟩ − ∇f_i) + b_i Δx_i),   m_i in [1/39, 39],   b_i in [−1, 1]

    with Barzilai and Borwein's η. A small network sees one coordinate at a time (see
    `fwnet.learned.features`); untrained, m = 1 and b = 0: the hand-designed step.

    Arguments:
        hidden: units of its two layers.
    """

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        checks.at_least("hidden", hidden, 1)
        self.first = nn.Linear(COORDINATE_FEATURES, hidden)
        self.context = nn.Linear(PROBLEM_FEATURES, hidden, bias=False)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Tensor | None, Any]:
        last: LastStep | None = state
        now = next_step(problem, it, lin, last)
        view = coordinate_view(it, lin, now.gradient.detach(), last, now.length.detach())
        answer = self.network(view)
        grow, momentum = answer.unbind(-2)
        bounded = _REACH * softsign(grow)
        multiple = (1 + bounded) / (1 - bounded)
        ahead = it.x + multiple * view.ahead + softsign(momentum) * view.step
        return domain.project(ahead), now

    def network(self, view: CoordinateView) -> Tensor:  # (*batch, 2, n)
        """The network's two answers for each coordinate."""
        dtype = self.head.weight.dtype
        context = self.context(view.problem.to(dtype)) + self.first.bias
        out = self.first.weight @ view.coordinates.to(dtype) + context.unsqueeze(-1)
        out = self.second.weight @ out.relu() + self.second.bias.unsqueeze(-1)
        out = self.head.weight @ out.relu() + self.head.bias.unsqueeze(-1)
        return out.to(view.ahead.dtype)


@final
class LearnedDirection(Controller, Direction):
    """L2LC_∇ made safe: the best point of a hull that a learned point is in.

        d = y − x,   y = argmin of f over conv{x, s, p_θ [, P(x − η∇f)] [, recent points]}

    **Feasible**: p_θ is projected onto the simplex whatever the network answers, every recent
    point was such a point, and y is a convex combination of points of the simplex.

    **Never worse than the step it contains**: on a quadratic the search is exact, and the
    segment [x, s] lies in the hull, so

        f(y) = min over the hull of f <= min over γ in [0, 1] of f(x + γ(s − x)),

    the exact line search of Frank-Wolfe, at every step and for every weight that is a number.
    With `projected`, likewise never worse than the line search along the projected
    Barzilai-Borwein step. Hence f decreases monotonically, and the rate is Frank-Wolfe's at
    least: h_t <= 2 C_f / (t + 2).

    Arguments:
        hidden: units of the network's two layers.
        memory: how many recent points stay in the hull.
        projected: add the hand-designed projected step as one more point (one more product with
            the matrix a step).

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> solver = fwnet.FrankWolfe(fwnet.Simplex(), direction=learned.LearnedDirection())
        >>> solver(problem).status
        'converged'
    """

    line_search = True

    def __init__(self, hidden: int = 16, memory: int = 0, projected: bool = False) -> None:
        super().__init__(hidden=hidden, memory=memory, projected=projected)
        others = [ProjectedStep()] if projected else []
        self.hull = Corrections(memory, [LearnedPoint(hidden), *others])

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, direction=self, **budgets)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        return self.hull.init(problem, domain, it)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        move: Move
        move, state = self.hull(problem, it, lin, state)
        return move, state
