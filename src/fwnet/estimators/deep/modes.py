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
from typing import final

import torch
from torch import Tensor

from fwnet.estimators.deep.head import (
    Head,
    Penalty,
    head_of,
    primal_value,
    slope_of_multiple,
    solve_head,
    with_bias,
)
from fwnet.layers import FWNet
from fwnet.problems import SVMDual


def svm_loss(weights: Tensor, H: Tensor, Y: Tensor, C: Penalty) -> Tensor:
    """2P(w)/ΣC = (|w|² + Σ Cᵢ max(0, 1 − yᵢ⟨w, hᵢ⟩)²)/ΣC, the mean over the problems.

    At most 1 at the solution, since P(0) = ΣC/2.
    """
    total = (C * H.new_ones(H.shape[0])).sum()
    return 2 * primal_value(H, Y, C, weights).mean() / total


class Mode(ABC):
    """The SVM on top during training.

    Attributes:
        state: what a checkpoint keeps of it; None where each batch is solved anew.
    """

    state: Tensor | None = None

    @abstractmethod
    def begin(self, head: Head) -> None:
        """Start from the head that is exact for the first features of all points."""

    @abstractmethod
    def loss(self, features: Tensor, Y: Tensor, C: Penalty, points: Tensor) -> tuple[Tensor, Head]:
        """The loss of a batch, to be differentiated, and the head behind it.

        Arguments:
            features: `(n, d)`, with their graph.
            Y: labels −1, +1 `(problems, n)`.
            points: which of all points they are, `(n,)`.
        """


@final
class ExactMode(Mode):
    """Solve the SVM of each batch."""

    def begin(self, head: Head) -> None:
        """Nothing is carried from one batch to the next."""

    def loss(self, features: Tensor, Y: Tensor, C: Penalty, points: Tensor) -> tuple[Tensor, Head]:
        H = with_bias(features)
        head = solve_head(H.detach(), Y, C, tol=1e-9)
        if not bool((head.gap < 1).all()):  # NaN, or w = 0, which no gradient leaves
            raise FloatingPointError("the features are too large to solve the SVM of a batch.")
        return svm_loss(head.weights, H, Y, C), head


@final
class NetMode(Mode):
    """Steps of an FWNet on each batch, from the multipliers that the last visit left.

    The state is β = α/ρ of all points, `(problems, n)`: unlike α it does not depend on which
    points share a batch.

    Arguments:
        net: the Frank-Wolfe network on the simplex.
        unrolled: differentiate through its steps.
    """

    def __init__(self, net: FWNet, unrolled: bool) -> None:
        self.net, self.unrolled = net, unrolled

    def begin(self, head: Head) -> None:
        # From α = 1/n, a network that moves faster than α settled in poor minima for some seeds.
        self.state = head.beta.clone()

    def loss(self, features: Tensor, Y: Tensor, C: Penalty, points: Tensor) -> tuple[Tensor, Head]:
        assert self.state is not None
        H = with_bias(features)
        features = features if self.unrolled else features.detach()
        start = self.state[:, points]
        total = start.sum(-1, keepdim=True)
        start = torch.where(total > 0, start / total, 1.0 / start.shape[-1])
        problem = SVMDual(features=features.expand(len(Y), -1, -1), y=Y, C=C)
        with torch.set_grad_enabled(self.unrolled):
            alpha = self.net(problem, start).x
        head = head_of(H.detach(), Y, C, alpha.detach())
        self.state[:, points] = head.beta
        weights = head.weights
        if self.unrolled:
            weights = _best_multiple((alpha * Y) @ H, H, Y, C, weights)
        return svm_loss(weights, H, Y, C), head


def _best_multiple(vector: Tensor, H: Tensor, Y: Tensor, C: Penalty, weights: Tensor) -> Tensor:
    """t·vector, equal to `weights`, with the gradient of both.

    t is the root of the slope of P(t v), so it moves with the data as dt = −dslope / slope'(t).
    """
    ahead, square = Y * (vector @ H.mT), vector.square().sum(-1)
    with torch.no_grad():
        t = (weights * vector).sum(-1) / square.clamp_min(torch.finfo(square.dtype).tiny)
    slope, curvature = slope_of_multiple(t, square, ahead, C * ahead)
    t = t - (slope - slope.detach()) / curvature.detach()
    return t.unsqueeze(-1) * vector
