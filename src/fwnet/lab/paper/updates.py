"""Optimizers as functions of the weights: state in, state out, so that runs can be unrolled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from fwnet.learned.controllers.entrywise import EntrywiseLSTM
from fwnet.learned.networks import Parameters, Updates
from fwnet.numerics.singular import power_iteration


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


@final
@dataclass(frozen=True)
class TraceNormSteps:
    """Frank-Wolfe on the trace-norm ball, a matrix at a time, as in the paper's Fig. 5.

        W <- (1 − γ) W + γ S,   S = −radius · u vᵀ

    Arguments:
        radius: μ.
        step_size: γ, constant.
        iterations: K power iterations, each step from a fresh random v.
        lstm: its answer to the gradient replaces the gradient (L2LC_∇); None for the gradient.
        seed: of the random v.
    """

    radius: float
    step_size: float
    iterations: int = 5
    lstm: EntrywiseLSTM | None = None
    seed: int = 0

    def init(self, parameters: Parameters) -> Any:
        generator = torch.Generator().manual_seed(self.seed)
        return generator, dict.fromkeys(parameters)

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        generator, memory = state
        moved, following = {}, {}
        for name, W in parameters.items():
            G = gradients[name]
            if self.lstm is not None:
                G, following[name] = self.lstm(G, memory[name])
            start = torch.randn(G.shape[-1], generator=generator)
            u, _, v = power_iteration(G, start / start.norm(), self.iterations)
            vertex = -self.radius * u.unsqueeze(-1) * v.unsqueeze(-2)
            moved[name] = torch.lerp(W, vertex, self.step_size)
        return moved, (generator, following)


def into_ball(W: Tensor, radius: float) -> Tensor:
    """W, scaled down if it is outside the trace-norm ball."""
    return W * min(1.0, radius / float(torch.linalg.svdvals(W).sum()))


@final
@dataclass(frozen=True)
class TorchUpdates:
    """A torch optimizer as a function of the weights, for runs that are not unrolled.

    Arguments:
        make: named weights -> the optimizer.
    """

    make: Callable[[Parameters], torch.optim.Optimizer]

    def init(self, parameters: Parameters) -> Any:
        leaves = {name: theta.clone().requires_grad_() for name, theta in parameters.items()}
        return leaves, self.make(leaves)

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        leaves, optimizer = state
        for name, leaf in leaves.items():
            leaf.grad = gradients[name]
        optimizer.step()
        return {name: leaf.detach().clone() for name, leaf in leaves.items()}, state


@final
@dataclass(frozen=True)
class SplitUpdates:
    """Some parameters by one rule, the rest by another."""

    names: tuple[str, ...]
    special: Updates
    rest: Updates

    def init(self, parameters: Parameters) -> Any:
        ours, others = self._parted(parameters)
        return self.special.init(ours), self.rest.init(others)

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        (ours, others), (gs, hs) = self._parted(parameters), self._parted(gradients)
        ours, first = self.special(ours, gs, state[0])
        others, second = self.rest(others, hs, state[1])
        return {**others, **ours}, (first, second)

    def _parted(self, parameters: Parameters) -> tuple[Parameters, Parameters]:
        ours = {k: v for k, v in parameters.items() if k in self.names}
        return ours, {k: v for k, v in parameters.items() if k not in self.names}
