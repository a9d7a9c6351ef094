"""LearnedStart: where to begin, for problems like those solved before."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch
from torch import Tensor, nn

from fwnet import checks
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move, Term
from fwnet.learned.controllers.base import Controller
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe
from fwnet.starts import Start
from fwnet.steps import LineSearch, bounded
from fwnet.vertices import Dense

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets

POINT_FEATURES = 8


@final
class LearnedStart(Controller, Start):
    """A start on the simplex from a guess, corrected by one small network for all coordinates.

        p = normalise(max(0, y_i exp(a_i) + b_i / n)),   (a_i, b_i) = network(φ_i(y, ∇f(y)))
        y <- argmin of f over the segment [y, p]

    a few rounds, one product with the matrix each; the first y is the guess: the solution of a
    neighbour (the last C of a path, the same points in other pairs of classes), or the
    barycentre. φ are scale-free features of a coordinate. Whatever the weights, the start is a
    point of the simplex, and on a quadratic not above the guess. Untrained, the guess itself.

    Arguments:
        hidden: units of the network's two layers.
        rounds: corrections.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> guess = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0])
        >>> start = learned.LearnedStart().near(guess)
        >>> fwnet.PairwiseFrankWolfe(fwnet.Simplex(), start=start)(problem).status
        'converged'
    """

    def __init__(self, hidden: int = 24, rounds: int = 5) -> None:
        checks.at_least("LearnedStart(hidden=...)", hidden, 1)
        super().__init__(hidden=hidden, rounds=checks.at_least("LearnedStart(rounds)", rounds, 0))
        self.rounds = rounds
        self.search = LineSearch()
        self.first = nn.Linear(POINT_FEATURES, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        budgets.setdefault("start", self)
        return PairwiseFrankWolfe(domain, second_order=True, **budgets)

    def near(self, guess: Tensor) -> Start:
        """The same start from a guess, a point of the simplex `(*batch, n)`."""
        return _Near(self, checks.real_tensor("LearnedStart.near(guess)", guess))

    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        assert problem.shape is not None
        guess = domain.start(tuple(problem.shape), problem.dtype, problem.device)
        return self.correct(problem, domain, guess)[-1]

    def correct(self, problem: Problem, domain: Domain, guess: Tensor) -> list[Tensor]:
        """The guess and the points after each round, `(*batch, n)`."""
        self.check_domain(domain)
        it = problem.at(problem.check_point("guess", guess))
        points = [guess]
        for _ in range(self.rounds):
            it = self.toward(problem, it, self.propose(problem, it))
            points.append(it.x)
        return points

    def propose(self, problem: Problem, it: Iterate) -> Tensor:
        """p, a point of the simplex whatever the weights."""
        x, total = it.x, it.x.sum(-1, keepdim=True)  # the radius
        gradient = dense_gradient(problem.gradient(it))
        features = point_features(x / total, gradient).to(self.head.weight.dtype)
        hidden = self.second(self.first(features).relu()).relu()
        grow, add = self.head(hidden).to(x.dtype).unbind(-1)
        p = (x * grow.clamp(-3.0, 3.0).exp() + total * add / x.shape[-1]).clamp_min(0.0)
        # All coordinates gone (wild weights): stay.
        lost = p.sum(-1, keepdim=True) <= torch.finfo(p.dtype).eps * total
        p = torch.where(lost, x, p)
        return total * p / p.sum(-1, keepdim=True)

    def toward(self, problem: Problem, it: Iterate, p: Tensor) -> Iterate:
        """The minimum on the way to p, with its image."""
        term = Term(1.0, Dense(p), problem.image(p))
        gradient = dense_gradient(problem.gradient(it))
        slope = torch.linalg.vecdot(gradient, p - it.x)
        move = Move(it, -1.0, (term,), problem.value(it), slope)
        step_size, _ = self.search(problem, it, move, None)
        return move.trial(bounded(step_size, move))


@final
class _Near(Start):
    """A learned start that begins at a guess."""

    def __init__(self, start: LearnedStart, guess: Tensor) -> None:
        super().__init__()
        self.learned, self.guess = start, guess

    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        return self.learned.correct(problem, domain, self.guess)[-1]


@torch.no_grad()
def point_features(x: Tensor, gradient: Tensor) -> Tensor:  # (*batch, n, POINT_FEATURES)
    """Each coordinate's surplus ⟨∇f, x⟩ − ∇f_i at three scales, n x_i at three, and two of all.

    The scales of the surplus: its spread over x, the level ⟨∇f, x⟩, a tenth of it.
    """
    n, tiny = x.shape[-1], torch.finfo(x.dtype).tiny
    level = (x * gradient).sum(-1, keepdim=True)
    surplus = (level - gradient) / level.abs().clamp_min(tiny)
    spread = (x * surplus.square()).sum(-1, keepdim=True).sqrt().clamp_min(1e-9)
    used = 1 / (n * x.square().sum(-1, keepdim=True))
    numbers = [
        torch.asinh(surplus / spread),
        torch.asinh(surplus),
        torch.asinh(10 * surplus),
        torch.asinh(n * x),
        (n * x + 0.01).log() / 3,
        (x > 0).to(x.dtype),
        used.log().expand_as(x),
        spread.log().expand_as(x) / 3,
    ]
    return torch.stack(numbers, -1)
