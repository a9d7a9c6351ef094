"""Truncated back-propagation through any run whose steps have a graph: trains every L2LC.

`fwnet.learned.training.trainer` trains a slot on a family of problems. Here whole runs are
trained: a kernel network and its SVM, a softmax layer on minibatches, coordinates without
constraints.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


@final
@dataclass(frozen=True)
class MetaTraining:
    """How a learned optimizer is trained.

    Arguments:
        episodes: runs, each of another problem.
        horizon: steps of a run.
        window: steps between updates; the graph is cut there.
        lrs: rates of Adam that are tried, each from the same first weights.
        check_every: episodes between validations, which choose the weights that are kept.
    """

    episodes: int
    horizon: int
    window: int = 20
    lrs: tuple[float, ...] = (3e-3, 1e-2)
    check_every: int = 5


class UnrolledRun(Protocol):
    """A run of an optimizer on one problem."""

    def step(self) -> Tensor:
        """Take a step; its loss, with the graph of the window so far."""

    def score(self) -> float:
        """What the run has reached, by a measure that does not depend on the window."""

    def detach(self) -> None:
        """Cut the graph behind the run."""


@final
@dataclass(frozen=True)
class Trained:
    """What meta-training chose, and why.

    Arguments:
        lr: the rate of Adam that was best in validation.
        scores: of validation for each rate, the first before any training.
    """

    lr: float
    scores: dict[str, list[float]]

    @property
    def best(self) -> float:
        """The score of the weights that were kept."""
        return min(map(min, self.scores.values()))


def meta_train(
    learned: Sequence[nn.Module],
    training: Callable[[int], UnrolledRun],
    validation: Callable[[], UnrolledRun],
    plan: MetaTraining,
) -> Trained:
    """Minimise Σ_t loss_t over the weights of the modules; they end with the best of validation.

    Arguments:
        learned: modules whose weights are trained, in place.
        training: makes the run of an episode.
        validation: makes the run that chooses: the same problem each time, seen by no episode.
        plan: lengths and rates.

    Reference: Andrychowicz et al. (2016): truncated BPTT, early stopping.
    """
    first = best = _kept(learned)
    untrained = _validate(validation(), plan.horizon)
    scores: dict[float, list[float]] = {}
    for lr in plan.lrs:
        _load(learned, first)
        weights = [p for module in learned for p in module.parameters()]
        optimizer = torch.optim.Adam(weights, lr=lr)
        scores[lr] = [untrained]
        for episode in range(plan.episodes):
            _train(training(episode), plan, optimizer, weights)
            if (episode + 1) % plan.check_every and episode + 1 < plan.episodes:
                continue
            scores[lr].append(_validate(validation(), plan.horizon))
            if scores[lr][-1] <= min(map(min, scores.values())):
                best = _kept(learned)
    _load(learned, best)
    chosen = min(scores, key=lambda lr: min(scores[lr]))
    return Trained(chosen, {f"{lr:g}": found for lr, found in scores.items()})


def _train(
    run: UnrolledRun,
    plan: MetaTraining,
    optimizer: torch.optim.Optimizer,
    weights: list[nn.Parameter],
) -> None:
    for _ in range(plan.horizon // plan.window):
        with torch.enable_grad():
            loss = torch.stack([run.step() for _ in range(plan.window)]).sum()
        optimizer.zero_grad()
        loss.backward()
        size = nn.utils.clip_grad_norm_(weights, 1.0)
        if bool(size.isfinite()):  # otherwise skip the window: its gradient overflowed
            optimizer.step()
        run.detach()


@torch.no_grad()
def _validate(run: UnrolledRun, horizon: int) -> float:
    for _ in range(horizon):
        run.step()
    score = run.score()
    return score if math.isfinite(score) else math.inf


def _kept(learned: Sequence[nn.Module]) -> list[dict[str, Any]]:
    return [copy.deepcopy(module.state_dict()) for module in learned]


def _load(learned: Sequence[nn.Module], states: list[dict[str, Any]]) -> None:
    for module, state in zip(learned, states, strict=True):
        module.load_state_dict(state)


def seeded(build: Callable[[], Module], seed: int) -> Module:
    """A module whose first weights depend on the seed, not on the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
