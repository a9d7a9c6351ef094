"""Recipes of `paper-step` and `paper-direction`: the paper's LSTMs on pairs of CIFAR-10's classes.

Training and validation see the first two classes, with rows of their own; the card has the 44 other
pairs, with the rows of the test part. `python -m fwnet.lab.recipes --judge paper-step` computes the
card's numbers anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, final

import torch
from torch import Tensor

from fwnet.data import load, splits
from fwnet.domains import Simplex
from fwnet.lab.paper.methods import no_denormals
from fwnet.lab.recipes.base import SEED, Recipe
from fwnet.learned.controllers import Controller, LSTMDirection, LSTMStep, Slots
from fwnet.learned.controllers.slots import slot_of
from fwnet.learned.families import ProblemFamily
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.losses import (
    FinalSuboptimality,
    SumOfValues,
    relative_suboptimality,
)
from fwnet.learned.training.tasks import seeded, with_seed
from fwnet.learned.training.trainer import meta_train
from fwnet.oracles import Softmin
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch

DATA, SHARES, PER_CLASS, C = "cifar10-inception", (0.3, 0.3, 0.4), 150, 1.0
FIRST = (0, 1)
BETA, HORIZON = 10.0, 200
DIRECTION = MetaConfig(
    steps=120,
    unroll=20,
    horizon=HORIZON,
    batch=2,
    learning_rate=1e-2,
    loss=SumOfValues(),
    validate_every=4,
    patience=10,
    validation_problems=6,
    validation_loss=FinalSuboptimality(),
)
STEP = DIRECTION
TRAINED_ON = (
    "SVM duals (linear kernel, C = 1, 150 points of each class) of Inception features of "
    "CIFAR-10's first two classes; chosen on other images of the same classes"
)
JUDGED = (
    "mean of (f − f*)/f* over the 44 other pairs of classes, at the end of 200 iterations and over "
    "all of them; the softmin has β = 10"
)


@final
class ClassPairs(ProblemFamily):
    """Duals of linear SVMs on pairs of classes, each on a fresh draw of rows.

        f(α) = ½ αᵀ(yyᵀ ∘ (XXᵀ + 1) + I/C) α   over the unit simplex

    The features enter as they are, as in the paper.

    Arguments:
        X: rows `(rows, d)`.
        y: their classes `(rows,)`.
        pairs: of classes, drawn with equal chance; `sample` of as many problems has each once.
        per_class: points of each class in a problem.
        C: of the SVM.
    """

    def __init__(
        self,
        X: Tensor,
        y: Tensor,
        pairs: Sequence[tuple[int, int]],
        per_class: int = PER_CLASS,
        C: float = C,
    ) -> None:
        self.X, self.y, self.pairs, self.C = X, y, tuple(pairs), C
        self.domain = Simplex()
        used = {label for pair in self.pairs for label in pair}
        self.rows = {label: (y == label).nonzero().squeeze(-1) for label in used}
        self.per_class = min(per_class, *(len(rows) for rows in self.rows.values()))
        self.gram = X @ X.mT

    def sample(self, batch: int, generator: torch.Generator) -> SVMDual:
        if batch == len(self.pairs):
            chosen = list(self.pairs)
        else:
            places = torch.randint(len(self.pairs), (batch,), generator=generator)
            chosen = [self.pairs[place] for place in places.tolist()]
        rows = torch.stack([self._draw(pair, generator) for pair in chosen])  # (batch, n)
        signs = self.X.new_ones(batch, 2 * self.per_class)
        signs[:, self.per_class :] = -1
        return SVMDual(self.gram[rows.unsqueeze(-1), rows.unsqueeze(-2)], signs, C=self.C)

    def _draw(self, pair: tuple[int, int], generator: torch.Generator) -> Tensor:
        drawn = []
        for label in pair:
            rows = self.rows[label]
            drawn.append(rows[torch.randperm(len(rows), generator=generator)[: self.per_class]])
        return torch.cat(drawn)


def class_pairs(seed: int) -> tuple[ClassPairs, ClassPairs, ClassPairs]:
    """Families of training, validation and test; the parts of the rows depend on the seed."""
    data = load(DATA)
    X = torch.tensor(data.train()[0].reshape(len(data.y), -1))
    y = torch.tensor(data.y).long()
    parts = splits(data.y, SHARES, seed=seed)
    others = [pair for pair in combinations(range(len(data.classes)), 2) if pair != FIRST]

    def part(rows: Any, pairs: Sequence[tuple[int, int]]) -> ClassPairs:
        kept = torch.tensor(rows).long()
        used = torch.isin(y[kept], torch.tensor(sorted({c for pair in pairs for c in pair})))
        kept = kept[used]
        return ClassPairs(X[kept], y[kept], pairs)

    return part(parts.optimizee, [FIRST]), part(parts.optimizer, [FIRST]), part(parts.test, others)


def template() -> FrankWolfe:
    """The paper's solver for these problems: softmin with β = 10, γ = 2/(t + 2)."""
    return FrankWolfe(Simplex(), oracle=Softmin(BETA), max_steps=HORIZON, tol=0.0)


def step(seed: int) -> Controller:
    """Back-propagation of Σ f(x_t) through 20 of 200 steps, with the softmin of β = 10."""
    return _trained(with_seed(LSTMStep, seed), STEP, seed)


def direction(seed: int) -> Controller:
    """Back-propagation of Σ f(x_t) through 20 of 200 steps, γ = 2/(t + 2)."""
    made = with_seed(lambda: LSTMDirection(preprocess=True, beta=BETA), seed)
    return _trained(made, DIRECTION, seed)


def _trained(controller: Controller, config: MetaConfig, seed: int) -> Controller:
    training, validation, _ = class_pairs(seed)
    config = replace(config, seed=seed)
    with no_denormals():
        return meta_train(controller, training, config, solver=template(), validation=validation)[0]


def judge(controller: Controller) -> dict[str, Any]:
    """Against 2/(t + 2) and the line search with the same softmin."""
    test = class_pairs(SEED)[2]
    problem = test.sample(len(test.pairs), seeded(SEED, "card"))
    best = test.best_values(problem)
    line_search = FrankWolfe(
        Simplex(), LineSearch(), oracle=Softmin(BETA), max_steps=HORIZON, tol=0.0
    )
    solvers = {
        "learned": Slots({slot_of(controller): controller}, template()).solver(),
        "2/(t+2)": template(),
        "line search": line_search,
    }
    table = {}
    for name, solver in solvers.items():
        values = torch.stack([torch.as_tensor(record.value) for record in solver(problem).trace])
        away = relative_suboptimality(values, values[0], best).mean(1)
        table[name] = {"end": round(away[-1].item(), 4), "area": round(away.mean().item(), 4)}
    return table


RECIPES = {
    "paper-step": Recipe(
        step, judge, TRAINED_ON, STEP.limits, (2 * PER_CLASS,) * 2, JUDGED, config=STEP
    ),
    "paper-direction": Recipe(
        direction, judge, TRAINED_ON, DIRECTION.limits, (2 * PER_CLASS,) * 2, JUDGED, DIRECTION
    ),
}
