"""Recipe: how a shipped controller was trained, and what its card says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from fwnet.lab.paper.configs import MetaTraining
from fwnet.learned.checkpoints import save
from fwnet.learned.controllers import Controller
from fwnet.learned.families import ProblemFamily
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.losses import relative_suboptimality
from fwnet.learned.training.rollouts import Drawn, draw
from fwnet.learned.training.tasks import seeded, with_seed
from fwnet.learned.training.trainer import meta_train
from fwnet.solvers import FrankWolfe

SEED = 0

Families = Callable[[], tuple[Any, Any]]
"""The family, or task, to train on, and that to choose by."""
Train = Callable[[int], Controller]
"""Trains a controller with a seed."""


@final
@dataclass(frozen=True)
class Recipe:
    """How a controller is trained, and what its card says.

    Arguments:
        how: it is trained, in words.
        train: a function of the seed.
        judge: compares the controller with hand-designed solvers, on validation problems.
        trained_on: in words.
        horizon: solver steps while training, from and to.
        size: of the problems, from and to.
        validation_is: what the numbers of `judge` are.
        config: of the training; its seed is not looked at.
        seed: of the training that is shipped.
    """

    how: str
    train: Train
    judge: Callable[[Controller], dict[str, Any]]
    trained_on: str
    horizon: tuple[int, int]
    size: tuple[int, int]
    validation_is: str = "median steps to a relative suboptimality of 1e-2 and 1e-4"
    config: MetaConfig | MetaTraining | None = None
    seed: int = SEED

    def follow(self, name: str, folder: Path, seed: int | None = None) -> Path:
        """Train, judge, and write the controller with its card to the folder."""
        seed = self.seed if seed is None else seed
        controller = self.train(seed)
        path = folder / f"{name}.fwnet"
        save(controller, path, self.card(name, controller, seed))
        return path

    def card(self, name: str, controller: Controller, seed: int) -> dict[str, Any]:
        """What the file says about its controller."""
        card: dict[str, Any] = {
            "trained_on": self.trained_on,
            "how": self.how,
            "horizon": list(self.horizon),
            "size": list(self.size),
            "validation": self.judge(controller),
            "validation_is": self.validation_is,
            "recipe": f"python -m fwnet.lab.recipes {name}",
            "seed": seed,
            "licence": "MIT",
            "torch": torch.__version__.split("+")[0],
        }
        if self.config is not None:
            settings = {f.name: repr(getattr(self.config, f.name)) for f in fields(self.config)}
            card["config"] = settings | {"seed": repr(seed)}
        return card


def training(make: Callable[[], Controller], families: Families, config: MetaConfig) -> Train:
    """What `make` builds, trained on a family and chosen by another."""

    def train(seed: int) -> Controller:
        family, validation = families()
        plan = replace(config, seed=seed)
        return meta_train(with_seed(make, seed), family, plan, validation=validation)[0]

    return train


def on_simplex(
    how: str,
    make: Callable[[], Controller],
    families: Callable[[tuple[int, int]], tuple[ProblemFamily, ProblemFamily]],
    size: tuple[int, int],
    config: MetaConfig,
    rivals: Mapping[str, Callable[..., FrankWolfe]],
    steps: int,
    trained_on: str,
) -> Recipe:
    """The recipe of a controller of the simplex.

    Arguments:
        how, trained_on, config: as in `Recipe`.
        make: builds what is trained.
        families: sizes -> the families to train on and to choose by.
        size: of the problems, from and to.
        rivals: hand-designed solvers for the card, as functions of their budget.
        steps: of every run for the card.
    """
    train = training(make, partial(families, size), config)

    def judge(controller: Controller) -> dict[str, Any]:
        family = families(size)[1]
        problems, table = drawn_for_card(family), {}
        solvers: dict[str, Callable[..., FrankWolfe]] = {
            "learned": partial(controller.solver, family.domain),
            **rivals,
        }
        for name, build in solvers.items():
            solver = build(max_steps=steps, tol=0.0)
            runs = [suboptimality(solver, drawn) for drawn in problems]
            table[name] = {
                goal: torch.cat([_first(away <= float(goal)) for away in runs]).median().item()
                for goal in ("1e-2", "1e-4")
            }
        return table

    return Recipe(how, train, judge, trained_on, config.limits, size, config=config)


def drawn_for_card(family: ProblemFamily) -> list[Drawn]:
    """Three batches of eight problems."""
    return [draw(family, 8, seeded(SEED, "card", k)) for k in range(3)]


@torch.no_grad()
def suboptimality(solver: FrankWolfe, drawn: Drawn) -> Tensor:  # (steps, batch)
    """(f − f*)/|f*| at every step of a solve."""
    trace = solver(drawn.problem).trace
    values = torch.stack([torch.as_tensor(record.value) for record in trace])
    return relative_suboptimality(values, values[0], drawn.best)


def _first(reached: Tensor) -> Tensor:  # (steps, batch) -> (batch,)
    """The first step at which it is so; one more than there are if never."""
    steps = len(reached)
    return torch.where(reached.any(0), reached.int().argmax(0), steps)
