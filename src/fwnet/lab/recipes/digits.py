"""Recipes of `corrective-atoms`, `pairwise` and `recurring-start`: digits and circles.

Pairs of the digits 0 to 3 and one draw of the circles to train on, the digits 4 to 6 to choose by;
neither uses the digits 7 to 9, other circles or MNIST.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from fwnet.domains import Simplex
from fwnet.lab.recipes.base import Recipe, on_simplex, training
from fwnet.learned.controllers import Controller, LearnedAtoms, LearnedPairwise, LearnedStart
from fwnet.learned.families import LogUniform, SVMFamily
from fwnet.learned.families.real import Part, circle_points, digits
from fwnet.learned.recurring import Starts, judge_start
from fwnet.learned.training.config import Linear, MetaConfig
from fwnet.solvers import Corrective, PairwiseFrankWolfe

DIGITS = "scikit-learn's digits 0 to 3; chosen by the digits 4 to 6"
WITH_CIRCLES = DIGITS + "; and circles, chosen by others"
START = MetaConfig(steps=400, learning_rate=5e-3, clip=1e6, schedule=Linear(0.1), validate_every=50)


def families(n: tuple[int, int]) -> tuple[SVMFamily, SVMFamily]:
    """SVM duals of digits and circles, C log-uniform in 0.5 to 200, in float64."""

    def family(part: Part) -> SVMFamily:
        sources = [digits(part), circle_points(part)]
        return SVMFamily(sources, LogUniform(0.5, 200.0), n, dtype=torch.float64)

    return family("train"), family("validation")


def first_atoms() -> LearnedAtoms:
    """Where a few trials on training problems led."""
    controller = LearnedAtoms()
    with torch.no_grad():
        controller.policy.copy_(torch.tensor([0.7, 0.3, 1.0, -7.0]))
    return controller


def judge_starts(controller: Controller) -> dict[str, Any]:
    """Against a cold start and the neighbour's solution."""
    assert isinstance(controller, LearnedStart)
    return judge_start(controller, *digits("validation"))


RECIPES = {
    "corrective-atoms": on_simplex(
        "Evolution strategies over 16 steps, begun where a few trials on training problems led.",
        first_atoms,
        families,
        (64, 256),
        MetaConfig.suited_to(LearnedAtoms()),
        {"corrective": partial(Corrective, Simplex())},
        60,
        WITH_CIRCLES,
    ),
    "pairwise": on_simplex(
        "Evolution strategies over 40 to 200 steps, from the line search.",
        LearnedPairwise,
        families,
        (64, 200),
        MetaConfig.suited_to(LearnedPairwise()),
        {
            "line search": partial(PairwiseFrankWolfe, Simplex()),
            "second-order partner": partial(PairwiseFrankWolfe, Simplex(), second_order=True),
        },
        400,
        WITH_CIRCLES,
    ),
    "recurring-start": Recipe(
        "Supervised by exact solutions of C-paths, pairs and episodes.",
        training(
            LearnedStart, lambda: (Starts(*digits("train")), Starts(*digits("validation"))), START
        ),
        judge_starts,
        DIGITS,
        (0, 0),
        (20, 200),
        "median steps to 1e-4, a product of the start counted as a step",
    ),
}
