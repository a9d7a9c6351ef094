"""Accelerated projection on the trace-norm ball, on factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.domains import L1Ball
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem, Look

_SAMPLE = 1024  # terms on which a step's length is judged
_DECAY = 0.97  # of the curvature, a step
_SPARE = 6  # columns of the basis beyond the rank: they find what is to come


@final
@dataclass(frozen=True, eq=False)
class Point:
    """W = left · Vᵀ with its thin image X · left."""

    left: Tensor  # (d, k)
    scores: Tensor  # (n, k)
    V: Tensor  # (m, k)

    @classmethod
    def at(cls, problem: FactoredProblem, W: Factors) -> Point:
        """The point of W, its image computed anew."""
        return cls(W.left, problem.scores(W.left), W.V)

    def beyond(self, last: Point, weight: float) -> Point:
        """W + weight · (W − last)."""
        if weight == 0:
            return self
        return Point(
            torch.cat([(1 + weight) * self.left, -weight * last.left], 1),
            torch.cat([(1 + weight) * self.scores, -weight * last.scores], 1),
            torch.cat([self.V, last.V], 1),
        )

    def inner(self, other: Point) -> float:
        """⟨W, other⟩, in float64: differences of such numbers decide on restarts."""
        left, V = self.left.double().mT @ other.left.double(), self.V.double().mT @ other.V.double()
        return float((left * V).sum())


@final
class AcceleratedProjection:
    """Nesterov's method with projections, the singular vectors found by subspace iteration.

        Y = W + β (W − W_before);   W <- P(Y − η G),   G = ∇f(Y)

    P projects the singular values on the l1 ball. It keeps few of them, so only a basis of
    `width` right vectors is followed from step to step: Q spans (Y − ηG) · basis, and the small
    SVD is that of Qᵀ(Y − ηG). As the iterate settles, so does the basis; with as many columns as
    W has, this is the full SVD. Each step reads X twice, by thin products. η comes from the
    curvature that a sample of the terms shows along the step; momentum restarts where it points
    uphill.

    Arguments:
        problem: f.
        radius: of the ball.
        start: where to begin, in the ball.
        max_rank: at most so many singular values.
        generator: of the first basis.

    Reference: Beck and Teboulle (2009); O'Donoghue and Candès (2015) for the restart.
    """

    def __init__(
        self,
        problem: FactoredProblem,
        radius: float,
        start: Factors,
        max_rank: int,
        generator: torch.Generator,
    ) -> None:
        self.problem, self.radius, self.generator = problem, radius, generator
        self.limit = min(max_rank, *problem.shape)
        self.sample = problem.sample(_SAMPLE, generator)
        self.here = self.last = Point.at(problem, start)
        self.clock = 1.0  # Nesterov's t
        self.basis = self._widened(start.V, min(self.limit, start.rank + _SPARE))
        self.bend = 0.0  # 1/η: the largest curvature seen along a step, slowly forgotten
        self.length = 0.0  # η
        self.value = math.nan  # f at the last Y
        self.estimate = math.inf  # of the gap, from below
        self.still = False  # whether the last step was no longer than rounding

    def step(self) -> None:
        """One step."""
        clock = (1 + (1 + 4 * self.clock**2) ** 0.5) / 2
        ahead = self.here.beyond(self.last, (self.clock - 1) / clock)
        look = self.problem.look(ahead.scores, ahead.V, self.basis)
        along = float((look.product * (self.here.left @ (self.here.V.mT @ self.basis))).sum())
        if self.bend == 0:
            self.bend = self._first_bend(ahead, look)
        for _ in range(30):
            self.length = 1 / self.bend
            new, spectrum, pulled = self._projected(ahead, look, self.length)
            bend = self._curvature(ahead, new)
            if bend <= self.bend:
                break
            self.bend = 1.1 * bend
        self.bend = max(1.1 * bend, _DECAY * self.bend)
        self.value = look.value
        self.estimate = along + self.radius * float(torch.linalg.matrix_norm(pulled, 2))
        uphill = _difference_inner(ahead, new, new, self.here) > 0
        self.last = self.here if not uphill else new
        self.here, self.clock = new, 1.0 if uphill else clock
        used = int((spectrum > 0).sum())
        wanted = min(self.limit, max(used + _SPARE, self.basis.shape[1] // 2))
        if used == self.basis.shape[1]:
            wanted = min(self.limit, 2 * used)
        self.basis = self._widened(self.basis, wanted)

    def point(self) -> Factors:
        """W, recompressed and inside the ball."""
        return Factors.of_product(self.here.left, self.here.V, self.radius)

    def follow(self, v: Tensor) -> None:
        """Let the oracle's right vector v `(m,)` join the basis: its vertex is within reach."""
        room = self.basis[:, : self.limit - 1]
        self.basis = torch.linalg.qr(torch.cat([room, v.unsqueeze(1)], 1)).Q

    def _projected(self, ahead: Point, look: Look, length: float) -> tuple[Point, Tensor, Tensor]:
        """P(Y − ηG) on the basis, its singular values, and GᵀQ."""
        moved = ahead.left @ (ahead.V.mT @ self.basis) - length * look.product
        Q = torch.linalg.qr(moved).Q
        image = self.problem.scores(Q)
        pulled = look.pull(image)
        small = ahead.V @ (ahead.left.mT @ Q) - length * pulled
        V, sigma, turn = torch.linalg.svd(small, full_matrices=False)
        spectrum = L1Ball(self.radius).project(sigma)
        used = max(1, int((spectrum > 0).sum()))
        weights = turn[:used].mT * spectrum[:used]
        self.basis = V
        return Point(Q @ weights, image @ weights, V[:, :used]), spectrum, pulled

    def _curvature(self, ahead: Point, new: Point) -> float:
        """⟨G(W) − G(Y), W − Y⟩ / ‖W − Y‖² on the sample."""
        both = torch.cat([new.V, ahead.V], 1).double()
        apart = torch.cat([new.left, -ahead.left], 1).double()
        # By small triangles: a difference of inner products would be rounding near the optimum.
        triangles = torch.linalg.qr(apart, mode="r").R @ torch.linalg.qr(both, mode="r").R.mT
        distance = float(torch.linalg.matrix_norm(triangles))
        self.still = distance <= torch.finfo(self.problem.dtype).eps * self.radius
        if self.still:
            return 0.0  # only rounding lies between them
        slopes, noise = [], 0.0
        images = [self.sample.scores(point.left.double()) for point in (new, ahead)]
        between = torch.cat([images[0], -images[1]], 1)  # X · apart
        for image, point in zip(images, (new, ahead), strict=True):
            pulled = self.sample.look(image, point.V.double(), both[:, :1]).pull(between)
            slopes.append(float((pulled * both).sum()))
            size = float(torch.linalg.matrix_norm(pulled) * torch.linalg.matrix_norm(both))
            noise += torch.finfo(torch.float64).eps * size
        bend = max(0.0, slopes[0] - slopes[1]) / distance**2
        return bend if noise <= 0.1 * self.bend * distance**2 else min(bend, self.bend)

    def _first_bend(self, ahead: Point, look: Look) -> float:
        """The curvature a short way down the gradient."""
        size = float(torch.linalg.matrix_norm(look.product))
        if size == 0:
            return 1.0
        down = -0.01 * self.radius / size * look.product
        left, V = torch.cat([ahead.left, down], 1), torch.cat([ahead.V, self.basis], 1)
        return self._curvature(ahead, Point(left, ahead.scores, V)) or size / self.radius

    def _widened(self, basis: Tensor, width: int) -> Tensor:
        """Orthonormal columns: the first `width` of the basis, or some random ones behind them."""
        missing = width - basis.shape[1]
        if missing <= 0:
            return basis[:, :width]
        noise = torch.randn(len(basis), missing, dtype=basis.dtype, generator=self.generator)
        return torch.linalg.qr(torch.cat([basis, noise], 1)).Q


def _difference_inner(a: Point, b: Point, c: Point, d: Point) -> float:
    """⟨a − b, c − d⟩."""
    return a.inner(c) - a.inner(d) - b.inner(c) + b.inner(d)
