"""Frank-Wolfe with rank-1 vertices and cached logits: the cheapest step, a rival in the race."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from benchmarks.trace.sweeps import LogitMove, sweep
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.losses import Loss
from fwnet.estimators.low_rank.problems import RowProblem
from fwnet.numerics import checks
from fwnet.numerics.line_search import scalar_root

_SAMPLE = 512  # rows on which a step's length is found
_ATOMS = 64  # that are kept before they are recompressed
_KEPT = 1 << 30  # bytes of logits, at most


@final
class RankOneFrankWolfe:
    """W <- W + γ (−radius · u vᵀ − W), one pass over X and the logits a step.

        v = Gᵀu / ‖Gᵀu‖,   then u <- G v_before / ‖G v_before‖ for the next step

    Half a power iteration on either side, from the last step's u and v. The pass (`sweeps`) moves
    the logits, makes their errors E, and adds up both Eᵀ(Xu) and Xᵀ(E v_before) while the rows are
    in the cache; X u is at the same time the image of the vertex. The core's loop cannot fuse
    these: its image is a tensor that every step makes anew. A whole power iteration on this step's
    gradient takes a second pass: fewer steps, but more seconds. γ is the exact line search on a
    sample of rows, inside [0, 1].

    Arguments:
        problem: f, over rows in memory or mapped.
        radius: of the ball.
        start: where to begin, in the ball.
        generator: of the first v and of the sample.

    Reference: Jaggi (2013); one warm power iteration as in the paper's recurrent oracle.
    """

    def __init__(
        self,
        problem: RowProblem,
        radius: float,
        start: Factors,
        generator: torch.Generator,
    ) -> None:
        (d, m), n, dtype = problem.shape, problem.n, problem.dtype
        size = n * m * dtype.itemsize
        if size > _KEPT:
            raise ValueError(
                f"RankOneFrankWolfe keeps the logits, {n} x {m} numbers; that is too many. "
                "Use AcceleratedProjection."
            )
        self.problem, self.radius = problem, checks.positive("radius", radius)
        self.left, self.right = [start.left], [start.V]
        self.logits = problem.scores(start.left) @ start.V.mT
        self.v = _unit(torch.randn(m, dtype=dtype, generator=generator))
        self.image = torch.zeros(n, dtype=dtype)  # X u of the last vertex
        self.u = torch.zeros(d, dtype=dtype)
        rows = torch.randperm(n, generator=generator)[:_SAMPLE].sort().values
        self.rows, self.some = rows, problem.loss.some(rows, dtype)
        self.length = 0.0  # γ
        self.value = math.nan  # f where the last vertex was asked for
        self.find_vertex()  # the first u

    def step(self) -> None:
        """One step."""
        u = self.find_vertex()
        here = self.logits[self.rows]
        ahead = torch.addr(here, self.image[self.rows], self.v, beta=-1.0, alpha=-self.radius)
        self.length = line_search(self.some, here, ahead)
        self._remember(u)

    def find_vertex(self) -> Tensor:
        """Arrive at the last step's end, and ask for the next vertex there: u; v is kept."""
        left = (-self.length * self.radius) * self.image
        found = sweep(self.problem, self.logits, LogitMove(1 - self.length, left, self.v), self.u)
        self.value, self.image = found.value, found.image
        self.length = 0.0  # arrived
        vertex, self.u = self.u, _unit(found.pushed)
        if found.pulled.any():
            self.v = _unit(found.pulled)
        return vertex

    def point(self) -> Factors:
        """W, recompressed and inside the ball."""
        return Factors.of_product(torch.cat(self.left, 1), torch.cat(self.right, 1), self.radius)

    def _remember(self, u: Tensor) -> None:
        """The atoms of W, recompressed when there are many."""
        for part in self.left:
            part.mul_(1 - self.length)
        self.left.append((-self.length * self.radius * u).unsqueeze(1))
        self.right.append(self.v.unsqueeze(1))
        if len(self.left) > _ATOMS:
            W = self.point()
            self.left, self.right = [W.left], [W.V]


def line_search(loss: Loss, here: Tensor, ahead: Tensor, evaluations: int = 8) -> float:
    """argmin over [0, 1] of the loss at here + γ · ahead."""
    first, last = _slope(loss, here, ahead, 0.0), _slope(loss, here, ahead, 1.0)
    goal = 1e-3 * abs(first)
    return scalar_root(
        lambda step: (_slope(loss, here, ahead, step), None),
        first,
        1.0,
        goal,
        end=last,
        evaluations=evaluations,
    )


def _slope(loss: Loss, here: Tensor, ahead: Tensor, step: float) -> float:
    errors = torch.add(here, ahead, alpha=step)
    loss.errors_(errors, slice(None))
    return float(torch.dot(errors.view(-1), ahead.view(-1)))


def _unit(x: Tensor) -> Tensor:
    size = float(torch.linalg.vector_norm(x))
    return x / size if size > 0 else x
