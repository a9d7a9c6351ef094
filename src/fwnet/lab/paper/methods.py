"""The methods of an experiment: hand-designed, tuned on validation, learned.

A method is a function that begins a run on a problem. Whatever is tuned or trained is chosen by the
score of its runs on the same held-out problem.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from fwnet.lab.paper.configs import MetaTraining
from fwnet.learned import MetaHistory, TrainingFailed, meta_train
from fwnet.learned.training.recurrences import OptimizerRun, Recurrence, RecurrenceTask
from fwnet.learned.training.tasks import with_seed

Method = Callable[[Any], Recurrence[Any]]
"""A problem -> a run on it."""
Version = tuple[Callable[[], nn.Module], Callable[[Any], Method]]
"""What builds the module that is trained, and the method of such a module."""
Draw = Callable[[torch.Generator], Any]
"""Draws a problem to train on."""


@final
class Runs(RecurrenceTask):
    """Runs that a function draws.

    Arguments:
        function: what is learned, a generator -> the run.
        steps: of the runs of a validation; None for the longest horizon of training.
    """

    def __init__(
        self,
        function: Callable[[Any, torch.Generator], Recurrence[Any]],
        steps: int | None = None,
    ) -> None:
        self.function, self.steps = function, steps

    def draw(self, learned: Any, generator: torch.Generator) -> Recurrence[Any]:
        return self.function(learned, generator)


@final
class Methods(dict[str, Method]):
    """Methods by name; tuned and learned ones are added by what they choose from.

    Arguments:
        hand: methods without a choice.
        held: the problem that choices are made by.
        steps: of a run.

    Attributes:
        chosen: what was chosen, in words.
        scores: of every choice, by the name of the method.
        training: how the training of a learned method went.
    """

    def __init__(self, hand: Mapping[str, Method], held: Any, steps: int) -> None:
        super().__init__(hand)
        self.held, self.steps = held, steps
        self.chosen: dict[str, str] = {}
        self.scores: dict[str, dict[str, float]] = {}
        self.training: dict[str, dict[str, Any]] = {}

    def tune(self, name: str, choices: Mapping[str, Method]) -> None:
        """Add the choice with the best score on the held-out problem."""
        scores = {text: self._score(method) for text, method in choices.items()}
        self.scores[name], self.chosen[name] = scores, min(scores, key=scores.__getitem__)
        self[name] = choices[self.chosen[name]]

    def learn(
        self,
        name: str,
        version: Version,
        draw: Draw,
        plan: MetaTraining,
        seed: int,
    ) -> nn.Module:
        """Add a method that is trained on problems that are drawn.

        Arguments:
            name: of the method.
            version: what is trained.
            draw: problems to train on.
            plan: of the training.
            seed: of the initial weights and the draws.

        Returns:
            What was trained.
        """
        build, make = version
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingFailed)  # the history says so
            module, history = meta_train(
                with_seed(build, seed),
                Runs(lambda module, generator: make(module)(draw(generator))),
                plan.config(seed),
                validation=Runs(lambda module, generator: make(module)(self.held), self.steps),
                out=_place(name, seed),
            )
        self[name] = make(module)
        self.training[name] = training_facts(history, plan) | {"rates": _rates(history)}
        failed = "; not trained: no validation beat the initial weights" if history.failed else ""
        self.chosen[name] = f"meta lr = {history.learning_rate:g}{failed}"
        return module

    def _score(self, method: Method) -> float:
        score = OptimizerRun(method(self.held)).score(self.steps)
        return score if math.isfinite(score) else math.inf


def _rates(history: MetaHistory) -> dict[str, float]:
    """The best validation of any restart by the learning rate."""
    ends = [(f"{a.learning_rate:g}", min(a.validations)) for a in history.attempts]
    return {rate: min(end for other, end in ends if other == rate) for rate, _ in ends}


_folder: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def trainings_in(folder: Path | None) -> Iterator[None]:
    """Keep the states of a seed's trainings in a folder; the same trainings go on from there."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def _place(name: str, seed: int) -> Path | None:
    """The folder of one training; None if nothing is kept."""
    folder, short = _folder.get(), hashlib.sha256(f"{name}--{seed}".encode()).hexdigest()
    return None if folder is None else folder / short[:12]


def training_facts(history: MetaHistory, plan: MetaTraining) -> dict[str, Any]:
    """Validations by the number of updates, and whether training failed or came to rest."""
    updates, seen = [0], 0
    for record in history:
        seen += math.ceil(record.horizon / plan.window)
        if record.validation is not None:
            updates.append(seen)
    found = [v if math.isfinite(v) else math.nan for v in history.validations]
    best = min(range(len(found)), key=lambda k: found[k] if found[k] == found[k] else math.inf)
    return {
        "updates": updates,
        "validation": found,
        "failed": history.failed,
        "settled": len(found) - 1 - best >= plan.patience,
    }


def draw_seed(generator: torch.Generator) -> int:
    """A number to seed what takes no generator of torch."""
    return int(torch.randint(2**31, (), generator=generator))


@contextmanager
def no_denormals() -> Iterator[None]:
    """Flush numbers below 1e-38 to 0: a sharp softmin is full of them, and each is slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
