"""Recipes of `simplex-step` and `simplex-qp`: SVM duals of many kinds.

Training sees the digits 0 to 3, the choice of weights 4 to 6; both other draws of circles, moons
and random two-class problems.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.directions import Averaging, Corrections, Exchanges, ProjectedStep
from fwnet.domains import Simplex
from fwnet.lab.recipes.base import Recipe, Solvers, count_steps
from fwnet.learned.controllers import Controller, LearnedDirection, LearnedStep
from fwnet.learned.families import SVMFamily
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import EvolutionStrategies
from fwnet.learned.training.trainer import meta_train
from fwnet.solvers import Corrective, FrankWolfe
from fwnet.steps import LineSearch

TRAINED_ON = (
    "SVM duals (linear and rbf kernels, C log-uniform in 0.3..100) of scikit-learn's digits 0 to "
    "3, circles, moons and two random problems; chosen on digits 4 to 6 and other draws"
)
STEP = MetaConfig(
    steps=60,
    unroll=1000,
    horizon=(30, 1000),
    batch=12,
    learning_rate=1e-1,
    gradient=EvolutionStrategies(4, 0.3),
    validate_every=15,
    validation_problems=16,
)
STEP_SIZES = (64, 256)
DIRECTION = MetaConfig(
    steps=320,
    unroll=14,
    batch=8,
    learning_rate=3e-3,
    validate_every=20,
    validation_problems=24,
)
DIRECTION_SIZES = (64, 384)


def step(seed: int) -> Controller:
    """Evolution strategies over 30 to 1000 steps."""
    return _train(LearnedStep(), STEP, STEP_SIZES, seed)


def direction(seed: int) -> Controller:
    """Back-propagation through 14 steps, features stopped."""
    torch.manual_seed(seed)  # of the first weights, which torch draws from its own generator
    made = LearnedDirection(hidden=16, memory=8, exchanges=4)
    return _train(made, DIRECTION, DIRECTION_SIZES, seed)


def _train(controller: Controller, config: MetaConfig, n: tuple[int, int], seed: int) -> Controller:
    training, validation = svm_families(n)
    return meta_train(controller, training, replace(config, seed=seed), validation=validation)[0]


def judge_step(controller: Controller) -> dict[str, Any]:
    """Against open-loop rules and the line search."""
    budget: Any = {"max_steps": 1000, "tol": 0.0}
    rivals: Solvers = {
        "2/(t+2)": lambda: FrankWolfe(Simplex(), **budget),
        "1.1/(t+2)": lambda: FrankWolfe(Simplex(), lambda t: 1.1 / (t + 2), **budget),
        "3/(t+3), averaging": lambda: FrankWolfe(
            Simplex(), lambda t: 3 / (t + 3), direction=Averaging(), **budget
        ),
        "line search": lambda: FrankWolfe(Simplex(), LineSearch(), **budget),
    }
    return count_steps(controller, rivals, 1000, svm_families(STEP_SIZES)[1])


def judge_direction(controller: Controller) -> dict[str, Any]:
    """Against hulls without a network."""
    budget: Any = {"max_steps": 60, "tol": 0.0}
    same = Corrections(8, [ProjectedStep(), Exchanges(4)])
    rivals: Solvers = {
        "corrective": lambda: Corrective(Simplex(), memory=8, **budget),
        "corrective, same hull": lambda: FrankWolfe(Simplex(), direction=same, **budget),
    }
    return count_steps(controller, rivals, 60, svm_families(DIRECTION_SIZES)[1])


RECIPES = {
    "simplex-step": Recipe(step, judge_step, TRAINED_ON, STEP.limits, STEP_SIZES, config=STEP),
    "simplex-qp": Recipe(
        direction, judge_direction, TRAINED_ON, DIRECTION.limits, DIRECTION_SIZES, config=DIRECTION
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


def _two_classes(datasets: Any, features: int, seed: int) -> Any:
    return datasets.make_classification(
        800, features, n_informative=8, n_redundant=4, flip_y=0.05, random_state=seed
    )
