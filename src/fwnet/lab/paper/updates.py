"""Optimizers as functions of the weights: state in, state out, so that runs can be unrolled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor

Parameters = dict[str, Tensor]


class Updates(Protocol):
    """How a network's weights move: state in, state out."""

    def init(self, parameters: Parameters) -> Any:
        """The state before the first update."""

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        """The next weights and state."""


@final
@dataclass(frozen=True)
class Adam:
    """Adam as a function: θ <- θ − lr · m̂ / (√v̂ + ε).

    Reference: Kingma and Ba (2015).
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)

    def init(self, parameters: Parameters) -> Any:
        zeros = {name: torch.zeros_like(theta) for name, theta in parameters.items()}
        return 0, zeros, zeros

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        t, means, squares = state
        t, (a, b) = t + 1, self.betas
        means = {k: torch.lerp(g, means[k], a) for k, g in gradients.items()}
        squares = {k: torch.lerp(g.square(), squares[k], b) for k, g in gradients.items()}
        moved = {
            k: theta - self.lr * (means[k] / (1 - a**t)) / ((squares[k] / (1 - b**t)).sqrt() + 1e-8)
            for k, theta in parameters.items()
        }
        return moved, (t, means, squares)


@final
@dataclass(frozen=True)
class GradientDescent:
    """θ <- θ − lr ∇θ."""

    lr: float

    def init(self, parameters: Parameters) -> None:
        return None

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        return {k: theta - self.lr * gradients[k] for k, theta in parameters.items()}, state
