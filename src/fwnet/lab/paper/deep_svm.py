"""Deep SVMs as in the paper: each iteration moves α forward and the kernel network by a gradient.

    α <- one Frank-Wolfe cell on the SVM of the present features
    θ <- θ − update of ∇θ P(w, θ),   w = t Σ αᵢyᵢhᵢ held fixed

The same recurrence serves Adam and LSTMs, evaluation and meta-training.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fwnet.estimators.deep.head import head_of, with_bias
from fwnet.estimators.deep.modes import objective_value
from fwnet.lab.paper.simplex_runs import Mover
from fwnet.learned.networks import Parameters, Updates, descend, first_parameters, forward
from fwnet.learned.training.recurrences import Recurrence
from fwnet.problems import SVMDual


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

        objective = f(α) / c  +  ⟨∇θ P, θ⟩,   c = f(α), held fixed, after α has moved

    The first term trains the slots that move α, the second the updates of the network; each has
    the gradient of what it stands for: f on the present features, P at the present w.

    Arguments:
        loss: 2P/(C n) of the SVM with the present α and features: at most 1 at its solution.
        accuracy: on the training points.
        step_size: γ.
        weights: of the SVM, `(d + 1,)`, the bias last.
        parameters: of the network, with the graph of the learned updates that led to them.
        objective: what meta-training minimises.
    """

    loss: float
    accuracy: float
    step_size: float
    weights: Tensor
    parameters: Parameters
    objective: Tensor


class DeepState(NamedTuple):
    """Where a run is: the network (batch norm counts in place), α `(1, n)`, the weights."""

    net: nn.Module
    alpha: Tensor
    slots: Any  # of the mover; None before the first step
    parameters: Parameters
    memory: Any


@final
@dataclass(frozen=True, eq=False)
class DeepTraining(Recurrence[Iteration]):
    """Training from α = 1/n and the network's present weights, which stay as they are.

    Arguments:
        svm: what is trained.
        mover: moves α, once an iteration.
        updates: moves the network.
    """

    svm: DeepSVM
    mover: Mover
    updates: Updates

    def start(self) -> DeepState:
        n, parameters = self.svm.X.shape[0], first_parameters(self.svm.net)
        alpha = self.svm.X.new_full((1, n), 1 / n)
        net = copy.deepcopy(self.svm.net)
        return DeepState(net, alpha, None, parameters, self.updates.init(parameters))

    def advance(self, state: DeepState) -> tuple[DeepState, Iteration]:
        svm, Y = self.svm, self.svm.y.unsqueeze(0)
        net, alpha, slots, parameters, memory = state
        leaves, features = forward(net, parameters, svm.X)
        with torch.enable_grad():
            H = with_bias(features)
        problem = SVMDual(features=H.detach()[:, :-1].unsqueeze(0), y=Y, C=svm.C)
        if slots is None:
            slots = self.mover.init(problem, alpha)[1]
        it, step_size, slots = self.mover(problem, problem.at(alpha), slots)
        alpha = it.x
        weights = head_of(H.detach(), Y, svm.C, alpha.detach()).weights
        with torch.enable_grad():
            loss = objective_value("svm", weights, H, Y, svm.C)
        moved, memory, slope = descend(self.updates, parameters, memory, leaves, loss)
        right = (weights @ H.detach().mT).sign() == Y
        dual = problem.value(problem.at(alpha)).sum()
        shown = Iteration(
            loss.item(),
            right.float().mean().item(),
            step_size,
            weights[0],
            parameters,
            dual / dual.detach() + slope,
        )
        return DeepState(net, alpha, slots, moved, memory), shown


@torch.no_grad()
def decide(net: nn.Module, step: Iteration, X: Tensor) -> Tensor:  # (n, …) -> (n,)
    """Decision values of the deep SVM at an iteration."""
    features = functional_call(copy.deepcopy(net).eval(), step.parameters, (X,))
    return with_bias(features) @ step.weights
