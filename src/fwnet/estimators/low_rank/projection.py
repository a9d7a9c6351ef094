"""Accelerated projection on the trace-norm ball: its step, and W kept by factors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, final

import torch
from torch import Tensor

from fwnet.domains import L1Ball
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem

_SAMPLE = 1024  # terms on which a step's length is judged
_DECAY = 0.97  # of the curvature, a step
_SPARE = 6  # columns of the basis beyond the rank, which find the next singular vectors


class Point(Protocol):
    """A matrix W with its image."""

    def beyond(self: P, last: P, weight: float) -> P:
        """W + weight · (W − last)."""

    def inner(self: P, other: P) -> float:
        """⟨W, other⟩, in float64: differences of such numbers decide on restarts."""


P = TypeVar("P", bound=Point)


@final
@dataclass(frozen=True, eq=False)
class FactoredPoint:
    """W = left · Vᵀ with its thin image X · left."""

    left: Tensor  # (d, k)
    scores: Tensor  # (n, k)
    V: Tensor  # (m, k)

    @classmethod
    def at(cls, problem: FactoredProblem, W: Factors) -> FactoredPoint:
        """The point of W, its image computed anew."""
        return cls(W.left, problem.scores(W.left), W.V)

    def beyond(self, last: FactoredPoint, weight: float) -> FactoredPoint:
        """W + weight · (W − last)."""
        if weight == 0:
            return self
        return FactoredPoint(
            torch.cat([(1 + weight) * self.left, -weight * last.left], 1),
            torch.cat([(1 + weight) * self.scores, -weight * last.scores], 1),
            torch.cat([self.V, last.V], 1),
        )

    def inner(self, other: FactoredPoint) -> float:
        """⟨W, other⟩, in float64: differences of such numbers decide on restarts."""
        left, V = self.left.double().mT @ other.left.double(), self.V.double().mT @ other.V.double()
        return float((left * V).sum())


class AcceleratedProjection(ABC, Generic[P]):
    """Nesterov's method with projections P on the trace-norm ball, in steps.

        Y = W + β (W − W_before);   W <- P(Y − η G),   G = ∇f(Y)

    1/η is the largest curvature seen along a step, slowly forgotten; momentum restarts where it
    points uphill. A subclass says how W is kept, and how it is projected. This is the one algorithm
    beside the loop of `FrankWolfe`: Y lies outside the ball, which no slot allows.

    Attributes:
        value: f at the last Y.
        estimate: of the gap there, from below.
        length: η.
        is_still: whether the last step was within rounding errors.

    Reference: Beck and Teboulle (2009); O'Donoghue and Candès (2015) for the restart.
    """

    value = math.nan
    estimate = math.inf
    length = 0.0
    is_still = False

    def __init__(self, radius: float, start: P) -> None:
        self.radius = radius
        self.here = self.last = start
        self.momentum = 1.0  # Nesterov's t
        self.curvature = 0.0  # 1/η

    def step(self) -> None:
        """One step."""
        momentum = (1 + (1 + 4 * self.momentum**2) ** 0.5) / 2
        ahead = self.here.beyond(self.last, (self.momentum - 1) / momentum)
        slope = self._look(ahead)
        self.curvature = self.curvature or slope / self.radius or 1.0
        for _ in range(30):
            self.length = 1 / self.curvature
            new = self._projected(ahead)
            curvature = self._curvature(ahead, new)
            if curvature <= self.curvature:
                break
            self.curvature = 1.1 * curvature
        self.curvature = max(1.1 * curvature, _DECAY * self.curvature)
        # ⟨Y − W, W − W_before⟩ > 0
        uphill = (
            ahead.inner(new) - ahead.inner(self.here) - new.inner(new) + new.inner(self.here) > 0
        )
        self.last = self.here if not uphill else new
        self.here, self.momentum = new, 1.0 if uphill else momentum

    @abstractmethod
    def point(self) -> Factors:
        """W, recompressed and inside the ball."""

    @abstractmethod
    def follow(self, v: Tensor) -> None:
        """Let the next steps reach the oracle's vertex, whose right singular vector is v `(m,)`."""

    @abstractmethod
    def _look(self, ahead: P) -> float:
        """Find f and its gradient at Y; return the gradient's norm, or about that."""

    @abstractmethod
    def _projected(self, ahead: P) -> P:
        """P(Y − ηG); sets the estimate of the gap."""

    @abstractmethod
    def _curvature(self, ahead: P, new: P) -> float:
        """⟨G(W) − G(Y), W − Y⟩ / ‖W − Y‖², up to its rounding errors."""


@final
class FactoredProjection(AcceleratedProjection[FactoredPoint]):
    """W by two factors, its singular vectors found by subspace iteration.

    The projection of the singular values on the l1 ball keeps few of them, so only a basis of
    `width` right vectors is followed from step to step: Q spans (Y − ηG) · basis, and the small
    SVD is that of Qᵀ(Y − ηG). As the iterate settles, so does the basis; with as many columns as
    W has, this is the full SVD. Each step reads X twice, by thin products. The curvature is that
    of a sample of the terms.

    Arguments:
        problem: f.
        radius: of the ball.
        start: where to begin, in the ball.
        max_rank: the largest number of singular values.
        generator: of the sample and the first basis.
    """

    def __init__(
        self,
        problem: FactoredProblem,
        radius: float,
        start: Factors,
        max_rank: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(radius, FactoredPoint.at(problem, start))
        self.problem, self.generator = problem, generator
        self.limit = min(max_rank, *problem.shape)
        self.sample = problem.sample(_SAMPLE, generator)
        self.basis = self._widened(start.V, min(self.limit, start.rank + _SPARE))

    def step(self) -> None:
        super().step()
        used, width = self.used, self.basis.shape[1]
        wanted = 2 * used if used == width else max(used + _SPARE, width // 2)
        self.basis = self._widened(self.basis, min(self.limit, wanted))

    def point(self) -> Factors:
        return Factors.of_product(self.here.left, self.here.V, self.radius)

    def follow(self, v: Tensor) -> None:
        room = self.basis[:, : self.limit - 1]
        self.basis = torch.linalg.qr(torch.cat([room, v.unsqueeze(1)], 1)).Q

    def _look(self, ahead: FactoredPoint) -> float:
        self.look = self.problem.look(ahead.scores, ahead.V, self.basis)
        onto_basis = self.here.left @ (self.here.V.mT @ self.basis)
        self.value, self.along = self.look.value, float((self.look.product * onto_basis).sum())
        return float(torch.linalg.matrix_norm(self.look.product))

    def _projected(self, ahead: FactoredPoint) -> FactoredPoint:
        moved = ahead.left @ (ahead.V.mT @ self.basis) - self.length * self.look.product
        Q = torch.linalg.qr(moved).Q
        image = self.problem.scores(Q)
        pulled = self.look.pull(image)  # GᵀQ
        small = ahead.V @ (ahead.left.mT @ Q) - self.length * pulled
        self.basis, sigma, turn = torch.linalg.svd(small, full_matrices=False)
        spectrum = L1Ball(self.radius).project(sigma)
        self.used = int((spectrum > 0).sum())
        kept = max(1, self.used)
        weights = turn[:kept].mT * spectrum[:kept]
        self.estimate = self.along + self.radius * float(torch.linalg.matrix_norm(pulled, 2))
        return FactoredPoint(Q @ weights, image @ weights, self.basis[:, :kept])

    def _curvature(self, ahead: FactoredPoint, new: FactoredPoint) -> float:
        both = torch.cat([new.V, ahead.V], 1).double()
        apart = torch.cat([new.left, -ahead.left], 1).double()
        # By QR factors: near the optimum a difference of inner products would be rounding error.
        triangles = torch.linalg.qr(apart, mode="r").R @ torch.linalg.qr(both, mode="r").R.mT
        distance = float(torch.linalg.matrix_norm(triangles))
        self.is_still = distance <= torch.finfo(self.problem.dtype).eps * self.radius
        if self.is_still:
            return 0.0  # the difference is rounding error
        slopes, noise = [], 0.0
        images = [self.sample.scores(point.left.double()) for point in (new, ahead)]
        between = torch.cat([images[0], -images[1]], 1)  # X · apart
        for image, point in zip(images, (new, ahead), strict=True):
            pulled = self.sample.look(image, point.V.double(), both[:, :1]).pull(between)
            slopes.append(float((pulled * both).sum()))
            size = float(torch.linalg.matrix_norm(pulled) * torch.linalg.matrix_norm(both))
            noise += torch.finfo(torch.float64).eps * size
        seen = max(0.0, slopes[0] - slopes[1]) / distance**2
        return seen if noise <= 0.1 * self.curvature * distance**2 else min(seen, self.curvature)

    def _widened(self, basis: Tensor, width: int) -> Tensor:
        """Orthonormal columns: the first `width` of the basis, or some random ones behind them."""
        missing = width - basis.shape[1]
        if missing <= 0:
            return basis[:, :width]
        noise = torch.randn(len(basis), missing, dtype=basis.dtype, generator=self.generator)
        return torch.linalg.qr(torch.cat([basis, noise], 1)).Q
