"""One frozen record an experiment, and what each profile runs.

quick   embedded data, minutes on two cores: the shape of every figure
paper   the paper's data at a size that means something, within an hour on two cores
full    more points, longer meta-training
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from fwnet.paper.experiment import Profile
from fwnet.paper.meta import MetaTraining

Grid = tuple[float, ...]


@final
@dataclass(frozen=True)
class Cifar2Config:
    """Neural SVMs on pairs of classes.

    Arguments:
        data: set with at least three classes; its features enter as they are.
        pairs: how many of the pairs besides the first one are solved, None for all.
        per_class: points of each class in a problem.
        C: of the SVM.
        beta: the paper's softmin.
        steps: iterations of every run.
        lr: the untuned learning rate.
        betas, gd_grid, adam_grid: what the tuned runs choose from, on the validation rows.
        meta, meta_batch: training of the learned optimizers, problems an episode.
    """

    data: str
    pairs: int | None
    per_class: int
    C: float
    beta: float
    steps: int
    lr: float
    betas: Grid
    gd_grid: Grid
    adam_grid: Grid
    meta: MetaTraining
    meta_batch: int


_CIFAR2 = Cifar2Config(
    data="cifar10-inception",
    pairs=None,
    per_class=250,
    C=1.0,
    beta=10.0,
    steps=200,
    lr=0.01,
    betas=(0.1, 1.0, 10.0, 100.0),
    gd_grid=(0.001, 0.01, 0.1, 0.3, 1.0, 3.0),
    adam_grid=(0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
    meta=MetaTraining(episodes=60, horizon=200),
    meta_batch=8,
)
CIFAR2 = {
    Profile.QUICK: replace(
        _CIFAR2,
        data="digits",
        per_class=40,
        steps=100,
        gd_grid=(0.1, 1.0, 10.0, 100.0),
        adam_grid=(0.01, 0.03, 0.1, 0.3),
        meta=MetaTraining(episodes=8, horizon=100, lr=1e-2, check_every=2),
        meta_batch=4,
    ),
    Profile.PAPER: _CIFAR2,
    Profile.FULL: replace(
        _CIFAR2, per_class=400, steps=500, meta=MetaTraining(episodes=300, horizon=200)
    ),
}


@final
@dataclass(frozen=True)
class CirclesConfig:
    """Deep SVMs on two rings.

    Arguments:
        points: of the training set.
        C, beta, step_size, lr: the paper's: 1, 1, γ = 0.01, Adam 0.01.
        steps: iterations of every run.
        step_sizes, lr_grid: what the tuned FWNet chooses from, on other rings.
        meta, meta_points: training of the learned optimizers, points a run.
        resolution: of the pictures.
    """

    points: int
    C: float
    beta: float
    step_size: float
    lr: float
    steps: int
    step_sizes: Grid
    lr_grid: Grid
    meta: MetaTraining
    meta_points: int
    resolution: int


_CIRCLES = CirclesConfig(
    points=2000,
    C=1.0,
    beta=1.0,
    step_size=0.01,
    lr=0.01,
    steps=500,
    step_sizes=(0.01, 0.1, 0.5),
    lr_grid=(0.01, 0.03, 0.1, 0.3),
    meta=MetaTraining(episodes=150, horizon=100, check_every=10),
    meta_points=400,
    resolution=80,
)
CIRCLES = {
    Profile.QUICK: replace(
        _CIRCLES,
        points=600,
        steps=300,
        step_sizes=(0.01, 0.1),
        lr_grid=(0.01, 0.1),
        meta=MetaTraining(episodes=25, horizon=40, lr=1e-2),
        meta_points=200,
        resolution=60,
    ),
    Profile.PAPER: _CIRCLES,
    Profile.FULL: replace(_CIRCLES, meta=MetaTraining(episodes=600, horizon=100, check_every=20)),
}
