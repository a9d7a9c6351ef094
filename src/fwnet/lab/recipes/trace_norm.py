"""Recipes of `low-rank-softmax` and `power-iteration`: the trace-norm ball.

Softmax regression on rows of scikit-learn's digits, and random matrices; MNIST is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fwnet.directions import Corrections, ProjectedStep, SingularVertices
from fwnet.lab.recipes.base import SEED, Recipe, drawn_for_card, suboptimality, training
from fwnet.learned.controllers import Controller, LearnedLowRank, LearnedPowerIteration
from fwnet.learned.families import SoftmaxFamily
from fwnet.learned.families.real import all_digits
from fwnet.learned.spectra import SPECTRA, Spectra, matrices
from fwnet.learned.training.config import Cosine, MetaConfig
from fwnet.numerics.singular import power_iteration
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch

LOW_RANK = MetaConfig.suited_to(LearnedLowRank())
POWER = MetaConfig(
    steps=400,
    unroll=3,
    batch=16,
    learning_rate=3e-2,
    schedule=Cosine(0.0),
    validate_every=50,
    validation_problems=64,
)
JUDGED = (10, 20, 40)  # steps after which a card compares
SCALES = (0.5, 0.7, 1.0)  # of the pixels: as good as other radii


def family(part: str) -> SoftmaxFamily:
    """Rows of the digits, 60 % to train on and 20 % to choose by; the rest is never drawn."""
    X, y = all_digits()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(SEED))
    first, second = int(0.6 * len(y)), int(0.8 * len(y))
    rows = order[:first] if part == "train" else order[first:second]
    pixels = X[rows]
    return SoftmaxFamily([(scale * pixels, y[rows]) for scale in SCALES], n=(150, 350))


def judge_low_rank(controller: Controller) -> dict[str, Any]:
    """Median relative suboptimality after 10, 20 and 40 steps on 24 validation problems."""
    problems = family("validation")
    drawn, ball, table = drawn_for_card(problems), problems.domain, {}
    hull = Corrections(4, [ProjectedStep(), SingularVertices()], rounds=1)
    solvers: dict[str, Callable[..., FrankWolfe]] = {
        "learned": partial(controller.solver, ball),
        "untrained": partial(LearnedLowRank().solver, ball),
        "hand-designed hull": partial(FrankWolfe, ball, direction=hull),
        "line search": partial(FrankWolfe, ball, LineSearch()),
    }
    for name, make in solvers.items():
        solver = make(max_steps=max(JUDGED), tol=0.0)
        away = torch.cat([suboptimality(solver, one) for one in drawn], 1).median(1).values
        table[name] = {str(t): float(f"{away[t]:.2e}") for t in JUDGED}
    return table


@torch.no_grad()
def judge_power(controller: Controller) -> dict[str, Any]:
    """Mean log10(1 − σ̂/σ₁) over 100 matrices of 60 × 40 of each kind, from random vectors."""
    assert isinstance(controller, LearnedPowerIteration)
    table: dict[str, Any] = {"learned": {}, "power iteration": {}}
    for place, kind in enumerate(SPECTRA):
        generator = torch.Generator().manual_seed(10_000 + place)
        G = matrices(kind, 100, (60, 40), generator)
        v = torch.randn(100, 40, generator=generator, dtype=G.dtype)
        largest = torch.linalg.matrix_norm(G, 2)
        for name, sigma in {
            "learned": controller.pair(G, v).sigma,
            "power iteration": power_iteration(G, v, controller.steps).sigma,
        }.items():
            missing = (1 - sigma / largest).clamp_min(1e-12).log10().mean()
            table[name][kind] = round(float(missing), 2)
    return table


RECIPES = {
    "low-rank-softmax": Recipe(
        "Evolution strategies over 10 to 40 steps, from a momentum of 0.8 and exact curvature.",
        training(LearnedLowRank, lambda: (family("train"), family("validation")), LOW_RANK),
        judge_low_rank,
        "softmax regression on 150 to 350 rows of scikit-learn's digits, radius 30, pixels times "
        "0.5, 0.7 or 1; chosen by other rows",
        LOW_RANK.limits,
        (150, 350),
        "median relative suboptimality after so many steps",
        LOW_RANK,
    ),
    "power-iteration": Recipe(
        "Back-propagation through three calls of five iterations each, matrices drifting between.",
        training(partial(LearnedPowerIteration, 5), lambda: (Spectra(), None), POWER),
        judge_power,
        "random matrices with sides of 8 to 64, flat, decaying and tied spectra",
        (5, 5),
        (8, 64),
        "mean log10 of the missing share of the largest singular value, 5 iterations from a random "
        "vector",
    ),
}
