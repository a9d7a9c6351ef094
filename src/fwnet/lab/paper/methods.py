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


@final
class Runs(RecurrenceTask):
    """Runs that a function draws.

    Arguments:
        function: what is learned, a generator -> the run.
    """

    def __init__(self, function: Callable[[Any, torch.Generator], Recurrence[Any]]) -> None:
        self.function = function

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
        training: how the training of a learned method went.
    """

    def __init__(self, hand: Mapping[str, Method], held: Any, steps: int) -> None:
        super().__init__(hand)
        self.held, self.steps = held, steps
        self.chosen: dict[str, str] = {}
        self.training: dict[str, dict[str, Any]] = {}

    def tune(self, name: str, choices: Mapping[str, Method]) -> None:
        """Add the choice with the best score on the held-out problem."""
        scores = {text: self._score(method) for text, method in choices.items()}
        self.chosen[name] = min(scores, key=scores.__getitem__)
        self[name] = choices[self.chosen[name]]

    def learn(
        self,
        name: str,
        versions: Mapping[str, Version],
        draw: Callable[[torch.Generator], Any],
        plan: MetaTraining,
        seed: int,
    ) -> nn.Module:
        """Train every version on problems that are drawn; add the one with the best validation.

        Returns what was trained.
        """
        found = []
        for text, (build, make) in versions.items():
            for restart in range(plan.restarts):
                number = seed + 1000 * restart
                folder = _place(name, text, number)
                module, history = self._trained(build, make, draw, plan, number, folder)
                found.append((text, make, module, history))
        best, make, module, history = min(found, key=lambda each: min(each[3].validations))
        self[name] = make(module)
        self.training[name] = training_facts(history, plan)
        rate = f"meta lr = {history.learning_rate:g}"
        failed = "; not trained: no validation beat the initial weights" if history.failed else ""
        self.chosen[name] = ", ".join(part for part in (best, rate) if part) + failed
        return module

    def _score(self, method: Method) -> float:
        score = OptimizerRun(method(self.held)).score(self.steps)
        return score if math.isfinite(score) else math.inf

    def _trained(
        self,
        build: Callable[[], nn.Module],
        make: Callable[[Any], Method],
        draw: Callable[[torch.Generator], Any],
        plan: MetaTraining,
        seed: int,
        folder: Path | None,
    ) -> tuple[nn.Module, MetaHistory]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingFailed)  # the history says so
            return meta_train(
                with_seed(build, seed),
                Runs(lambda module, generator: make(module)(draw(generator))),
                plan.config(seed),
                validation=Runs(lambda module, generator: make(module)(self.held)),
                out=folder,
            )


_trainings: ContextVar[Path | None] = ContextVar("trainings", default=None)


@contextmanager
def trainings_in(folder: Path | None) -> Iterator[None]:
    """Keep the states of trainings in a folder; the same trainings go on from there."""
    token = _trainings.set(folder)
    try:
        yield
    finally:
        _trainings.reset(token)


def _place(*parts: object) -> Path | None:
    """The folder of one training; None if nothing is kept."""
    folder, name = _trainings.get(), "-".join(str(part) for part in parts)
    return None if folder is None else folder / hashlib.sha256(name.encode()).hexdigest()[:12]


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
        "attempts": {f"{a.learning_rate:g}": min(a.validations) for a in history.attempts},
    }


def draw_seed(generator: torch.Generator, below: int = 2**31) -> int:
    """A number to seed what takes no generator of torch."""
    return int(torch.randint(below, (), generator=generator))


@contextmanager
def no_denormals() -> Iterator[None]:
    """Flush numbers below 1e-38 to 0: a sharp softmin is full of them, and each is slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
