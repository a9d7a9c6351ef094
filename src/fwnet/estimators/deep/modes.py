"""How the SVM on top moves while its network trains: solved, one step forward, or unrolled.

Each mode turns the features of an iteration into a loss whose gradient reaches the network:

    exact      w solves the SVM; held fixed. By the envelope theorem that is the gradient of P*
    forward    α moves by Frank-Wolfe steps, forward only; w = t Σ αᵢyᵢhᵢ is held fixed
    unrolled   the same steps with their graph: the gradient flows through α and w

t is the multiple with the least P: while α lags behind the network, the dual's 1/ρ is a poor one.

Minimising f(α) itself over the network would be wrong: a smaller margin gives a smaller f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fwnet.estimators.deep.head import Head, Penalty, head_of, solve_head, with_bias
from fwnet.layers import FWNet
from fwnet.problems import SVMDual

OBJECTIVES = ("svm", "squared_hinge", "logistic")


@final
@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """What one iteration sees: features with their graph, labels, C, which points."""

    features: Tensor  # (n, d)
    labels: Tensor  # (problems, n) of −1, +1
    C: Penalty
    points: Tensor  # (n,) indices


def objective_value(name: str, weights: Tensor, H: Tensor, Y: Tensor, C: Penalty) -> Tensor:
    """Mean over the problems of the loss at the margins mᵢ = yᵢ⟨w, hᵢ⟩.

    svm            (|w|² + Σ Cᵢ max(0, 1 − mᵢ)²)/ΣC = 2P(w)/ΣC: at most 1 at the solution
    squared_hinge  Σ Cᵢ max(0, 1 − mᵢ)²/ΣC
    logistic       Σ Cᵢ log(1 + exp(−mᵢ))/ΣC
    """
    margins = Y * (weights @ H.mT)
    share = C * H.new_ones(H.shape[0])
    total = share.sum()
    share = share / total
    if name == "logistic":
        return (share * softplus(-margins)).sum(-1).mean()
    loss = (share * (1 - margins).clamp_min(0).square()).sum(-1).mean()
    if name == "squared_hinge":
        return loss
    return loss + weights.square().sum(-1).mean() / total


class Mode(ABC):
    """The SVM on top during training; `state` is what a checkpoint keeps of it."""

    state: Tensor | None = None

    def __init__(self, objective: str) -> None:
        self.objective = objective

    @abstractmethod
    def begin(self, head: Head) -> None:
        """Start from the head that is exact for the first features of all points."""

    @abstractmethod
    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Head]:
        """The loss of a batch, to be differentiated, and the head behind it."""


@final
class ExactMode(Mode):
    """Solve the SVM of each batch; the last weights are the next start."""

    def begin(self, head: Head) -> None:
        self.state = head.weights

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Head]:
        H = with_bias(batch.features)
        head = solve_head(H.detach(), batch.labels, batch.C, self.state, tol=1e-9)
        self.state = head.weights
        return objective_value(self.objective, head.weights, H, batch.labels, batch.C), head


@final
class NetMode(Mode):
    """Steps of an FWNet on each batch, from the multipliers that the last visit left.

    The state is β = α/ρ of all points, `(problems, n)`: unlike α it does not depend on which
    points share a batch.

    Arguments:
        objective: see `objective_value`.
        net: the Frank-Wolfe network on the simplex.
        unrolled: differentiate through its steps.
    """

    def __init__(self, objective: str, net: FWNet, unrolled: bool) -> None:
        super().__init__(objective)
        self.net, self.unrolled = net, unrolled

    def begin(self, head: Head) -> None:
        # From α = 1/n, a network that moves faster than α settled in poor minima for some seeds.
        self.state = head.beta.clone()

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Head]:
        assert self.state is not None
        Y, C = batch.labels, batch.C
        H = with_bias(batch.features)
        features = batch.features if self.unrolled else batch.features.detach()
        start = self.state[:, batch.points]
        total = start.sum(-1, keepdim=True)
        start = torch.where(total > 0, start / total, 1.0 / start.shape[-1])
        problem = SVMDual(features=features.expand(len(Y), -1, -1), y=Y, C=C)
        with torch.set_grad_enabled(self.unrolled):
            alpha = self.net(problem, start).x
        head = head_of(H.detach(), Y, C, alpha.detach())
        self.state[:, batch.points] = head.beta
        weights = head.weights
        if self.unrolled:
            weights = _best_multiple((alpha * Y) @ H, H, Y, C, weights)
        return objective_value(self.objective, weights, H, Y, C), head


def _best_multiple(vector: Tensor, H: Tensor, Y: Tensor, C: Penalty, weights: Tensor) -> Tensor:
    """t·vector, equal to `weights`, with the gradient of both.

    t is the root of slope(t) = t|v|² − Σ Cᵢ max(0, 1 − t·aᵢ)·aᵢ with aᵢ = yᵢ⟨v, hᵢ⟩, so it moves
    with the data as dt = −dslope / slope'(t).
    """
    ahead = Y * (vector @ H.mT)
    square = vector.square().sum(-1)
    tiny = torch.finfo(square.dtype).tiny
    with torch.no_grad():
        t = (weights * vector).sum(-1) / square.clamp_min(tiny)
        curvature = square + (C * (t.unsqueeze(-1) * ahead < 1) * ahead.square()).sum(-1)
    left = (1 - t.unsqueeze(-1) * ahead).clamp_min(0)
    slope = t * square - (C * left * ahead).sum(-1)
    t = t - (slope - slope.detach()) / curvature.clamp_min(tiny)
    return t.unsqueeze(-1) * vector
