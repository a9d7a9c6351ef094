"""MetaConfig: how something learned is trained."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

import torch

from fwnet.learned.controllers import (
    LearnedAtoms,
    LearnedDirection,
    LearnedLowRank,
    LearnedPairwise,
    LearnedStep,
)
from fwnet.learned.ranges import check_limits, low_and_high, sample_size
from fwnet.learned.training.gradients import Backpropagation, EvolutionStrategies, MetaGradient
from fwnet.learned.training.losses import LogSuboptimality, MetaLoss
from fwnet.numerics import checks


class RateSchedule(ABC):
    """The factor on the learning rate along a training."""

    @abstractmethod
    def __call__(self, share: float) -> float:
        """The factor where this share of the episodes is done, in [0, 1)."""


@final
@dataclass(frozen=True)
class Cosine(RateSchedule):
    """From 1 to `final` along a cosine.

    factor = (1 + final)/2 + (1 − final)/2 · cos(π share)

    Example:
        >>> from fwnet import learned
        >>> config = learned.MetaConfig(schedule=learned.Cosine(final=0.1))
        >>> round(config.schedule(0.5), 2)
        0.55
    """

    final: float = 0.1

    def __post_init__(self) -> None:
        checks.non_negative("Cosine(final=...)", self.final)

    def __call__(self, share: float) -> float:
        return (1 + self.final) / 2 + (1 - self.final) / 2 * math.cos(math.pi * share)


@final
@dataclass(frozen=True)
class Linear(RateSchedule):
    """From 1 to `final` along a line; `Linear(1.0)` keeps the learning rate.

    factor = 1 − (1 − final) · share

    Example:
        >>> from fwnet import learned
        >>> config = learned.MetaConfig(schedule=learned.Linear(final=0.5))
        >>> round(config.schedule(0.5), 2)
        0.75
    """

    final: float = 0.1

    def __post_init__(self) -> None:
        checks.non_negative("Linear(final=...)", self.final)

    def __call__(self, share: float) -> float:
        return 1 - (1 - self.final) * share


@final
@dataclass(frozen=True)
class MetaConfig:
    """How a controller, or anything else that is learned, is trained.

    Arguments:
        steps: episodes, each with new problems.
        unroll: solver steps between two updates of the weights.
        horizon: solver steps of an episode, log-uniform between two limits, or one number; if left
            out, what the task says (the `max_steps` of a solver that is given), else the unroll.
        curriculum: let the upper limit of the horizon grow over the first half of the training.
        batch: problems of one size and shape that are solved at once.
        groups: such batches per episode, of different sizes; their gradients are averaged.
        learning_rate: of Adam; several are tried one after the other from the same initial weights,
            and validation chooses.
        clip: largest norm of a meta-gradient.
        average: decay of an exponential moving average of the weights, in [0, 1). Validation judges
            this average, which jumps less than the weights, and training returns it. 0: no average.
        gradient: estimator of the meta-gradient; see `Backpropagation`, `EvolutionStrategies` and
            `PersistentES`.
        loss: what is minimised; see `LogSuboptimality`, `SumOfValues`.
        validate_every: episodes between two validations; the best weights seen are kept.
        patience: validations without a new best after which training stops.
        validation_problems: how many problems a validation solves.
        seed: of everything that is random.
        schedule: of the learning rate; see `Cosine`, `Linear`.
        restarts: trainings from other initial weights; the first begins with those that are given,
            and validation chooses.
        validation_loss: by which weights are chosen, over the longest horizon, such as
            `FinalSuboptimality()`; the same as `loss` if left out. It is for families of problems:
            a `TrainingTask` has its own.

    Example:
        >>> from fwnet import learned
        >>> config = learned.MetaConfig(steps=2, unroll=5, batch=2)
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> controller, history = learned.meta_train(learned.LearnedStep(), family, config)
        >>> len(history)
        2
    """

    steps: int = 300
    unroll: int = 20
    horizon: int | tuple[int, int] | None = None
    curriculum: bool = False
    batch: int = 8
    groups: int = 1
    learning_rate: float | tuple[float, ...] = 3e-3
    clip: float = 1.0
    average: float = 0.0
    gradient: MetaGradient = field(default_factory=Backpropagation)
    loss: MetaLoss = field(default_factory=LogSuboptimality)
    validate_every: int = 20
    patience: int = 1000
    validation_problems: int = 16
    seed: int = 0
    schedule: RateSchedule = field(default_factory=Cosine)
    restarts: int = 1
    validation_loss: MetaLoss | None = None

    @classmethod
    def suited_to(cls, controller: object) -> MetaConfig:
        """What trains such a controller well, and what `meta_train` uses without a config.

        Example:
            >>> from dataclasses import replace
            >>> from fwnet import learned
            >>> config = learned.MetaConfig.suited_to(learned.LearnedStep())
            >>> config.learning_rate, replace(config, steps=20).steps
            (0.1, 20)
        """
        return _SUITED.get(type(controller), cls())

    def __post_init__(self) -> None:
        whole = ("steps", "unroll", "batch", "groups", "validate_every", "patience", "restarts")
        for name in (*whole, "validation_problems"):
            checks.at_least(f"MetaConfig({name}=...)", getattr(self, name), 1)
        if not self.rates:
            raise ValueError("MetaConfig(learning_rate=...) needs at least one rate; got none.")
        for rate in self.rates:
            checks.positive("MetaConfig(learning_rate=...)", rate)
        checks.positive("MetaConfig(clip=...)", self.clip)
        if not 0 <= self.average < 1:
            raise ValueError(
                f"MetaConfig(average=...) must be in [0, 1), such as 0.98; got {self.average!r}."
            )
        if self.horizon is not None:
            check_limits("MetaConfig(horizon=...)", self.horizon, 1)
        if self.validation_loss is not None and not isinstance(self.validation_loss, MetaLoss):
            raise TypeError(
                f"MetaConfig(validation_loss=...) must be a MetaLoss; got {self.validation_loss!r}."
            )
        kinds = {
            "gradient": (MetaGradient, "a MetaGradient such as EvolutionStrategies()"),
            "loss": (MetaLoss, "a MetaLoss such as SumOfValues()"),
            "schedule": (RateSchedule, "a RateSchedule such as Cosine()"),
            "seed": (int, "a whole number"),
        }
        for name, (kind, words) in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"MetaConfig({name}=...) must be {words}; got {value!r}.")

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that are tried."""
        rate = self.learning_rate
        return tuple(rate) if isinstance(rate, tuple | list) else (rate,)

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest horizon."""
        horizon = self.unroll if self.horizon is None else self.horizon
        return low_and_high(horizon)

    def horizon_at(self, step: int, generator: torch.Generator) -> int:
        """The horizon of an episode."""
        low, high = self.limits
        if self.curriculum:
            share = min(1.0, 2 * (step + 1) / self.steps)
            high = round(low * (high / low) ** share)
        return sample_size((low, high), generator)


_SUITED: dict[type, MetaConfig] = {
    LearnedStep: MetaConfig(
        steps=60,
        unroll=1000,
        horizon=(30, 1000),
        batch=12,
        learning_rate=1e-1,
        gradient=EvolutionStrategies(4, 0.3),
        validate_every=15,
    ),
    LearnedDirection: MetaConfig(steps=320, unroll=14, validation_problems=24),
    LearnedAtoms: MetaConfig(
        steps=10,
        unroll=16,
        learning_rate=5e-2,
        gradient=EvolutionStrategies(3, 0.15),
        validate_every=5,
    ),
    LearnedPairwise: MetaConfig(
        steps=60,
        unroll=200,
        horizon=(40, 200),
        learning_rate=8e-2,
        gradient=EvolutionStrategies(4, 0.3),
        validate_every=10,
    ),
    LearnedLowRank: MetaConfig(
        steps=36,
        unroll=40,
        horizon=(10, 40),
        batch=4,
        learning_rate=6e-2,
        gradient=EvolutionStrategies(3, 0.2),
        validate_every=6,
        validation_problems=12,
    ),
}
