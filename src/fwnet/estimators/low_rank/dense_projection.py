"""Accelerated projection where X and W are small: dense, in float64, few calls a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.domains import Simplex
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import RowProblem
from fwnet.estimators.low_rank.projection import AcceleratedProjection

_ENTRIES = 1 << 18  # of X, and of the logits
_SIDE = 64  # the shorter one of W; beyond it, following a basis is faster than a full SVD
_ALL = slice(None)


@final
@dataclass(frozen=True, eq=False)
class DensePoint:
    """W with its logits."""

    W: Tensor  # (d, m)
    image: Tensor  # XW, (n, m)

    def beyond(self, last: DensePoint, weight: float) -> DensePoint:
        """W + weight · (W − last)."""
        image = torch.lerp(last.image, self.image, 1 + weight)
        return DensePoint(torch.lerp(last.W, self.W, 1 + weight), image)

    def inner(self, other: DensePoint) -> float:
        """⟨W, other⟩."""
        return float(torch.dot(self.W.view(-1), other.W.view(-1)))


@final
class DenseProjection(AcceleratedProjection[DensePoint]):
    """W as a matrix, projected by its SVD; the curvature is that of all terms.

    Arguments:
        problem: f, one that `is_small`.
        radius: of the ball.
        start: where to begin, in the ball.
    """

    def __init__(self, problem: RowProblem, radius: float, start: Factors) -> None:
        every = torch.arange(problem.n)
        self.X = problem.rows.some(every).dense().double()
        self.loss = problem.loss.some(every, torch.float64)
        self.dtype, self.simplex = problem.dtype, Simplex(radius)
        W = start.to(torch.float64).dense()
        super().__init__(radius, DensePoint(W, self.X @ W))

    def point(self) -> Factors:
        W = self.here.W.to(self.dtype)
        return Factors.of_product(W, torch.eye(W.shape[1], dtype=self.dtype), self.radius)

    def follow(self, v: Tensor) -> None:
        """Nothing to do: a dense step reaches every vertex."""

    def _look(self, ahead: DensePoint) -> float:
        self.errors = torch.empty_like(ahead.image)
        self.value = self.loss.errors_(ahead.image, _ALL, out=self.errors)
        self.gradient = self.X.mT @ self.errors
        G = self.gradient
        gram = G.mT @ G if G.shape[1] <= len(G) else G @ G.mT
        largest = max(0.0, float(torch.linalg.eigvalsh(gram)[-1])) ** 0.5
        self.estimate = float((G * self.here.W).sum()) + self.radius * largest
        return largest

    def _projected(self, ahead: DensePoint) -> DensePoint:
        moved = ahead.W - self.length * self.gradient
        U, s, Vh = torch.linalg.svd(moved, full_matrices=False)
        if float(s.sum()) > self.radius:
            moved = (U * self.simplex.project(s)) @ Vh
        return DensePoint(moved, self.X @ moved)

    def _curvature(self, ahead: DensePoint, new: DensePoint) -> float:
        distance = float(torch.linalg.matrix_norm(new.W - ahead.W))
        self.is_still = distance <= torch.finfo(self.dtype).eps * self.radius
        if self.is_still:
            return 0.0  # the difference is rounding error
        errors, between = torch.empty_like(self.errors), new.image - ahead.image
        self.loss.errors_(new.image, _ALL, out=errors)
        seen = float(((errors - self.errors) * between).sum()) / distance**2
        size = float(torch.linalg.matrix_norm(self.errors) * torch.linalg.matrix_norm(between))
        noise = 2 * torch.finfo(torch.float64).eps * size / distance**2
        return max(0.0, seen if noise <= 0.1 * self.curvature else min(seen, self.curvature))


def is_small(problem: RowProblem, max_rank: int) -> bool:
    """Whether W as a matrix is faster than by its factors."""
    d, m = problem.shape
    return max_rank >= min(d, m) <= _SIDE and problem.n * max(d, m) <= _ENTRIES
