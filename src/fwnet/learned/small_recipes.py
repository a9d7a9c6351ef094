"""How the small shipped controllers were trained: `python -m fwnet.learned.small_recipes`.

Pairs of the digits 0 to 3 and one draw of the circles to train on, the digits 4 to 6 to choose by;
the digits 7 to 9, other circles and all of MNIST are never looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from fwnet.domains import Simplex
from fwnet.learned.checkpoints import save
from fwnet.learned.controllers import Controller, LearnedAtoms, LearnedPairwise, LearnedStart
from fwnet.learned.families import LogUniform, SVMFamily
from fwnet.learned.families.real import Part, circle_points, digits
from fwnet.learned.meta_gradients import EvolutionStrategies
from fwnet.learned.meta_train import MetaConfig, meta_train
from fwnet.learned.recipes import judge
from fwnet.learned.recurring import judge_start, train_start
from fwnet.solvers import Corrective, FrankWolfe, PairwiseFrankWolfe

SEED = 0
DIGITS = "scikit-learn's digits 0 to 3; chosen by the digits 4 to 6"
WITH_CIRCLES = DIGITS + "; and circles, chosen by others"


def family(part: Part, n: tuple[int, int]) -> SVMFamily:
    """SVM duals of digits and circles, C log-uniform in 0.5 to 200, in float64."""
    sources = [digits(part), circle_points(part)]
    return SVMFamily(sources, LogUniform(0.5, 200.0), n, dtype=torch.float64)


def atoms(seed: int = SEED) -> Controller:
    """Evolution strategies over 16 steps, begun where a few trials on training problems led."""
    config = MetaConfig(
        steps=10,
        unroll=16,
        batch=8,
        learning_rate=5e-2,
        gradient=EvolutionStrategies(3, 0.15),
        validate_every=5,
        seed=seed,
    )
    controller = LearnedAtoms()
    with torch.no_grad():
        controller.policy.copy_(torch.tensor([0.7, 0.3, 1.0, -7.0]))
    training, validation = family("train", (64, 256)), family("validation", (64, 256))
    return meta_train(controller, training, config, validation=validation)[0]


def pairwise(seed: int = SEED) -> Controller:
    """Evolution strategies over 40 to 200 steps, from the line search."""
    config = MetaConfig(
        steps=60,
        unroll=200,
        horizon=(40, 200),
        batch=8,
        learning_rate=8e-2,
        gradient=EvolutionStrategies(4, 0.3),
        validate_every=10,
        seed=seed,
    )
    training, validation = family("train", (64, 200)), family("validation", (64, 200))
    return meta_train(LearnedPairwise(), training, config, validation=validation)[0]


def start(seed: int = SEED) -> Controller:
    """Supervised by exact solutions of C-paths, pairs and episodes."""
    torch.manual_seed(seed)  # of the first weights, which torch draws from its own generator
    controller = LearnedStart()
    train_start(controller, *digits("train"), seed=seed)
    return controller


@final
@dataclass(frozen=True)
class SmallRecipe:
    """A function of the seed that trains a controller, and what its card compares it with."""

    train: Callable[[int], Controller]
    horizon: tuple[int, int]  # solver steps while training
    n: tuple[int, int]
    trained_on: str
    validate: Callable[[Controller], dict[str, Any]]

    def card(self, name: str, controller: Controller, seed: int) -> dict[str, Any]:
        """What the file says about its controller."""
        return {
            "trained_on": self.trained_on,
            "how": self.train.__doc__,
            "horizon": list(self.horizon),
            "size": list(self.n),
            "validation": self.validate(controller),
            "recipe": f"python -m fwnet.learned.small_recipes {name}",
            "seed": seed,
            "licence": "MIT",
            "torch": torch.__version__.split("+")[0],
        }


def _pairwise(**options: Any) -> Callable[[], FrankWolfe]:
    return lambda: PairwiseFrankWolfe(Simplex(), max_steps=400, tol=0.0, **options)


def _judged(
    n: tuple[int, int], steps: int, rivals: dict[str, Callable[[], FrankWolfe]]
) -> Callable[[Controller], dict[str, Any]]:
    """Median steps on problems of the validation part."""
    return lambda controller: judge(controller, rivals, steps, family("validation", n))


def _judge_start(controller: Controller) -> dict[str, Any]:
    """Median steps to 1e-4 on each task, a product of the start counted as a step."""
    assert isinstance(controller, LearnedStart)
    return judge_start(controller, *digits("validation"))


RECIPES = {
    "corrective-atoms": SmallRecipe(
        atoms,
        (16, 16),
        (64, 256),
        WITH_CIRCLES,
        _judged(
            (64, 256),
            60,
            {"corrective": lambda: Corrective(Simplex(), max_steps=60, tol=0.0)},
        ),
    ),
    "pairwise": SmallRecipe(
        pairwise,
        (40, 200),
        (64, 200),
        WITH_CIRCLES,
        _judged(
            (64, 200),
            400,
            {"line search": _pairwise(), "second-order partner": _pairwise(second_order=True)},
        ),
    ),
    "recurring-start": SmallRecipe(start, (0, 0), (20, 200), DIGITS, _judge_start),
}


def main() -> None:
    """Train the small controllers, or those that are named."""
    parser = argparse.ArgumentParser(description="Train the small shipped controllers.")
    parser.add_argument("names", nargs="*", default=list(RECIPES), help=", ".join(RECIPES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "shipped")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        if name not in RECIPES:
            raise SystemExit(f"no recipe {name!r}; there are {', '.join(RECIPES)}.")
        controller = RECIPES[name].train(arguments.seed)
        path = arguments.out / f"{name}.fwnet"
        save(controller, path, RECIPES[name].card(name, controller, arguments.seed))
        print(path)


if __name__ == "__main__":
    main()
