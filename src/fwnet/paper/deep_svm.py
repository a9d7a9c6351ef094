"""Deep SVMs as in the paper: each iteration moves α forward and the kernel network by a gradient.

    α <- one Frank-Wolfe cell on the SVM of the present features
    θ <- θ − update of ∇θ P(w, θ),   w = t Σ αᵢyᵢhᵢ held fixed

One loop serves Adam and LSTMs, evaluation and meta-training: updates are functions of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fwnet.estimators.deep_head import head_of, with_bias
from fwnet.estimators.deep_modes import objective_value
from fwnet.layers import FWNet
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe

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
@dataclass(frozen=True, eq=False)
class DeepSVM:
    """A deep SVM to be trained: points `(n, …)`, labels −1, +1 `(n,)`, kernel network, C."""

    X: Tensor
    y: Tensor
    net: nn.Module
    C: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class Iteration:
    """What one iteration reached, before the weights move.

    Arguments:
        loss: 2P/(C n) of the SVM with the present α and features: at most 1 at its solution.
        accuracy: on the training points.
        step_size: γ.
        weights: of the SVM, `(d + 1,)`, the bias last.
        parameters: of the network, with the graph of the learned updates that led to them.
        dual: f(α) after the step, with the graph of the learned slots.
        slope: Σ⟨∇θ, θ⟩, whose gradient in learned updates is that of the loss.
    """

    loss: float
    accuracy: float
    step_size: float
    weights: Tensor
    parameters: Parameters
    dual: Tensor
    slope: Tensor


@final
class DeepRun:
    """A run from α = 1/n and the network's present weights, which stay as they are.

    Arguments:
        svm: what is trained.
        solver: its slots move α, one cell an iteration.
        updates: moves the network.
    """

    def __init__(self, svm: DeepSVM, solver: FrankWolfe, updates: Updates) -> None:
        self.svm, self.solver, self.updates = svm, solver, updates
        n = svm.X.shape[0]
        self.alpha = svm.X.new_full((1, n), 1 / n)
        parameters = svm.net.named_parameters()
        self.parameters = {name: theta.detach().clone() for name, theta in parameters}
        self.memory, self.slots = updates.init(self.parameters), None

    def step(self) -> Iteration:
        """One iteration; with gradients enabled, its graph reaches the learned parts."""
        svm, Y = self.svm, self.svm.y.unsqueeze(0)
        leaves = {name: theta.detach().requires_grad_() for name, theta in self.parameters.items()}
        with torch.enable_grad():
            H = with_bias(functional_call(svm.net, leaves, (svm.X,)))
        problem = SVMDual(features=H.detach()[:, :-1].unsqueeze(0), y=Y, C=svm.C)
        if self.slots is None:
            _, self.slots = self.solver.begin(problem, self.alpha)
        cell = FWNet(self.solver).cell(problem, problem.at(self.alpha), self.slots)
        self.alpha, self.slots = cell.it.x, cell.slots
        weights = head_of(H.detach(), Y, svm.C, self.alpha.detach()).weights
        with torch.enable_grad():
            loss = objective_value("svm", weights, H, Y, svm.C)
        found = torch.autograd.grad(loss, list(leaves.values()))
        gradients = dict(zip(leaves, found, strict=True))
        here = self.parameters
        slope = torch.stack([(g * here[name]).sum() for name, g in gradients.items()]).sum()
        right = (weights @ H.detach().mT).sign() == Y
        self.parameters, self.memory = self.updates(here, gradients, self.memory)
        return Iteration(
            loss.item(),
            right.float().mean().item(),
            cell.step_size.mean().item(),
            weights[0],
            here,
            problem.value(cell.it).sum(),
            slope,
        )

    def detach(self) -> None:
        """Cut the graph behind the run: the end of a window of truncated back-propagation."""
        self.alpha, self.slots = detached(self.alpha), detached(self.slots)
        self.parameters, self.memory = detached(self.parameters), detached(self.memory)


def detached(state: Any) -> Any:
    """A state of tensors in tuples and dictionaries, without its graph."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, dict):
        return {name: detached(part) for name, part in state.items()}
    if isinstance(state, tuple):
        parts = [detached(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


def decide(svm: DeepSVM, step: Iteration, X: Tensor) -> Tensor:  # (n, …) -> (n,)
    """Decision values of the deep SVM at an iteration."""
    with torch.no_grad():
        return with_bias(functional_call(svm.net, step.parameters, (X,))) @ step.weights
