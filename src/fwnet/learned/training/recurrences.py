"""Whole runs as episodes: any recurrence whose steps have a graph.

state, step <- recurrence.advance(state)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from torch import Tensor

from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Rollout
from fwnet.learned.training.tasks import TrainingTask, seeded


class Step(Protocol):
    """What one step of a run shows."""

    @property
    def loss(self) -> Any:
        """What is recorded: a number, or those of a batch."""

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

    def score(self, losses: Sequence[Any]) -> float:
        """What validation minimises: the mean loss of the second half, so that speed counts."""
        half = losses[len(losses) // 2 :]
        return float(sum(half) / len(half))

    def decided(self, losses: Sequence[Any]) -> bool:
        """Whether the score is known already, whatever the steps that would follow."""
        return False


@final
class OptimizerRun(Rollout, Generic[Shown]):
    """A run of a recurrence from its start."""

    def __init__(self, recurrence: Recurrence[Shown]) -> None:
        self.recurrence, self.state = recurrence, recurrence.start()
        self.losses: list[Any] = []

    def advance(self) -> Shown:
        """One step, and what it shows."""
        self.state, shown = self.recurrence.advance(self.state)
        self.losses.append(shown.loss)
        return shown

    @torch.no_grad()
    def record(self, steps: int) -> list[Shown]:
        """What the next steps show."""
        return [self.advance() for _ in range(steps)]

    def run(self, steps: int) -> Tensor:
        return torch.stack([self.advance().objective for _ in range(steps)]).sum()

    @torch.no_grad()
    def score(self, steps: int) -> float:
        """The score of the losses after `steps` steps, or once it is decided."""
        while len(self.losses) < steps and not self.recurrence.decided(self.losses):
            self.advance()
        return self.recurrence.score(self.losses)

    def detach(self) -> None:
        self.state = detached(self.state)


class RecurrenceTask(TrainingTask):
    """Runs that a subclass draws; an episode is one of them, where others have a batch.

    Training makes Σ_t objective_t small; the mean score of other runs chooses the weights.

    Attributes:
        steps: of the runs that choose; None for the longest horizon of training.
    """

    steps: int | None = None

    @abstractmethod
    def draw(self, learned: Any, generator: torch.Generator) -> Recurrence[Any]:
        """A run of what is learned."""

    def episode(
        self, learned: Any, config: MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        return partial(OptimizerRun, self.draw(learned, generator))

    def judge(self, config: MetaConfig) -> Callable[[Any], float]:
        count = math.ceil(config.validation_problems / config.batch)
        steps = config.limits[1] if self.steps is None else self.steps

        def judged(learned: Any) -> float:
            total = 0.0
            for place in range(count):
                generator = seeded(config.seed, "validation", place)
                total += OptimizerRun(self.draw(learned, generator)).score(steps)
            return total / count if math.isfinite(total) else math.inf

        return judged


def detached(state: Any) -> Any:
    """A state outside the autograd graph: tensors in tuples, lists, dictionaries, dataclasses."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(detached(part) for part in state))
    if isinstance(state, dict):
        return {name: detached(part) for name, part in state.items()}
    if isinstance(state, (tuple, list)):
        return type(state)(detached(part) for part in state)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: detached(getattr(state, f.name)) for f in fields(state)})
    return state
