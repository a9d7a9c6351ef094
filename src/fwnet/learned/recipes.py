"""How the shipped controllers were trained: `python -m fwnet.learned.recipes`, all seeded.

Data that anyone has: scikit-learn's digits, circles, moons and random two-class problems. Training
sees the digits 0 to 3, the choice of weights 4 to 6, both other draws of the rest; 7 to 9 are left
for tests, and so is MNIST.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

import fwnet
from fwnet.directions import Corrections, Exchanges, ProjectedStep
from fwnet.learned.checkpoints import save
from fwnet.learned.controllers import Controller, LearnedDirection, LearnedStep
from fwnet.learned.families import ProblemFamily, SVMFamily
from fwnet.learned.meta_gradients import EvolutionStrategies
from fwnet.learned.meta_losses import relative_suboptimality
from fwnet.learned.meta_train import MetaConfig, meta_train, seeded
from fwnet.learned.rollouts import draw
from fwnet.solvers import Corrective, FrankWolfe
from fwnet.steps import LineSearch

SEED = 0
TRAINED_ON = (
    "SVM duals (linear and rbf kernels, C log-uniform in 0.3..100) of scikit-learn's digits 0 to "
    "3, circles, moons and two random problems; chosen on digits 4 to 6 and other draws"
)


@final
@dataclass(frozen=True)
class Recipe:
    """A controller to train, on what and how; and what a card compares it with."""

    build: Callable[[], Controller]
    n: tuple[int, int]
    config: MetaConfig  # with any seed
    rivals: dict[str, Callable[[], FrankWolfe]]
    judged_steps: int


RECIPES = {
    "simplex-step": Recipe(
        LearnedStep,
        (64, 256),
        MetaConfig(
            steps=60,
            unroll=500,
            horizon=(30, 500),
            batch=12,
            learning_rate=1e-1,
            gradient=EvolutionStrategies(4, 0.3),
            validate_every=15,
            validation_problems=16,
        ),
        {
            "2/(t+2)": lambda: FrankWolfe(fwnet.Simplex(), max_steps=500, tol=0.0),
            "1.1/(t+2)": lambda: FrankWolfe(
                fwnet.Simplex(), lambda t: 1.1 / (t + 2), max_steps=500, tol=0.0
            ),
            "line search": lambda: FrankWolfe(
                fwnet.Simplex(), LineSearch(), max_steps=500, tol=0.0
            ),
        },
        500,
    ),
    "simplex-qp": Recipe(
        lambda: LearnedDirection(hidden=16, memory=8, exchanges=4),
        (64, 384),
        MetaConfig(
            steps=320,
            unroll=14,
            batch=8,
            learning_rate=3e-3,
            validate_every=20,
            validation_problems=24,
        ),
        {
            "corrective": lambda: Corrective(fwnet.Simplex(), memory=8, max_steps=60, tol=0.0),
            "corrective, same hull": lambda: FrankWolfe(
                fwnet.Simplex(),
                direction=Corrections(8, [ProjectedStep(), Exchanges(4)]),
                max_steps=60,
                tol=0.0,
            ),
        },
        60,
    ),
}


def svm_families(n: tuple[int, int]) -> tuple[SVMFamily, SVMFamily]:
    """Training and validation families of SVM duals; needs scikit-learn."""
    try:
        from sklearn import datasets
    except ImportError:
        raise ImportError('the recipes need scikit-learn: pip install "fwnet[svm]".') from None
    X, y = datasets.load_digits(return_X_y=True)
    families = []
    for classes, seed in (((0, 1, 2, 3), 0), ((4, 5, 6), 100)):
        rows = np.isin(y, classes)
        sources = [
            (X[rows] / 16, y[rows]),
            datasets.make_circles(800, factor=0.2, noise=0.1, random_state=seed),
            datasets.make_moons(800, noise=0.2, random_state=seed + 1),
            _two_classes(datasets, 20, seed + 2),
            _two_classes(datasets, 60, seed + 3),
        ]
        pairs: list[tuple[Tensor, Tensor]] = [
            (torch.as_tensor(X, dtype=torch.float64), torch.as_tensor(y)) for X, y in sources
        ]
        families.append(SVMFamily(pairs, n=n))
    return families[0], families[1]


def train(
    name: str, folder: Path, minutes: float | None, seed: int = SEED, progress: bool = False
) -> Path:
    """Follow one recipe; write the controller with its card to the folder."""
    recipe = RECIPES[name]
    config = replace(recipe.config, seed=seed)
    training, validation = svm_families(recipe.n)
    torch.manual_seed(seed)  # of the first weights, which torch draws from its own generator
    controller, history = meta_train(
        recipe.build(),
        training,
        config,
        validation=validation,
        minutes=minutes,
        progress=progress,
    )
    settings = fields(config)
    card = {
        "trained_on": TRAINED_ON,
        "horizon": list(config.limits),
        "size": list(recipe.n),
        "validation": judge(controller, recipe.rivals, recipe.judged_steps, validation),
        "config": {field.name: repr(getattr(config, field.name)) for field in settings},
        "episodes": len(history),
        "recipe": f"python -m fwnet.learned.recipes {name}",
        "seed": seed,
        "licence": "MIT",
        "torch": torch.__version__.split("+")[0],
    }
    path = folder / f"{name}.fwnet"
    save(controller, path, card)
    return path


@torch.no_grad()
def judge(
    controller: Controller,
    rivals: dict[str, Callable[[], FrankWolfe]],
    steps: int,
    family: ProblemFamily,
) -> dict[str, Any]:
    """Median steps to a relative suboptimality of 1e-2 and 1e-4 on 24 problems of a family."""
    solvers: dict[str, Callable[[], FrankWolfe]] = {
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


def _two_classes(datasets: Any, features: int, seed: int) -> Any:
    return datasets.make_classification(
        800, features, n_informative=8, n_redundant=4, flip_y=0.05, random_state=seed
    )


def main() -> None:
    """Train the shipped controllers, or those that are named."""
    parser = argparse.ArgumentParser(description="Train the shipped controllers.")
    parser.add_argument("names", nargs="*", default=list(RECIPES), help=", ".join(RECIPES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "shipped")
    parser.add_argument("--minutes", type=float, default=None, help="at most, for each")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        if name not in RECIPES:
            raise SystemExit(f"no recipe {name!r}; there are {', '.join(RECIPES)}.")
        print(train(name, arguments.out, arguments.minutes, arguments.seed))


if __name__ == "__main__":
    main()
