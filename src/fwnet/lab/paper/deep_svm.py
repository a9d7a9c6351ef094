"""Deep SVMs as in the paper: each iteration moves α forward and the kernel network by a gradient.

    α <- one Frank-Wolfe cell on the SVM of the present features
    θ <- θ − update of ∇θ P(w, θ),   w = t Σ αᵢyᵢhᵢ held fixed

One loop serves Adam and LSTMs, evaluation and meta-training: updates are functions of the weights.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fwnet.estimators.deep.head import head_of, with_bias
from fwnet.estimators.deep.modes import objective_value
from fwnet.lab.paper.simplex_runs import Coordinates
from fwnet.lab.paper.updates import Parameters, Updates
from fwnet.layers import FWNet
from fwnet.learned.training.rollouts import detached
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe


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


class Mover(Protocol):
    """How α moves on the SVM of the present features: state in, state out."""

    def init(self, problem: SVMDual, alpha: Tensor) -> Any:
        """The state before the first step."""

    def __call__(self, problem: SVMDual, alpha: Tensor, state: Any) -> tuple[Tensor, float, Any]:
        """The next α `(1, n)`, the step size (NaN if there is none), the next state."""


@final
@dataclass(frozen=True)
class Cell:
    """One cell of a Frank-Wolfe network."""

    solver: FrankWolfe

    def init(self, problem: SVMDual, alpha: Tensor) -> Any:
        return self.solver.begin(problem, alpha)[1]

    def __call__(self, problem: SVMDual, alpha: Tensor, state: Any) -> tuple[Tensor, float, Any]:
        cell = FWNet(self.solver).cell(problem, problem.at(alpha), state)
        return cell.it.x, cell.step_size.mean().item(), cell.slots


@final
@dataclass(frozen=True)
class Descent:
    """One update of an unconstrained optimizer, in coordinates of the simplex."""

    coordinates: Coordinates
    updates: Updates

    def init(self, problem: SVMDual, alpha: Tensor) -> Any:
        theta = {"theta": self.coordinates.start(alpha.shape)}
        return theta, self.updates.init(theta)

    def __call__(self, problem: SVMDual, alpha: Tensor, state: Any) -> tuple[Tensor, float, Any]:
        theta, memory = state
        gradient = self.coordinates.gradient(problem, theta["theta"].detach())
        moved, memory = self.updates(theta, {"theta": gradient}, memory)
        theta = {"theta": self.coordinates.inside(moved["theta"])}
        return self.coordinates.point(theta["theta"]), float("nan"), (theta, memory)


@final
class DeepRun:
    """A run from α = 1/n and the network's present weights, which stay as they are.

    Arguments:
        svm: what is trained.
        mover: moves α, once an iteration.
        updates: moves the network.
    """

    def __init__(self, svm: DeepSVM, mover: Mover, updates: Updates) -> None:
        self.svm, self.mover, self.updates = svm, mover, updates
        self.net = copy.deepcopy(svm.net)  # batch norm counts in place
        n = svm.X.shape[0]
        self.alpha = svm.X.new_full((1, n), 1 / n)
        parameters = svm.net.named_parameters()
        self.parameters = {name: theta.detach().clone() for name, theta in parameters}
        self.memory, self.state, self.begun = updates.init(self.parameters), None, False

    def step(self) -> Iteration:
        """One iteration; with gradients enabled, its graph reaches the learned parts."""
        svm, Y = self.svm, self.svm.y.unsqueeze(0)
        leaves = {name: theta.detach().requires_grad_() for name, theta in self.parameters.items()}
        with torch.enable_grad():
            H = with_bias(functional_call(self.net, leaves, (svm.X,)))
        problem = SVMDual(features=H.detach()[:, :-1].unsqueeze(0), y=Y, C=svm.C)
        if not self.begun:
            self.state, self.begun = self.mover.init(problem, self.alpha), True
        self.alpha, step_size, self.state = self.mover(problem, self.alpha, self.state)
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
            step_size,
            weights[0],
            here,
            problem.value(problem.at(self.alpha)).sum(),
            slope,
        )

    def detach(self) -> None:
        """Cut the graph behind the run: the end of a window of truncated back-propagation."""
        self.alpha, self.state = detached(self.alpha), detached(self.state)
        self.parameters, self.memory = detached(self.parameters), detached(self.memory)


@final
class DeepEpisode:
    """A deep SVM's run as an episode of meta-training.

        loss_t = f(α_{t+1}) / c  +  ⟨∇θ P, θ_t⟩,   c = f(α_{t+1}), held fixed

    The first term trains the slots that move α, the second the updates of the network; each has
    the gradient of what it stands for: f on the present features, P at the present w.
    """

    def __init__(self, run: DeepRun) -> None:
        self.run, self.losses = run, list[float]()

    def step(self) -> Tensor:
        """One iteration; the loss of its learned parts."""
        seen = self.run.step()
        self.losses.append(seen.loss)
        return seen.dual / seen.dual.detach() + seen.slope

    def score(self) -> float:
        """The mean loss of the second half: speed and end alike."""
        half = self.losses[len(self.losses) // 2 :]
        return sum(half) / len(half)

    def detach(self) -> None:
        """Cut the graph."""
        self.run.detach()


@torch.no_grad()
def decide(net: nn.Module, step: Iteration, X: Tensor) -> Tensor:  # (n, …) -> (n,)
    """Decision values of the deep SVM at an iteration."""
    features = functional_call(copy.deepcopy(net).eval(), step.parameters, (X,))
    return with_bias(features) @ step.weights
