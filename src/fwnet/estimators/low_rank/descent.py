"""Minibatch descent on two factors that stay in the trace-norm ball."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from fwnet.estimators.low_rank.factors import Factors

_BALANCE = 50  # steps
RATE = 0.1  # of a step, relative to the factor


@final
class FactoredDescent:
    """Normalised momentum on W = L Rᵀ, rescaled into the ball after every step.

        ‖L Rᵀ‖_* <= ½(‖L‖² + ‖R‖²) <= radius

    so that scaling both factors is a feasible map that costs nothing. Each factor has one step
    length, relative to its size on the ball's boundary and to the running size of its gradient.

    Arguments:
        start: where to begin; its singular values, the largest if there are more than `width`,
            are split between both factors.
        radius: of the ball.
        width: columns of the factors.
        generator: fills the columns that `start` does not have.
    """

    def __init__(
        self, start: Factors, radius: float, width: int, generator: torch.Generator
    ) -> None:
        self.radius, self.t = radius, 0
        kept = min(start.rank, width)  # a column of zeros in both factors would never move
        root = start.s[:kept].sqrt()
        self.factors = []
        for vectors in (start.U, start.V):
            size = 0.3 * math.sqrt(radius / (len(vectors) * width))
            noise = torch.randn(len(vectors), width - kept, dtype=root.dtype, generator=generator)
            self.factors.append(torch.cat([vectors[:, :kept] * root, size * noise], 1))
        self.averages = [torch.zeros_like(factor) for factor in self.factors]
        self.squares = [0.0, 0.0]
        self._rescale()

    def step(self, gradients: tuple[Tensor, Tensor], fade: float = 1.0) -> None:
        """Follow a minibatch's gradients of both factors; `fade` shortens the step."""
        self.t += 1
        parts = zip(self.factors, self.averages, gradients, strict=True)
        for k, (factor, average, gradient) in enumerate(parts):
            average.lerp_(gradient, 0.1)
            square = float(torch.linalg.vecdot(gradient.flatten(), gradient.flatten()))
            self.squares[k] += 0.01 * (square - self.squares[k])
            size = math.sqrt(self.squares[k] / (1 - 0.99**self.t))
            length = RATE * fade * math.sqrt(self.radius) / (1 - 0.9**self.t)
            if size > 0:
                factor.add_(average, alpha=-length / size)
        self._rescale()
        if self.t % _BALANCE == 0:
            self._balance()

    def fits(self, radius: float, width: int, dtype: torch.dtype) -> bool:
        """Whether it was made for this ball, width and type."""
        left = self.factors[0]
        return (self.radius, left.shape[1], left.dtype) == (radius, width, dtype)

    def point(self) -> Factors:
        """W, recompressed and inside the ball."""
        left, right = self.factors
        return Factors.of_product(left, right, self.radius)

    def _balance(self) -> None:
        """L = U√s, R = V√s: then ½(‖L‖² + ‖R‖²) is the trace norm, and no room is wasted."""
        W = self.point()
        for factor, vectors in zip(self.factors, (W.U, W.V), strict=True):
            factor.zero_()
            factor[:, : len(W.s)] = vectors * W.s.sqrt()
        for average in self.averages:
            average.zero_()  # it belongs to the old columns

    def _rescale(self) -> None:
        size = 0.5 * sum(float(torch.linalg.matrix_norm(factor)) ** 2 for factor in self.factors)
        if size > self.radius:
            for factor in self.factors:
                factor.mul_(math.sqrt(self.radius / size))
