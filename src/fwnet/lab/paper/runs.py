"""Runs of the experiments: their losses, and the training of what is learned in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, final

import torch
from torch import nn

from fwnet.lab.paper.configs import MetaTraining
from fwnet.learned import MetaHistory, TrainingFailed, meta_train
from fwnet.learned.training.recurrences import OptimizerRun, Recurrence, RecurrenceTask

Module = TypeVar("Module", bound=nn.Module)
Draw = Callable[[Any, torch.Generator], Recurrence[Any]]


@final
class Runs(RecurrenceTask):
    """Runs that a function draws.

    Arguments:
        function: what is learned, a generator -> the run.
    """

    def __init__(self, function: Draw) -> None:
        self.function = function

    def draw(self, learned: Any, generator: torch.Generator) -> Recurrence[Any]:
        return self.function(learned, generator)


def trained(
    learned: Module,
    training: Draw,
    validation: Callable[[Any], Recurrence[Any]],
    plan: MetaTraining,
    seed: int,
) -> tuple[Module, MetaHistory]:
    """What is learned with the best weights by validation; a failure is in the history.

    Arguments:
        learned: with the first weights.
        training: draws the run of an episode.
        validation: the run that chooses, always of the same problem, seen by no episode.
        plan: lengths and rates.
        seed: of the episodes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingFailed)
        return meta_train(
            learned,
            Runs(training),
            plan.config(seed),
            validation=Runs(lambda module, generator: validation(module)),
        )


def meta_scores(history: MetaHistory) -> dict[str, list[float]]:
    """The validations of each learning rate, that of the first weights in front."""
    return {f"{each.learning_rate:g}": each.validations for each in history.attempts}


def chosen_text(history: MetaHistory) -> str:
    """What validation chose, and whether that is a trained network at all."""
    failed = "; not trained: no validation beat the first weights" if history.failed else ""
    return f"meta lr = {history.learning_rate:g}{failed}"


def draw_seed(generator: torch.Generator, below: int = 2**31) -> int:
    """A number to seed what takes no generator of torch."""
    return int(torch.randint(below, (), generator=generator))


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
