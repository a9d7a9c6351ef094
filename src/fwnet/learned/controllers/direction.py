"""LearnedDirection: a network proposes a point, an exact search over a hull makes it safe."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.directions import Corrections, ProjectedStep, Proposal
from fwnet.directions.proposals import Candidates, LastStep, exchanges, finite_or, next_step
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate
from fwnet.learned.controllers.hull import HullDirection, is_single
from fwnet.learned.features import (
    COORDINATE_FEATURES,
    PROBLEM_FEATURES,
    SimplexPoint,
    coordinate_features,
    surplus_of,
)
from fwnet.numerics import checks
from fwnet.numerics.compiled import machine_code
from fwnet.oracles import Linearization
from fwnet.problems import Problem

_REACH = 0.95  # multipliers of the step lie in [1/39, 39]
_CODE = "fwnet.learned.controllers.compiled_points"


@final
class LearnedPoint(Proposal):
    """A projected gradient step with a learned length and momentum for each coordinate.

        p = P(x + u),   u_i = m_i η (⟨∇f, x⟩ − ∇f_i) + b_i Δx_i,   m_i in [1/39, 39],  |b_i| < 1

    with Barzilai and Borwein's η; besides p, the vertices of the coordinates with the largest u_i
    and x without those with the smallest. A small network sees one coordinate at a time (see
    `fwnet.learned.features`); untrained, m = 1 and b = 0: the hand-designed step.

    Arguments:
        hidden: units of its two layers.
        exchanges: how many coordinates to fill and to empty.
    """

    def __init__(self, hidden: int = 16, exchanges: int = 0) -> None:
        super().__init__()
        checks.at_least("hidden", hidden, 1)
        self.exchanges = checks.at_least("exchanges", exchanges, 0)
        self.first = nn.Linear(COORDINATE_FEATURES, hidden)
        self.context = nn.Linear(PROBLEM_FEATURES, hidden, bias=False)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 2, bias=False)
        nn.init.zeros_(self.head.weight)

    def init(
        self, problem: Problem, domain: Domain, it: Iterate
    ) -> tuple[None, PointWeights | None]:
        """The last step, and the weights as arrays where compiled code takes them."""
        if not is_single(it.x) or machine_code(_CODE) is None:
            return None, None
        wide = (w.to(torch.promote_types(w.dtype, torch.float32)) for w in self._weights())
        return None, PointWeights(*(w.numpy() for w in wide))

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        assert isinstance(domain, Simplex)
        last, arrays = state
        now = next_step(problem, it, lin, last)
        before = now if last is None else last  # then Δx and Δ∇f are 0
        update, point = self._proposed(domain, it, lin, before, now, arrays)
        found = [Candidates(point.unsqueeze(problem.batch_dims))]
        if self.exchanges:
            found.append(exchanges(problem, domain, it, lin, update.detach(), self.exchanges))
        return found, (now, arrays)

    def _proposed(
        self,
        domain: Simplex,
        it: Iterate,
        lin: Linearization,
        before: LastStep,
        now: LastStep,
        arrays: PointWeights | None,
    ) -> tuple[Tensor, Tensor]:  # (*batch, n) each
        """u and P(x + u); of one problem in compiled code, where the calls would cost most."""
        vectors = (it.x, now.gradient, before.x, before.gradient)
        numbers = (lin.along, lin.decrease, now.length, before.length)
        code = None if arrays is None else machine_code(_CODE)
        if code is None:
            known = (*(v.detach() for v in vectors), *(v.detach()[..., None] for v in numbers))
            weights = PointWeights(*(w.to(it.x.dtype) for w in self._weights()))
            update = _finite(_update(SimplexPoint(*known), weights))
            return update, domain.project(it.x + update)
        assert arrays is not None
        x, *others = (v.numpy() for v in (*vectors, *numbers))
        found = np.empty_like(x), np.empty_like(x)
        code.learned_point(x, *others, _REACH, *arrays, domain.radius, *found)
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])

    def _weights(self) -> PointWeights:
        first, second = self.first, self.second
        head, context = self.head.weight, self.context.weight
        return PointWeights(first.weight, first.bias, context, second.weight, second.bias, head)


class PointWeights(NamedTuple):
    """The weights of a `LearnedPoint`, arrays of torch or NumPy."""

    first: Any  # (hidden, COORDINATE_FEATURES)
    first_bias: Any
    context: Any  # (hidden, PROBLEM_FEATURES)
    second: Any  # (hidden, hidden)
    second_bias: Any
    head: Any  # (2, hidden)


def _update(point: SimplexPoint, weights: PointWeights) -> Tensor:
    """u, the formula that `compiled_points.learned_point` repeats for one problem."""
    surplus = surplus_of(point)
    rows, numbers = coordinate_features(point, surplus)
    context = numbers @ weights.context.T + weights.first_bias
    out = weights.first @ rows + context[..., None]
    out = weights.second @ out.relu() + weights.second_bias[:, None]
    out = weights.head @ out.relu()
    out = out / (1 + out.abs())
    grow, momentum = _REACH * out[..., 0, :], out[..., 1, :]
    longer: Tensor = (1 + grow) / (1 - grow) * point.length
    return longer * surplus + momentum * (point.x - point.last_x)


def _finite(update: Tensor) -> Tensor:
    """0 for a problem whose features or outputs overflow: f hardly curves, or weights are huge."""
    return finite_or(torch.zeros_like(update), update, update.ndim - 1)


@final
class LearnedDirection(HullDirection):
    """L2LC_∇ made safe: the best point of a hull that contains a learned point.

        d = y − x,   y = argmin of f over conv{x, s, p_θ, exchanges, recent points}

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
        exchanges: how many coordinates, chosen by the network, to fill and to empty: points that
            cost a column each.
        projected: add the hand-designed projected step as one more point (one more product with
            the matrix a step).

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> solver = fwnet.FrankWolfe(fwnet.Simplex(), direction=learned.LearnedDirection())
        >>> solver(problem).status
        'converged'
    """

    def __init__(
        self, hidden: int = 16, memory: int = 8, exchanges: int = 4, projected: bool = False
    ) -> None:
        super().__init__(hidden=hidden, memory=memory, exchanges=exchanges, projected=projected)
        others = [ProjectedStep()] if projected else []
        self.hull = Corrections(memory, [LearnedPoint(hidden, exchanges), *others])
