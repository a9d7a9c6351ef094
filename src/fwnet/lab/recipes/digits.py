"""Recipes of `corrective-atoms`, `pairwise` and `recurring-start`: digits and circles.

Pairs of the digits 0 to 3 and one draw of the circles to train on, the digits 4 to 6 to choose by;
the digits 7 to 9, other circles and all of MNIST are never looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fwnet.domains import Simplex
from fwnet.lab.recipes.base import Recipe, Solvers, count_steps
from fwnet.learned.controllers import Controller, LearnedAtoms, LearnedPairwise, LearnedStart
from fwnet.learned.families import LogUniform, SVMFamily
from fwnet.learned.families.real import Part, circle_points, digits
from fwnet.learned.recurring import Starts, judge_start
from fwnet.learned.training.config import Linear, MetaConfig
from fwnet.learned.training.gradients import EvolutionStrategies
from fwnet.learned.training.trainer import meta_train
from fwnet.solvers import Corrective, PairwiseFrankWolfe

DIGITS = "scikit-learn's digits 0 to 3; chosen by the digits 4 to 6"
WITH_CIRCLES = DIGITS + "; and circles, chosen by others"


def family(part: Part, n: tuple[int, int]) -> SVMFamily:
    """SVM duals of digits and circles, C log-uniform in 0.5 to 200, in float64."""
    sources = [digits(part), circle_points(part)]
    return SVMFamily(sources, LogUniform(0.5, 200.0), n, dtype=torch.float64)


ATOMS = MetaConfig(
    steps=10,
    unroll=16,
    batch=8,
    learning_rate=5e-2,
    gradient=EvolutionStrategies(3, 0.15),
    validate_every=5,
)
ATOMS_SIZES = (64, 256)
PAIRWISE = MetaConfig(
    steps=60,
    unroll=200,
    horizon=(40, 200),
    batch=8,
    learning_rate=8e-2,
    gradient=EvolutionStrategies(4, 0.3),
    validate_every=10,
)
PAIRWISE_SIZES = (64, 200)
START = MetaConfig(steps=400, learning_rate=5e-3, clip=1e6, schedule=Linear(0.1), validate_every=50)


def atoms(seed: int) -> Controller:
    """Evolution strategies over 16 steps, begun where a few trials on training problems led."""
    controller = LearnedAtoms()
    with torch.no_grad():
        controller.policy.copy_(torch.tensor([0.7, 0.3, 1.0, -7.0]))
    return _train(controller, ATOMS, ATOMS_SIZES, seed)


def pairwise(seed: int) -> Controller:
    """Evolution strategies over 40 to 200 steps, from the line search."""
    return _train(LearnedPairwise(), PAIRWISE, PAIRWISE_SIZES, seed)


def _train(controller: Controller, config: MetaConfig, n: tuple[int, int], seed: int) -> Controller:
    training, validation = family("train", n), family("validation", n)
    return meta_train(controller, training, replace(config, seed=seed), validation=validation)[0]


def start(seed: int) -> Controller:
    """Supervised by exact solutions of C-paths, pairs and episodes."""
    torch.manual_seed(seed)  # of the first weights, which torch draws from its own generator
    training, validation = Starts(*digits("train")), Starts(*digits("validation"))
    return meta_train(LearnedStart(), training, replace(START, seed=seed), validation=validation)[0]


def judge_atoms(controller: Controller) -> dict[str, Any]:
    """Against as many atoms of the hand-designed kind."""
    rivals: Solvers = {"corrective": lambda: Corrective(Simplex(), max_steps=60, tol=0.0)}
    return count_steps(controller, rivals, 60, family("validation", ATOMS_SIZES))


def judge_pairwise(controller: Controller) -> dict[str, Any]:
    """Against the line search, with either partner."""
    budget: Any = {"max_steps": 400, "tol": 0.0}
    rivals: Solvers = {
        "line search": lambda: PairwiseFrankWolfe(Simplex(), **budget),
        "second-order partner": lambda: PairwiseFrankWolfe(Simplex(), second_order=True, **budget),
    }
    return count_steps(controller, rivals, 400, family("validation", PAIRWISE_SIZES))


def judge_starts(controller: Controller) -> dict[str, Any]:
    """Against a cold start and the neighbour's solution."""
    assert isinstance(controller, LearnedStart)
    return judge_start(controller, *digits("validation"))


RECIPES = {
    "corrective-atoms": Recipe(
        atoms, judge_atoms, WITH_CIRCLES, ATOMS.limits, ATOMS_SIZES, config=ATOMS
    ),
    "pairwise": Recipe(
        pairwise, judge_pairwise, WITH_CIRCLES, PAIRWISE.limits, PAIRWISE_SIZES, config=PAIRWISE
    ),
    "recurring-start": Recipe(
        start,
        judge_starts,
        DIGITS,
        (0, 0),
        (20, 200),
        "median steps to 1e-4, a product of the start counted as a step",
    ),
}
