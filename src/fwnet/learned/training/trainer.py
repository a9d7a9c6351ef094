"""meta_train: the one trainer of everything that is learned."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fwnet.learned.controllers import Controller, Learned, Slots
from fwnet.learned.controllers.base import slot_of
from fwnet.learned.families import ProblemFamily
from fwnet.learned.families.base import check_family
from fwnet.learned.networks import LearnedUpdates
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Episode
from fwnet.learned.training.ranks import Stream, gathered, same_everywhere
from fwnet.learned.training.rollouts import SolverTask
from fwnet.learned.training.runs import (
    MetaHistory,
    MetaRecord,
    TrainingFolder,
    TrainingState,
    best_of,
)
from fwnet.learned.training.tasks import TrainingTask, seeded, with_seed
from fwnet.numerics import checks
from fwnet.numerics.log import logger
from fwnet.show.progress import progress_bar
from fwnet.solvers import FrankWolfe
from fwnet.trace import Clock

Judge = Callable[[nn.Module], float]
_NEAR = 0.3  # of the least loss: in decades of the suboptimality, a factor of 2


class TrainingFailed(RuntimeWarning):
    """The best weights of a training are the first ones.

    Example:
        >>> import warnings
        >>> from fwnet import learned
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", learned.TrainingFailed)  # a failed training raises
        ...
    """


def meta_train(
    controller: nn.Module | Mapping[str, Controller],
    family: ProblemFamily | TrainingTask,
    config: MetaConfig | None = None,
    *,
    solver: FrankWolfe | None = None,
    validation: ProblemFamily | TrainingTask | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    progress: bool = False,
) -> tuple[Any, MetaHistory]:
    """Train a copy of a controller.

        min over θ of E over problems of the family of loss(f(x_1), …, f(x_T)),   x_t steered by θ

    Arguments:
        controller: with the weights to start from; several, by slot ("rule", "direction", "oracle",
            "start"), are trained together. On a `TrainingTask`, whatever that task trains.
        family: problems to train on; a test family should share nothing with it, see
            `SVMFamily.split`. Or a `TrainingTask`: `families.TrainingRuns`, `recurring.Starts`,
            `spectra.Spectra`.
        config: how; `MetaConfig.suited_to(controller)` if left out.
        solver: the solver in whose slots controllers are trained, with all other slots; its
            `max_steps` is the horizon unless the config has one. If left out, the solver that the
            controller is made for.
        validation: problems to choose the weights by; new ones of `family` if left out.
        out: a folder for the training's state, history and best controller. The same call again
            resumes it, and ends bit for bit where an uninterrupted one would (on one kind of
            processor: others round differently).
        minutes: stop after this time; what was done is saved in `out`.
        progress: show a bar (needs rich).

    Returns:
        The controller with the best weights by validation (`Slots` for several), and the history.
        Where no validation is better than that of the initial weights, the training has failed:
        these are returned with a warning, and `history.failed` is True.

    Example:
        >>> from fwnet import learned
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> template = fwnet.FrankWolfe(
        ...     fwnet.Simplex(), oracle=fwnet.Softmin(beta=10.0), max_steps=10
        ... )
        >>> config = learned.MetaConfig(steps=2, learning_rate=0.01)
        >>> gamma, history = learned.meta_train(
        ...     learned.LSTMStep(), family, config, solver=template
        ... )
        >>> len(history), history.failed
        (2, False)
        >>> solver = fwnet.FrankWolfe(fwnet.Simplex(), gamma, oracle=fwnet.Softmin(beta=10.0))
    """
    if not isinstance(config, MetaConfig | None):
        raise TypeError(f"meta_train(config) must be a MetaConfig; got {config!r}.")
    if minutes is not None:
        checks.positive("meta_train(minutes=...)", minutes)
    task, others = _tasks(family, validation, solver)
    learned = _placed(controller, solver)
    _check_fit(learned, task, solver)
    config = MetaConfig.suited_to(learned) if config is None else config
    if config.horizon is None:
        config = replace(config, horizon=task.horizon(learned))
    attempts = [
        TrainingState.begin(copy.deepcopy(first), rate, restart)
        for restart, first in enumerate(_firsts(learned, config))
        for rate in config.rates
    ]
    folder, facts = None, _facts(config, learned, task, others)
    if out is not None:
        folder = TrainingFolder(Path(out), facts)
        folder.restore(attempts)
    clock = Clock(None if minutes is None else 60 * minutes)
    _train(attempts, task, others.judge(config), config, folder, clock, progress)
    best = best_of(attempts)
    vector_to_parameters(best.best_weights, best.learned.parameters())
    best.write_cards(facts)
    best.history.attempts = tuple(state.history for state in attempts)
    one = isinstance(learned, Slots) and not isinstance(controller, Mapping | Slots)
    trained = best.learned[slot_of(controller)] if one else best.learned  # type: ignore[index]
    if best.history.failed:
        text = f"the training of {type(trained).__name__} failed: {_failure(best)}"
        warnings.warn(text, TrainingFailed, stacklevel=2)
    return trained, best.history


def _failure(best: TrainingState) -> str:
    """Why the initial weights are returned, and what to do."""
    if len(best.history.validations) < 2:
        return (
            f"it ended after {best.step} episodes, before a validation, so the initial weights are "
            "returned. Raise minutes, or lower validate_every; a training with out=... goes on "
            "when it is called again."
        )
    return (
        f"no validation was better than that of the initial weights ({best.best_loss:.4g}), which "
        "are returned. Use more episodes, another learning_rate or restarts; see history.plot()."
    )


def _tasks(
    family: ProblemFamily | TrainingTask,
    validation: ProblemFamily | TrainingTask | None,
    solver: FrankWolfe | None,
) -> tuple[TrainingTask, TrainingTask]:
    """What is trained on, and what chooses."""
    others = family if validation is None else validation
    if isinstance(family, TrainingTask):
        if solver is not None:
            raise TypeError(
                f"meta_train(solver=...) is for a ProblemFamily; {type(family).__name__} needs "
                "none. Leave it out."
            )
        if not isinstance(others, TrainingTask):
            raise TypeError(
                f"meta_train(validation=...) must be a TrainingTask, as what is trained on; got "
                f"{others!r}."
            )
        return family, others
    check_family("meta_train(family)", family)
    check_family("meta_train(validation=...)", others)
    assert isinstance(others, ProblemFamily)
    if others.domain != family.domain:
        raise ValueError(
            f"meta_train(validation=...) must be a family over {family.domain}, as the one that is "
            f"trained on; it is over {others.domain}."
        )
    return SolverTask(family), SolverTask(others)


def _placed(
    controller: nn.Module | Mapping[str, Controller], solver: FrankWolfe | None
) -> nn.Module:
    """What is trained: a controller in the slot of a solver that is given, or as it is."""
    if isinstance(controller, Mapping):
        if solver is None:
            raise TypeError("meta_train of several slots needs solver=..., which has the others.")
        return Slots(controller, solver)
    if solver is None or isinstance(controller, Slots):
        return controller
    return Slots({slot_of(controller): controller}, solver)  # type: ignore[dict-item]


def _firsts(learned: nn.Module, config: MetaConfig) -> list[nn.Module]:
    """Initial weights of each restart: those that are given, then others of the same kind."""
    if config.restarts == 1:
        return [learned]
    if not isinstance(learned, Learned):
        raise TypeError(
            f"MetaConfig(restarts={config.restarts}) needs something Learned, which has fresh(); "
            f"got {type(learned).__name__}."
        )
    draws = [seeded(config.seed, "weights", k).initial_seed() for k in range(1, config.restarts)]
    return [learned, *(with_seed(learned.fresh, seed) for seed in draws)]


def _check_fit(learned: nn.Module, task: TrainingTask, solver: FrankWolfe | None) -> None:
    """Raise unless the task trains such a thing, and its solver is over the family's domain."""
    if not isinstance(learned, task.trains):
        kinds = " or ".join(kind.__name__ for kind in task.trains)
        hint = (
            " Train updates of a network's weights on families.TrainingRuns."
            if isinstance(learned, LearnedUpdates)
            else ""
        )
        raise TypeError(f"meta_train(controller) must be a {kinds}; got {learned!r}.{hint}")
    if isinstance(task, SolverTask) and solver is not None and solver.domain != task.family.domain:
        raise ValueError(
            f"meta_train(solver=...) must be over {task.family.domain}, as the family's problems "
            f"are; it is over {solver.domain}."
        )
    if isinstance(task, SolverTask) and isinstance(learned, Controller | Slots):
        learned.solver(task.family.domain)  # raises for a domain that it was not made for


def _facts(
    config: MetaConfig, learned: nn.Module, task: TrainingTask, others: TrainingTask
) -> dict[str, str]:
    """What must be the same to resume a training."""
    facts = {each.name: repr(getattr(config, each.name)) for each in fields(config)}
    facts["controller"] = " ".join(repr(learned).split())
    if isinstance(learned, Slots):
        facts["solver"] = " ".join(repr(learned.template).split())
    facts["family"] = task.describe(config, seeded("family"))
    facts["validation"] = others.describe(config, seeded("family"))
    return facts


def _train(
    attempts: Sequence[TrainingState],
    task: TrainingTask,
    judge: Judge,
    config: MetaConfig,
    folder: TrainingFolder | None,
    clock: Clock,
    progress: bool,
) -> None:
    """All attempts, one after the other; those that diverge end early."""
    diverged: list[FloatingPointError] = []
    with ExitStack() as stack:
        show = progress_bar(stack, config.steps * len(attempts)) if progress else None
        for place, state in enumerate(attempts):
            while state.step < config.steps and state.waited < config.patience:
                if same_everywhere(clock.is_over):
                    break
                if state.history.initial is None:
                    _judge_first(state, attempts, judge)
                    if place == 0 and isinstance(task, SolverTask):
                        _warn_if_easy(state.history.initial, config)
                try:
                    _episode(state, task, judge, config)
                except FloatingPointError as error:
                    diverged.append(error)
                    break
                if show is not None:
                    text = f"validation {best_of(attempts).best_loss:.3f}"
                    show(place * config.steps + state.step, text)
                if folder is not None:
                    folder.save_if_due(attempts)
    if folder is not None:
        folder.save(attempts)
    if len(diverged) == len(attempts):
        raise diverged[-1]


def _judge_first(state: TrainingState, attempts: Sequence[TrainingState], judge: Judge) -> None:
    """Validate the initial weights, which may be the best; once for all learning rates."""
    known = [s.history.initial for s in attempts if s.restart == state.restart]
    found = next((value for value in known if value is not None), None)
    if found is None:
        state.history.initial = state.validate(judge)
    else:
        state.history.initial = found
        state.keep_if_best(found)


def _warn_if_easy(initial: float | None, config: MetaConfig) -> None:
    """Log where the initial weights leave nothing to learn."""
    least = (config.validation_loss or config.loss).least
    if initial is not None and initial <= least + _NEAR:
        logger.warning(
            f"the validation loss of the initial weights, {initial:.3g}, is near the least "
            f"possible one, {least:.3g}: these problems are too easy to learn from. Use harder "
            "ones or a shorter horizon."
        )


def _episode(state: TrainingState, task: TrainingTask, judge: Judge, config: MetaConfig) -> None:
    """One episode of training and, when due, a validation."""
    clock, step, history = Clock(), state.step, state.history
    for group in state.optimizer.param_groups:
        group["lr"] = history.learning_rate * config.schedule(step / config.steps)
    horizon = config.horizon_at(step, seeded(config.seed, "horizon", step, *_restart(state)))
    losses = []
    for pairs in gathered(_streams(state, task, config, horizon)):
        gradient = torch.stack([part for _, part in pairs]).mean(0)
        if not bool(torch.isfinite(gradient).all()):
            history.skipped += 1
            continue
        losses.append(sum(loss for loss, _ in pairs) / len(pairs))
        _update(state, gradient, config)
    if not losses:
        raise FloatingPointError(
            f"the meta-gradient was NaN or infinite in all of episode {step}; use a smaller "
            "learning_rate, a shorter unroll, or EvolutionStrategies()."
        )
    state.step += 1
    validation = None
    if state.step == config.steps or state.step % config.validate_every == 0:
        validation = state.validate(judge)
    loss = sum(losses) / len(losses)
    history.append(MetaRecord(step, loss, validation, horizon, clock.seconds))


def _streams(
    state: TrainingState, task: TrainingTask, config: MetaConfig, horizon: int
) -> list[Callable[[], Stream]]:
    """For each group a function that starts its stream of losses and gradients."""

    def start(group: int) -> Stream:
        generator = seeded(config.seed, "problem", state.step, group, *_restart(state))
        begin = task.episode(state.learned, config, generator)
        episode = Episode(state.learned, begin, horizon, config.unroll, generator)
        return config.gradient.along(episode)

    return [partial(start, group) for group in range(config.groups)]


def _restart(state: TrainingState) -> tuple[int, ...]:
    """What a restart adds to the seeds of its episodes; learning rates share theirs."""
    return (state.restart,) if state.restart else ()


def _update(state: TrainingState, gradient: Tensor, config: MetaConfig) -> None:
    norm = torch.linalg.vector_norm(gradient)
    gradient = gradient * (config.clip / norm.clamp_min(config.clip))
    place = 0
    for weight in state.learned.parameters():
        weight.grad = gradient[place : place + weight.numel()].reshape(weight.shape).to(weight)
        place += weight.numel()
    state.update(config.average)
