"""The move toward a vertex on sharded logits, and how far to go along it."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from fwnet import checks
from fwnet.directions import Direction
from fwnet.distributed.softmax import Bend, ShardedSoftmax
from fwnet.iterates import Iterate, Move, Term
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.steps import LineSearch, StepRule
from fwnet.vertices import Dense, Rank1


@final
class Segment(Move):
    """x + γ(u vᵀ − x): weights move, and the logits with them, in place.

        Z <- (1 − γ) Z + γ (X u) vᵀ

    The image of its one term is X u, not the n × m numbers of X u vᵀ.
    """

    def arrive(self, step_size: Tensor) -> Iterate:
        """The iterate at x + γ d; the logits of the one before are overwritten."""
        (term,) = self.terms
        z, active, scores = self.it.image, self.it.active, term.image
        assert z is not None
        assert active is not None
        assert scores is not None
        assert isinstance(term.vertex, Rank1)
        assert term.slot is not None
        size = float(step_size)
        for logits, score in zip(z, scores, strict=True):
            logits.addr_(score, term.vertex.v.to(z.dtype), beta=1.0 - size, alpha=size)
        return Iterate(self.it.x, z, active.moved(self.scale, [(term.slot, 1.0)], step_size))


@final
class TowardOnShards(Direction):
    """d = vertex − x, the vertex a new atom of the active set."""

    keeps_atoms = True

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert isinstance(problem, ShardedSoftmax)
        assert isinstance(lin.vertex, Rank1)
        assert it.active is not None
        active, slot = it.active.holding(lin.vertex)
        term = Term(1.0, lin.vertex, problem.scores(lin.vertex.u), slot)
        here = Iterate(it.x, it.image, active)
        return Segment(here, -1.0, (term,), lin.value, -lin.decrease), state


@final
class SearchOnShards(StepRule):
    """Exact line search on the rows of all workers, or on an even sample of them.

        γ = argmin over [0, 1] of f(x + γ d)

    The root of the slope is found by `LineSearch`, to which the segment is a problem of one
    number; an evaluation sends two numbers.

    Arguments:
        rows: of the sample, about; all of them where there are no more.
    """

    reads_objective = True

    def __init__(self, rows: int = 65_536) -> None:
        super().__init__()
        self.rows = checks.at_least("SearchOnShards(rows=...)", rows, 1)
        self.search = LineSearch(tol=1e-3)

    def extra_repr(self) -> str:
        return f"rows={self.rows}"

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        assert isinstance(problem, ShardedSoftmax)
        line = _Line(problem, move, stride=max(1, problem.rows.count // self.rows))
        start = Iterate(torch.zeros(1, dtype=torch.float64))
        slope = line.bend(start).slope
        ahead = Term(1.0, Dense(torch.ones(1, dtype=torch.float64)))
        return self.search(line, start, Move(start, 0.0, (ahead,), move.value, slope), None)[
            0
        ], state


@final
class _Line(Problem):
    """f along a move, as a problem of one number; remembers its last evaluation."""

    def __init__(self, problem: ShardedSoftmax, move: Move, stride: int) -> None:
        self.problem, self.move, self.stride = problem, move, stride
        self.last: tuple[float, Bend] | None = None

    def bend(self, it: Iterate) -> Bend:
        """Slope and curvature at γ = x."""
        step_size = float(it.x)
        if self.last is None or self.last[0] != step_size:
            (term,) = self.move.terms
            assert isinstance(term.vertex, Rank1)
            assert term.image is not None
            segment = (self.move.it, term.image, term.vertex.v)
            self.last = step_size, self.problem.bend(*segment, step_size, self.stride)
        return self.last[1]

    def value(self, it: Iterate) -> Tensor:
        return self.move.value  # no line search asks for it

    def gradient(self, it: Iterate) -> Tensor:
        return self.bend(it).slope.reshape(1)

    def slope(self, it: Iterate, move: Move) -> Tensor:
        return self.bend(it).slope

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        return self.bend(it).curvature
