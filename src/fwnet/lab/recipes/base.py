"""Recipe: how a shipped controller was trained, and what its card says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
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
from fwnet.learned.training.rollouts import draw
from fwnet.learned.training.tasks import seeded
from fwnet.solvers import FrankWolfe

SEED = 0

Solvers = dict[str, Callable[[], FrankWolfe]]


@final
@dataclass(frozen=True)
class Recipe:
    """A function of the seed that trains a controller, and what its card says besides.

    Arguments:
        train: its docstring is the card's "how".
        judge: compares the controller with hand-designed solvers, on validation problems.
        trained_on: in words.
        horizon: solver steps while training, from and to.
        size: of the problems, from and to.
        validation_is: what the numbers of `judge` are.
        config: of the training; its seed is not looked at.
        seed: of the training that is shipped.
    """

    train: Callable[[int], Controller]
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
            "how": self.train.__doc__,
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


@torch.no_grad()
def count_steps(
    controller: Controller, rivals: Solvers, steps: int, family: ProblemFamily
) -> dict[str, Any]:
    """Median steps to a relative suboptimality of 1e-2 and 1e-4 on 24 problems of a family."""
    solvers: Solvers = {
        "learned": lambda: controller.solver(family.domain, max_steps=steps, tol=0.0),
        **rivals,
    }
    table: dict[str, Any] = {}
    problems = [draw(family, 8, seeded(SEED, "card", k)) for k in range(3)]
    for name, make in solvers.items():
        counts: dict[str, list[Tensor]] = {"1e-2": [], "1e-4": []}
        for drawn in problems:
            trace = make()(drawn.problem).trace
            values = torch.stack([torch.as_tensor(record.value) for record in trace])
            away = relative_suboptimality(values, values[0], drawn.best)
            for goal, found in counts.items():
                found.append(_first(away <= float(goal)))
        table[name] = {goal: torch.cat(found).median().item() for goal, found in counts.items()}
    return table


def _first(reached: Tensor) -> Tensor:  # (steps, batch) -> (batch,)
    """The first step at which it is so; one more than there are if never."""
    steps = len(reached)
    return torch.where(reached.any(0), reached.int().argmax(0), steps)
