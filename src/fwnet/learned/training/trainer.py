"""meta_train: train a controller on a family of problems."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TypeVar, final

import torch
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from fwnet.learned.controllers import Controller
from fwnet.learned.families import ProblemFamily
from fwnet.learned.families.base import check_family, check_limits, low_and_high
from fwnet.learned.training.gradients import Backpropagation, Episode, MetaGradient
from fwnet.learned.training.losses import LogSuboptimality, MetaLoss
from fwnet.learned.training.ranks import Stream, gathered, same_everywhere
from fwnet.learned.training.rollouts import Drawn, Rollout, draw, sampled
from fwnet.learned.training.runs import MetaHistory, MetaRecord, Run, TrainingState
from fwnet.numerics import checks
from fwnet.show.progress import progress_bar

_C = TypeVar("_C", bound=Controller)


@final
@dataclass(frozen=True)
class MetaConfig:
    """How a controller is trained.

    Arguments:
        steps: episodes, each with new problems.
        unroll: solver steps between two updates of the weights.
        horizon: solver steps of an episode, log-uniform between two limits, or one number; the
            unroll if left out.
        curriculum: let the upper limit of the horizon grow over the first half of the training.
        batch: problems of one size and shape that are solved at once.
        groups: such batches per episode, of different sizes; their gradients are averaged.
        learning_rate: of Adam; falls to a tenth along a cosine.
        clip: largest norm of a meta-gradient.
        gradient: how it is found; see `Backpropagation`, `EvolutionStrategies`, `PersistentES`.
        loss: what is made small; see `LogSuboptimality`, `SumOfValues`.
        validate_every: episodes between two validations; the best weights seen are kept.
        patience: validations without a new best after which training stops.
        validation_problems: how many problems a validation solves.
        seed: of everything that is random.
    """

    steps: int = 300
    unroll: int = 20
    horizon: int | tuple[int, int] | None = None
    curriculum: bool = False
    batch: int = 8
    groups: int = 1
    learning_rate: float = 3e-3
    clip: float = 1.0
    gradient: MetaGradient = field(default_factory=Backpropagation)
    loss: MetaLoss = field(default_factory=LogSuboptimality)
    validate_every: int = 20
    patience: int = 1000
    validation_problems: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        whole = ("steps", "unroll", "batch", "groups", "validate_every", "patience")
        for name in (*whole, "validation_problems"):
            checks.at_least(f"MetaConfig({name}=...)", getattr(self, name), 1)
        checks.positive("MetaConfig(learning_rate=...)", self.learning_rate)
        checks.positive("MetaConfig(clip=...)", self.clip)
        if self.horizon is not None:
            check_limits("MetaConfig(horizon=...)", self.horizon, 1)
        for name, kind in (("gradient", MetaGradient), ("loss", MetaLoss), ("seed", int)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                word = "whole number" if kind is int else kind.__name__
                raise TypeError(f"MetaConfig({name}=...) must be a {word}; got {value!r}.")

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
        unit = float(torch.rand((), generator=generator, dtype=torch.float64))
        return min(high, int(low * ((high + 1) / low) ** unit))


def meta_train(
    controller: _C,
    family: ProblemFamily,
    config: MetaConfig | None = None,
    *,
    validation: ProblemFamily | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    progress: bool = False,
) -> tuple[_C, MetaHistory]:
    """Train a controller; the one that is given stays as it is.

        min over θ of E over problems of the family of loss(f(x_1), …, f(x_T)),   x_t steered by θ

    Arguments:
        controller: with the weights to start from.
        family: problems to train on; a test family should share nothing with it, see
            `SVMFamily.split`.
        config: how.
        validation: problems to choose the weights by; new ones of `family` if left out.
        out: a folder for the training's state, curves and best controller. The same call again
            goes on from there, and ends bit for bit where an uninterrupted one would (on one kind
            of processor: others round differently).
        minutes: stop after this time; what was done is saved in `out`.
        progress: show a bar (needs rich).

    Returns:
        The controller with the best weights by validation, and the history.

    Example:
        >>> from fwnet import learned
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> config = learned.MetaConfig(steps=2, unroll=5)
        >>> controller, history = learned.meta_train(learned.LearnedStep(), family, config)
        >>> len(history)
        2
    """
    config = MetaConfig() if config is None else config
    if not isinstance(controller, Controller):
        raise TypeError(f"meta_train(controller) must be a Controller; got {controller!r}.")
    if not isinstance(config, MetaConfig):
        raise TypeError(f"meta_train(config) must be a MetaConfig; got {config!r}.")
    if minutes is not None:
        checks.positive("meta_train(minutes=...)", minutes)
    check_family("meta_train(family)", family)
    others = family if validation is None else validation
    check_family("meta_train(validation=...)", others)
    if others.domain != family.domain:
        raise ValueError(
            f"meta_train(validation=...) must be a family over {family.domain}, as the one that is "
            f"trained on; it is over {others.domain}."
        )
    trained = copy.deepcopy(controller)
    judges = _judges(others, config)
    state = TrainingState.fresh(trained, config.learning_rate)
    run = None if out is None else Run(Path(out), _facts(config, trained, family, judges))
    if run is not None:
        run.restore(state)
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    with ExitStack() as stack:
        show = progress_bar(stack, config.steps) if progress else None
        while state.step < config.steps and state.waited < config.patience:
            if same_everywhere(time.monotonic() >= until):
                break
            _episode(state, family, judges, config)
            if show is not None:
                show(state.step, f"validation {state.best_loss:.3f}")
            if run is not None:
                run.save(state)
    if run is not None:
        run.save(state)
    vector_to_parameters(state.best_weights, trained.parameters())
    return trained, state.history


def _facts(
    config: MetaConfig, controller: Controller, family: ProblemFamily, judges: list[Drawn]
) -> dict[str, str]:
    """What must be the same for a training to go on.

    A family of anybody's has no options to compare: the first problems that it draws stand for it.
    """
    facts = {each.name: repr(getattr(config, each.name)) for each in fields(config)}
    problem, values = sampled(family, config.batch, seeded(config.seed, "problem", 0, 0))
    facts["controller"] = " ".join(repr(controller).split())
    facts["family"] = f"{type(family).__name__}: {problem.shape}, f(x0) = {float(values[0]):.4g}"
    facts["validation"] = f"{judges[0].problem.shape}, min f = {float(judges[0].best[0]):.4g}"
    return facts


def _episode(
    state: TrainingState, family: ProblemFamily, judges: list[Drawn], config: MetaConfig
) -> None:
    """One episode of training and, when due, a validation."""
    started, step = time.perf_counter(), state.step
    if step == 0:  # an untrained controller may be the best one
        state.judge(_validate(state.controller, judges, config))
    rate = 0.55 + 0.45 * math.cos(math.pi * step / config.steps)
    for group in state.optimizer.param_groups:
        group["lr"] = config.learning_rate * rate
    horizon = config.horizon_at(step, seeded(config.seed, "horizon", step))
    losses = []
    for number, pairs in enumerate(gathered(_streams(state, family, config, horizon))):
        losses.append(sum(loss for loss, _ in pairs) / len(pairs))
        gradient = torch.stack([part for _, part in pairs]).mean(0)
        if not bool(torch.isfinite(gradient).all()):
            raise FloatingPointError(
                f"the meta-gradient became NaN or infinite in episode {step}, stretch {number}; "
                "use a smaller learning_rate, a shorter unroll, or EvolutionStrategies()."
            )
        _update(state, gradient, config.clip)
    state.step += 1
    last = state.step == config.steps
    validation = None
    if last or state.step % config.validate_every == 0:
        validation = _validate(state.controller, judges, config)
        state.judge(validation)
    seconds = time.perf_counter() - started
    loss = sum(losses) / len(losses)
    state.history.append(MetaRecord(step, loss, validation, horizon, seconds))


def _streams(
    state: TrainingState, family: ProblemFamily, config: MetaConfig, horizon: int
) -> list[Callable[[], Stream]]:
    """For each group a function that starts its stream of losses and gradients."""

    def start(group: int) -> Stream:
        generator = seeded(config.seed, "problem", state.step, group)
        drawn = draw(family, config.batch, generator)
        episode = Episode(state.controller, drawn, config.loss, horizon, config.unroll, generator)
        return config.gradient.along(episode)

    return [partial(start, group) for group in range(config.groups)]


def _update(state: TrainingState, gradient: Tensor, clip: float) -> None:
    norm = torch.linalg.vector_norm(gradient)
    gradient = gradient * (clip / norm.clamp_min(clip))
    place = 0
    for weight in state.controller.parameters():
        weight.grad = gradient[place : place + weight.numel()].reshape(weight.shape).to(weight)
        place += weight.numel()
    state.optimizer.step()


def _judges(family: ProblemFamily, config: MetaConfig) -> list[Drawn]:
    """The problems of all validations, drawn once."""
    left, drawn = config.validation_problems, []
    while left > 0:
        batch = min(config.batch, left)
        drawn.append(draw(family, batch, seeded(config.seed, "validation", left)))
        left -= batch
    return drawn


@torch.no_grad()
def _validate(controller: Controller, judges: list[Drawn], config: MetaConfig) -> float:
    """The loss over the longest horizon."""
    total = 0.0
    for drawn in judges:
        rollout = Rollout(controller, drawn)
        loss = config.loss(rollout.run(config.limits[1]), rollout.first, rollout.best)
        total += len(rollout.best) * loss.item()
    return total / config.validation_problems


def seeded(*parts: object) -> torch.Generator:
    """A generator of its own for each purpose: nothing depends on what was drawn before."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
