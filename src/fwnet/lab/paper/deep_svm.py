"""Deep SVMs as in the paper: each iteration moves α forward and the kernel network by a gradient.

    α <- one Frank-Wolfe cell on the SVM of the present features
    θ <- θ − update of ∇θ P(w, θ),   w = t Σ αᵢyᵢhᵢ held fixed

The same recurrence serves Adam and LSTMs, evaluation and meta-training. Several deep SVMs of one
shape run as one batch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fwnet.estimators.deep.head import head_of, solve_head
from fwnet.iterates import Iterate
from fwnet.lab.paper.measures import reached
from fwnet.lab.paper.simplex_runs import Mover
from fwnet.learned.networks import Parameters, Updates, first_parameters
from fwnet.learned.training.recurrences import Recurrence
from fwnet.numerics.linear_maps import DenseMap
from fwnet.problems import LeastSquares


@final
@dataclass(frozen=True, eq=False)
class DeepSVM:
    """Deep SVMs to be trained.

    Arguments:
        X: points `(batch, n, …)`.
        y: labels −1, +1 `(batch, n)`.
        nets: a kernel network each; more than one must have no buffers, as batch norm has.
        C: of the SVMs.
        levels: the losses that count as reached in a score, `(batch,)`; None scores by the mean.
    """

    X: Tensor
    y: Tensor
    nets: Sequence[nn.Module]
    C: float = 1.0
    levels: np.ndarray | None = None


@final
@dataclass(frozen=True, eq=False)
class Iteration:
    """What one iteration reached, before the weights move.

        objective = mean of P(w(α))/c + ⟨∇θ log P, θ⟩,   c = P, held fixed, after α has moved

    The first term trains the slots that move α, on the present features; the second the updates of
    the networks, at the present w. Both have the gradient of log P, the loss that is judged.
    Without the logarithm the first iterations, whose P is a hundred times that of the last, would
    be all that training sees.

    Arguments:
        loss: 2P/(C n) of the SVMs with the present α and features: at most 1 at a solution.
        accuracy: on the training points, `(batch,)`.
        step_size: γ, the mean of the batch.
        weights: of the SVMs, `(batch, d + 1)`, the bias last.
        parameters: of the networks, with the graph of the learned updates that led to them.
        objective: what meta-training minimises.
    """

    loss: Tensor
    accuracy: Tensor
    step_size: float
    weights: Tensor
    parameters: Parameters
    objective: Tensor


class DeepState(NamedTuple):
    """Where a run is: the networks (batch norm counts in place), α `(batch, n)`, the weights."""

    nets: Sequence[nn.Module]
    alpha: Tensor
    slots: Any  # of the mover; None before the first step
    parameters: Parameters
    memory: Any


@final
@dataclass(frozen=True, eq=False)
class DeepTraining(Recurrence[Iteration]):
    """Training from α = 1/n and the networks' present weights, which stay as they are.

    Arguments:
        svm: what is trained.
        mover: moves α, once an iteration.
        updates: moves the networks.
    """

    svm: DeepSVM
    mover: Mover
    updates: Updates

    def start(self) -> DeepState:
        batch, n = self.svm.y.shape
        nets = [copy.deepcopy(net) for net in self.svm.nets]
        parameters = _stacked([first_parameters(net) for net in nets])
        alpha = self.svm.X.new_full((batch, n), 1 / n)
        return DeepState(nets, alpha, None, parameters, self.updates.init(parameters))

    def advance(self, state: DeepState) -> tuple[DeepState, Iteration]:
        svm, Y = self.svm, self.svm.y.unsqueeze(1)
        nets, alpha, slots, parameters, memory = state
        leaves = {name: theta.detach().requires_grad_() for name, theta in parameters.items()}
        with torch.enable_grad():
            H = _features(nets, leaves, svm.X)
        held = H.detach()
        problem = LeastSquares(
            (svm.y.unsqueeze(-1) * held).mT, held.new_zeros(len(held), held.shape[-1]), 1 / svm.C
        )
        if slots is None:
            slots = self.mover.init(problem, alpha)[1]
        it, step_size, slots = self.mover(problem, problem.at(alpha), slots)
        weights = head_of(held, Y, svm.C, it.x.detach().unsqueeze(1)).weights
        with torch.enable_grad():
            losses = _losses(weights, H, Y, svm.C)
            found = torch.autograd.grad(losses.sum(), list(leaves.values()))
        gradients = dict(zip(leaves, found, strict=True))
        slope = _slope(parameters, gradients, losses.detach())
        moved, memory = self.updates(parameters, gradients, memory)
        right = (weights @ held.mT).sign() == Y
        moving = _losses(_along(it.x.unsqueeze(1) * Y @ held, weights), held, Y, svm.C)
        shown = Iteration(
            losses.detach(),
            right.float().mean((1, 2)),
            step_size,
            weights[:, 0],
            parameters,
            (moving / moving.detach()).mean() + slope,
        )
        return DeepState(nets, it.x, slots, moved, memory), shown

    def score(self, losses: Sequence[Any]) -> float:
        """Mean iterations to the levels; T (1 + log(least/level)) where a level is not reached.

        The mean loss if there are no levels.
        """
        curves = torch.stack(list(losses)).double().numpy().T  # (batch, T)
        if not np.isfinite(curves[:, -1]).all():
            return float("inf")
        if self.svm.levels is None:
            return float(curves.mean())
        pairs = zip(curves, self.svm.levels, strict=True)
        counts = np.array([reached(curve, level) for curve, level in pairs])
        missed = curves.shape[1] * (1 + np.log(curves.min(1) / self.svm.levels))
        return float(np.where(np.isfinite(counts), counts, missed).mean())

    def decided(self, losses: Sequence[Any]) -> bool:
        """Whether every level was reached."""
        if self.svm.levels is None or not losses:
            return False
        least = torch.stack(list(losses)).amin(0).double().numpy()
        return bool((least <= self.svm.levels).all())


@final
class ExactSVM:
    """α solves the SVM of the present features: what `DeepSVC` does by default."""

    def init(self, problem: LeastSquares, alpha: Tensor | None = None) -> tuple[Iterate, None]:
        assert alpha is not None
        return problem.at(alpha), None

    def __call__(
        self, problem: LeastSquares, it: Iterate, state: None
    ) -> tuple[Iterate, float, None]:
        assert isinstance(problem.matrix, DenseMap)
        assert problem.ridge is not None
        C = 1.0 / float(problem.ridge)
        signed = problem.matrix.matrix.mT  # yᵢhᵢ, whose last entry is yᵢ
        y = signed[..., -1:]
        heads = (solve_head(H, each.mT, C) for H, each in zip(signed * y, y, strict=True))
        beta = torch.cat([head.beta for head in heads])
        return problem.at(beta / beta.sum(-1, keepdim=True)), float("nan"), None


@torch.no_grad()
def decide(nets: Sequence[nn.Module], step: Iteration, X: Tensor) -> Tensor:
    """Decision values of the deep SVMs at an iteration: `(batch, n, …)` -> `(batch, n)`."""
    evaluated = [copy.deepcopy(net).eval() for net in nets]
    H = _features(evaluated, step.parameters, X)
    return (H @ step.weights.unsqueeze(-1)).squeeze(-1)


def _stacked(parameters: Sequence[Parameters]) -> Parameters:
    """`(batch, *shape)` of every weight; one network keeps its shapes, which name the layers."""
    if len(parameters) == 1:
        return parameters[0]
    return {name: torch.stack([each[name] for each in parameters]) for name in parameters[0]}


def _features(nets: Sequence[nn.Module], parameters: Parameters, X: Tensor) -> Tensor:
    """Features of all points, the constant one last: `(batch, n, d + 1)`."""
    if len(nets) == 1:
        F = functional_call(nets[0], parameters, (X[0],)).unsqueeze(0)
    else:
        F = vmap(lambda theta, x: functional_call(nets[0], theta, (x,)))(parameters, X)
    return torch.cat([F, F.new_ones(*F.shape[:-1], 1)], -1)


def _losses(weights: Tensor, H: Tensor, Y: Tensor, C: float) -> Tensor:  # (batch,)
    """2P/(C n) = mean of max(0, 1 − yᵢ⟨w, hᵢ⟩)² + |w|²/(C n)."""
    errors = (1 - Y * (weights @ H.mT)).clamp_min(0).square().mean(-1)
    return (errors + weights.square().sum(-1) / (C * H.shape[-2])).squeeze(1)


def _along(vector: Tensor, weights: Tensor) -> Tensor:
    """The weights as t Σ αᵢyᵢhᵢ with the graph of α; t, which minimises P, needs none."""
    fixed = vector.detach()
    squares = fixed.square().sum(-1, keepdim=True).clamp_min(torch.finfo(fixed.dtype).tiny)
    return (weights * fixed).sum(-1, keepdim=True) / squares * vector


def _slope(parameters: Parameters, gradients: Parameters, losses: Tensor) -> Tensor:
    """Σ⟨∇θ log P, θ⟩ over the weights that learned updates moved, the mean of the batch."""
    total, batch = torch.zeros(()), len(losses)
    for name, theta in parameters.items():
        if theta.requires_grad:
            each = (gradients[name] * theta).reshape(batch, -1).sum(1)
            total = total + (each / losses).mean()
    return total
