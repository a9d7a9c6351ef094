"""The methods of an experiment: hand-designed, tuned on validation, learned.

A method is a function that begins a run on a problem. Whatever is tuned or trained is chosen by the
score of its runs on the same held-out problem. Learning rates of training may be chosen once: the
first seed tries them, and the others train with its choice.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
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
FIRST_SEED = 0
"""The seed that tries learning rates for all."""


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
        first: Callable[[], tuple[Draw, Any]] | None = None,
    ) -> nn.Module:
        """Add a method that is trained on problems that are drawn.

        Arguments:
            name: of the method.
            version: what is trained.
            draw: problems to train on.
            plan: of the training.
            seed: of the initial weights and the draws.
            first: gives what the first seed draws from and its held-out problem. That seed tries
                the plan's learning rates and the others take its choice, which they find by the
                same training if nobody has kept it. If left out, every seed tries all rates.

        Returns:
            What was trained.
        """
        tried, own = None, plan
        if first is not None and len(plan.lrs) > 1:
            folder = _place(name, FIRST_SEED, shared=True)
            tried = self._trained(version, *first(), plan, FIRST_SEED, folder)
            own = replace(plan, lrs=(tried[1].learning_rate,))
        if tried is not None and seed == FIRST_SEED:
            module, history = tried
        else:
            folder = _place(name, seed, shared=False)
            module, history = self._trained(version, draw, self.held, own, seed, folder)
        self[name] = version[1](module)
        rates = _rates(history if tried is None else tried[1])
        self.training[name] = training_facts(history, plan) | {"rates": rates}
        failed = "; not trained: no validation beat the initial weights" if history.failed else ""
        self.chosen[name] = f"meta lr = {history.learning_rate:g}{failed}"
        return module

    def _score(self, method: Method) -> float:
        score = OptimizerRun(method(self.held)).score(self.steps)
        return score if math.isfinite(score) else math.inf

    def _trained(
        self,
        version: Version,
        draw: Draw,
        held: Any,
        plan: MetaTraining,
        seed: int,
        folder: Path | None,
    ) -> tuple[nn.Module, MetaHistory]:
        build, make = version
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingFailed)  # the history says so
            return meta_train(
                with_seed(build, seed),
                Runs(lambda module, generator: make(module)(draw(generator))),
                plan.config(seed),
                validation=Runs(lambda module, generator: make(module)(held), self.steps),
                out=folder,
            )


def _rates(history: MetaHistory) -> dict[str, float]:
    """The best validation of any restart by the learning rate."""
    ends = [(f"{a.learning_rate:g}", min(a.validations)) for a in history.attempts]
    return {rate: min(end for other, end in ends if other == rate) for rate, _ in ends}


_folders: ContextVar[tuple[Path | None, Path | None]] = ContextVar("folders", default=(None, None))


@contextmanager
def trainings_in(folder: Path | None, shared: Path | None = None) -> Iterator[None]:
    """Keep the states of trainings in a folder; the same trainings go on from there.

    Arguments:
        folder: of the seed.
        shared: of trainings that all seeds need, of the first seed with every learning rate.
    """
    token = _folders.set((folder, shared))
    try:
        yield
    finally:
        _folders.reset(token)


def _place(name: str, seed: int, shared: bool) -> Path | None:
    """The folder of one training; None if nothing is kept."""
    folder, short = _folders.get()[shared], hashlib.sha256(f"{name}--{seed}".encode()).hexdigest()
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
