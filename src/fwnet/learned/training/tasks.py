"""TrainingTask: what something learned is trained on."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Rollout

Module = TypeVar("Module", bound=nn.Module)


class TrainingTask(ABC):
    """Episodes to train on, and the number by which weights are chosen.

        min over θ of E over episodes of Σ over stretches of loss(θ)

    `meta_train` owns the rest: updates, clipping, schedule, validation, patience, restarts, saving.

    Attributes:
        trains: the kinds of module that can be trained on it.

    Example:
        >>> from fwnet import learned
        >>> issubclass(learned.families.TrainingRuns, learned.TrainingTask)
        True
    """

    trains: ClassVar[tuple[type[nn.Module], ...]] = (nn.Module,)

    @abstractmethod
    def episode(
        self, learned: Any, config: MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        """Draw the problems of an episode; each call of the answer begins a run on them."""

    @abstractmethod
    def judge(self, config: MetaConfig) -> Callable[[Any], float]:
        """The validation: a function of what is learned, on the same problems each time."""

    def horizon(self, learned: Any) -> int | None:
        """The steps of an episode where the config has none; None for the config's unroll."""
        return None

    def describe(self, config: MetaConfig, generator: torch.Generator) -> str:
        """What must be the same to resume a training."""
        return type(self).__name__


@torch.no_grad()
def mean_loss(rollouts: Iterable[Rollout], steps: int) -> float:
    """The mean, over runs, of the loss of a number of steps."""
    losses = [rollout.run(steps).item() for rollout in rollouts]
    return sum(losses) / len(losses)


def seeded(*parts: object) -> torch.Generator:
    """A generator of its own for each purpose: nothing depends on what was drawn before."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def with_seed(build: Callable[[], Module], seed: int) -> Module:
    """A module whose initial weights depend on the seed, not on torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
