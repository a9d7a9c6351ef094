"""Recipes of `simplex-step` and `simplex-qp`: SVM duals of many kinds.

Training sees the digits 0 to 3, the choice of weights 4 to 6; both other draws of circles, moons
and random two-class problems.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from fwnet.directions import Averaging, Corrections, Exchanges, ProjectedStep
from fwnet.domains import Simplex
from fwnet.lab.recipes.base import on_simplex
from fwnet.learned.controllers import LearnedDirection, LearnedStep
from fwnet.learned.families import SVMFamily
from fwnet.learned.families.real import Part, digits, sklearn_datasets
from fwnet.learned.training.config import MetaConfig
from fwnet.solvers import Corrective, FrankWolfe
from fwnet.steps import LineSearch

TRAINED_ON = (
    "SVM duals (linear and rbf kernels, C log-uniform in 0.3..100) of scikit-learn's digits 0 to "
    "3, circles, moons and two random problems; chosen on digits 4 to 6 and other draws"
)


def svm_families(n: tuple[int, int]) -> tuple[SVMFamily, SVMFamily]:
    """Training and validation families of SVM duals; needs scikit-learn."""

    def family(part: Part, seed: int) -> SVMFamily:
        made = [
            sklearn_datasets().make_circles(800, factor=0.2, noise=0.1, random_state=seed),
            sklearn_datasets().make_moons(800, noise=0.2, random_state=seed + 1),
            _two_classes(20, seed + 2),
            _two_classes(60, seed + 3),
        ]
        pairs = [(torch.as_tensor(X), torch.as_tensor(y)) for X, y in made]
        return SVMFamily([digits(part), *pairs], n=n)

    return family("train", 0), family("validation", 100)


def _two_classes(features: int, seed: int) -> Any:
    return sklearn_datasets().make_classification(
        800, features, n_informative=8, n_redundant=4, flip_y=0.05, random_state=seed
    )


RECIPES = {
    "simplex-step": on_simplex(
        "Evolution strategies over 30 to 1000 steps.",
        LearnedStep,
        svm_families,
        (64, 256),
        MetaConfig.suited_to(LearnedStep()),
        {
            "2/(t+2)": partial(FrankWolfe, Simplex()),
            "1.1/(t+2)": partial(FrankWolfe, Simplex(), lambda t: 1.1 / (t + 2)),
            "3/(t+3), averaging": partial(
                FrankWolfe, Simplex(), lambda t: 3 / (t + 3), direction=Averaging()
            ),
            "line search": partial(FrankWolfe, Simplex(), LineSearch()),
        },
        1000,
        TRAINED_ON,
    ),
    "simplex-qp": on_simplex(
        "Back-propagation through 14 steps, features stopped.",
        partial(LearnedDirection, hidden=16, memory=8, exchanges=4),
        svm_families,
        (64, 384),
        MetaConfig.suited_to(LearnedDirection()),
        {
            "corrective": partial(Corrective, Simplex(), memory=8),
            "corrective, same hull": partial(
                FrankWolfe, Simplex(), direction=Corrections(8, [ProjectedStep(), Exchanges(4)])
            ),
        },
        60,
        TRAINED_ON,
    ),
}
