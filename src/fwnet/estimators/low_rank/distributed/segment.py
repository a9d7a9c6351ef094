"""Moves on sharded logits: toward the best mixture of recent vertices, as far as f falls."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.directions import Direction
from fwnet.directions.hull_search import semidefinite
from fwnet.domains import Domain
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.iterates import Iterate, Move, Term
from fwnet.numerics.line_search import scalar_root
from fwnet.oracles import Linearization, Oracle, PowerIteration
from fwnet.problems import Problem
from fwnet.quadratic.solve import solve_simplex_qp
from fwnet.steps import StepRule
from fwnet.vertices import Rank1

_TOL = 1e-2  # of the slope at γ = 0, what is small enough where f is least


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Segment(Move):
    """x + γ d, d = scale · x + Σ c_k u_k v_kᵀ: weights move, and the logits with them, in place.

        Z <- (1 + γ·scale) Z + γ (X u_1, …, X u_p) (c_1 v_1, …, c_p v_p)ᵀ

    The terms carry no images: those would be n × m numbers each.

    Arguments:
        scores: X u_k of this worker's rows, `(blocks, rows, p)`.
        mix: c_k v_k, `(p, m)`.
    """

    scores: Tensor
    mix: Tensor

    def arrive(self, step_size: Tensor) -> Iterate:
        """The iterate at x + γ d; the logits of the one before are overwritten."""
        z, active = self.it.image, self.it.active
        assert z is not None
        assert active is not None
        size = float(step_size)
        for logits, scores in zip(z, self.scores, strict=True):
            logits.addmm_(scores, self.mix, beta=1.0 + size * float(self.scale), alpha=size)
        slots = [(term.slot, term.coefficient) for term in self.terms if term.slot is not None]
        return Iterate(self.it.x, z, active.moved(self.scale, slots, step_size))


@final
class FromCertificate(Oracle):
    """The vertex of a certificate first, then power iterations from its v.

    A run's oracle state is the linearisation of its last certificate, which an exact oracle made.

    Arguments:
        steps: K power iterations of every later vertex.
    """

    certifies = True  # the loop does so at its last step, where a checkpoint is written

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.power = PowerIteration(steps)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        if not isinstance(state, Linearization):
            return self.power(problem, domain, it, state)
        assert isinstance(state.vertex, Rank1)
        return state, state.vertex.v

    def patience(self, domain: Domain) -> int:
        return sys.maxsize  # the next certificate brings another vertex


class Recent(NamedTuple):
    """The last vertices, newest first."""

    slots: list[Tensor]  # of the active set
    v: Tensor  # (p, m)
    scores: Tensor  # (blocks, rows, p)


@final
class RecentVertices(Direction):
    """Toward the minimum, by the second-order model at x, over the last vertices and the rest of x.

        d = y − x,   y = argmin of the model over conv{rest, s_1, …, s_p}
        x = w_0 rest + Σ w_k s_k

    s_1 is the vertex of this step. The model needs the products of p + 1 images with each other,
    p²/2 numbers from all workers; it is a quadratic programme of p + 1 weights. With p = 1 this is
    the Frank-Wolfe direction. A vertex from one power iteration, started from the last v, mostly
    repeats what the mixture has settled: take two, or an exact one now and then.

    Arguments:
        memory: p, how many vertices.
        rows: of the sample that the model is made from, about.
    """

    keeps_atoms = True

    def __init__(self, memory: int, rows: int) -> None:
        super().__init__()
        self.memory, self.rows = memory, rows

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert isinstance(problem, ShardedSoftmax)
        assert isinstance(lin.vertex, Rank1)
        assert it.active is not None
        old = _still_used(state, it, self.memory - 1)
        active, slot = it.active.holding(lin.vertex)
        scores, v = problem.scores(lin.vertex.u).unsqueeze(-1), lin.vertex.v.unsqueeze(0)
        recent = Recent([slot], v, scores)
        if old is not None:
            both = torch.cat([v, old.v]), torch.cat([scores, old.scores], -1)
            recent = Recent([slot, *old.slots], *both)
        stride = _stride(problem, self.rows)
        slopes, gram = problem.second_order(it, recent.scores, recent.v, stride)
        weights = active.weights[torch.stack(recent.slots)]
        change = _best_change(weights, slopes, gram)
        scale, coefficients = float(change[0]), change[1:]
        terms = tuple(
            Term(c, lin.vertex, slot=s) for c, s in zip(coefficients, recent.slots, strict=True)
        )
        move = Segment(
            Iterate(it.x, it.image, active),
            scale,
            terms,
            lin.value,
            change @ slopes,
            scores=recent.scores,
            mix=coefficients.to(v.dtype).unsqueeze(-1) * recent.v,
        )
        return move, recent


@final
class SearchOnShards(StepRule):
    """Exact line search on the rows of all workers, or on an even sample of them.

        γ = argmin over [0, 1] of f(x + γ d)

    γ = 1 is the minimum of the model that made d, so it is looked at first, and Newton's method
    begins there. Begun at 0, its first guess would be 1 up to rounding, and which side of 1 it
    falls on would decide on the step. An evaluation sends two numbers.

    Arguments:
        rows: of the sample, about; all of them where there are no more.
    """

    reads_objective = True

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        assert isinstance(problem, ShardedSoftmax)
        assert isinstance(move, Segment)
        segment, stride = (move.scores, move.mix, float(move.scale)), _stride(problem, self.rows)

        def slope_at(step_size: float) -> tuple[float, float]:
            slope, curvature = problem.derivatives(move.it, segment, step_size, stride)
            return float(slope), float(curvature)

        start, (end, curvature) = float(move.slope), slope_at(1.0)
        guess = 1.0 - end / curvature if curvature > 0 else 0.5
        found = scalar_root(slope_at, start, 1.0, _TOL * abs(start), end=end, guess=guess)
        return move.slope.new_tensor(found), state


def _stride(problem: ShardedSoftmax, rows: int) -> int:
    return max(1, problem.rows.count // rows)


def _still_used(recent: Recent | None, it: Iterate, most: int) -> Recent | None:
    """Without the vertices whose weight fell to 0: their slots are free for others."""
    if recent is None or it.active is None:
        return None
    kept = [k for k, s in enumerate(recent.slots) if float(it.active.weights[s]) > 0][:most]
    if not kept:
        return None
    return Recent([recent.slots[k] for k in kept], recent.v[kept], recent.scores[..., kept])


def _best_change(weights: Tensor, slopes: Tensor, gram: Tensor) -> Tensor:
    """d of the best point of the hull, in terms of x, s_1, …, s_p: `(p + 1,)`.

    rest = (x − Σ w_k s_k) / w_0,   w_0 = 1 − Σ w_k
    """
    p = len(weights)
    corners = torch.eye(p + 1, dtype=torch.float64, device=weights.device)
    here = corners[0].clone()
    left = float(1.0 - weights.sum())
    if left > 1e-6:  # else x consists of these vertices, and "rest" of rounding
        corners[0, 0], corners[0, 1:] = 1.0 / left, -weights / left
    else:
        corners = corners[1:]
    quadratic = semidefinite(corners @ gram @ corners.mT)
    best = solve_simplex_qp(quadratic, corners @ (slopes - gram @ here), trusted=True).x
    change = corners.mT @ best - here
    if float(change @ slopes) < 0:
        return change
    toward = -here  # no descent beyond rounding: the plain direction
    toward[1] = 1.0
    return toward
