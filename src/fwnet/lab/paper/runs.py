"""The run that all experiments share: steps, recorded losses, a score, a graph that can be cut.

state, step <- recurrence.advance(state)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from torch import Tensor

from fwnet.learned.training.rollouts import detached


class Step(Protocol):
    """What one step of a run shows."""

    @property
    def loss(self) -> float:
        """What is recorded."""

    @property
    def objective(self) -> Tensor:
        """What meta-training minimises, with the graph of the learned parts."""


Shown = TypeVar("Shown", bound=Step)


class Recurrence(ABC, Generic[Shown]):
    """An optimizer on one problem: state in, state out."""

    @abstractmethod
    def start(self) -> Any:
        """The state before the first step."""

    @abstractmethod
    def advance(self, state: Any) -> tuple[Any, Shown]:
        """One step; with gradients enabled, its graph reaches the learned parts."""

    def score(self, losses: Sequence[float]) -> float:
        """What validation minimises: the mean loss of the second half, so that speed counts."""
        half = losses[len(losses) // 2 :]
        return sum(half) / len(half)


@final
class OptimizerRun(Generic[Shown]):
    """A run of a recurrence from its start; an `UnrolledRun` of meta-training."""

    def __init__(self, recurrence: Recurrence[Shown]) -> None:
        self.recurrence, self.state = recurrence, recurrence.start()
        self.losses: list[float] = []

    def advance(self) -> Shown:
        """One step, and what it shows."""
        self.state, shown = self.recurrence.advance(self.state)
        self.losses.append(shown.loss)
        return shown

    @torch.no_grad()
    def record(self, steps: int) -> list[Shown]:
        """What the next steps show."""
        return [self.advance() for _ in range(steps)]

    def step(self) -> Tensor:
        """One step; its objective."""
        return self.advance().objective

    def score(self) -> float:
        """The recurrence's score of the losses so far."""
        return self.recurrence.score(self.losses)

    def detach(self) -> None:
        """Cut the graph behind the run: the end of a window of truncated back-propagation."""
        self.state = detached(self.state)


def losses(recurrence: Recurrence[Any], steps: int) -> list[float]:
    """The losses of a run from the start."""
    run = OptimizerRun(recurrence)
    run.record(steps)
    return run.losses


@contextmanager
def no_denormals() -> Iterator[None]:
    """Flush numbers below 1e-38 to 0: a sharp softmin is full of them, and each is slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
