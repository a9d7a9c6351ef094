"""One frozen record an experiment, and what each profile runs; the defaults are the paper's.

quick   embedded data and short trainings, minutes on two cores: the shape of every figure
paper   the paper's data, trainings until validation is flat, whole test sets: hours
full    ten seeds, more points: a night on two cores
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from fwnet.lab.paper.experiment import Profile
from fwnet.learned import Cosine, MetaConfig

Grid = tuple[float, ...]


@final
@dataclass(frozen=True)
class MetaTraining:
    """How a learned optimizer is trained: until a third of the episodes brought nothing new.

    Arguments:
        episodes: runs, each of other problems; at most so many.
        horizon: steps of a run, log-uniform between two limits, or one number. Validation takes
            as many steps as a test.
        window: steps between updates; the graph is cut there.
        lrs: rates of Adam that are tried, each from the same initial weights; validation chooses.
        check_every: episodes between validations, which choose the weights that are kept.
        restarts: initial weights that are tried, with every rate.
        average: of the weights, which validation judges; see `MetaConfig`.
    """

    episodes: int
    horizon: int | tuple[int, int]
    window: int = 20
    lrs: tuple[float, ...] = (3e-3, 1e-2)
    check_every: int = 5
    restarts: int = 1
    average: float = 0.98

    @property
    def patience(self) -> int:
        """Validations without a new best after which training stops."""
        return math.ceil(self.episodes / 3 / self.check_every)

    def config(self, seed: int) -> MetaConfig:
        """The same for `meta_train`."""
        return MetaConfig(
            steps=self.episodes,
            unroll=self.window,
            horizon=self.horizon,
            batch=1,
            learning_rate=self.lrs,
            schedule=Cosine(0.1),
            average=self.average,
            validate_every=self.check_every,
            patience=self.patience,
            validation_problems=1,
            seed=seed,
            restarts=self.restarts,
        )


@final
@dataclass(frozen=True)
class Cifar2Config:
    """Neural SVMs on pairs of classes.

    Arguments:
        data: set with at least three classes; its features enter as they are.
        pairs: how many of the pairs besides the first one are solved, None for all.
        per_class: points of each class in a problem.
        C, beta: of the SVM, and the paper's softmin.
        steps: iterations of every run, and of every training.
        lr: the untuned learning rate.
        betas, gd_grid, adam_grid: what the tuned runs choose from, on validation rows.
        meta, batch, held: training of the learned optimizers; problems an episode and a validation.
        flipped: the largest share of labels that are flipped in every second one of these.
    """

    meta: MetaTraining
    data: str = "cifar10-inception"
    pairs: int | None = None
    per_class: int = 150
    C: float = 1.0
    beta: float = 10.0
    steps: int = 200
    lr: float = 0.01
    betas: Grid = (0.1, 1.0, 10.0, 100.0)
    gd_grid: Grid = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
    adam_grid: Grid = (0.001, 0.01, 0.03, 0.1, 0.3)
    batch: int = 2
    held: int = 8
    flipped: float = 0.1


_CIFAR2 = Cifar2Config(MetaTraining(300, 200, check_every=3))
CIFAR2 = {
    Profile.QUICK: replace(
        _CIFAR2,
        data="digits",
        per_class=40,
        steps=100,
        gd_grid=(0.1, 1.0, 10.0, 100.0),
        adam_grid=(0.01, 0.1, 0.3),
        meta=MetaTraining(12, 100, lrs=(1e-2,), check_every=2),
    ),
    Profile.PAPER: _CIFAR2,
    Profile.FULL: replace(_CIFAR2, per_class=250, meta=MetaTraining(400, 200, restarts=2)),
}


@dataclass(frozen=True)
class DeepConfig:
    """Deep SVMs; the paper's C, β, γ and Adam are those of the circles.

    Arguments:
        meta, meta_batch: training of the learned optimizers, deep SVMs an episode.
        points: of a deep SVM.
        C, beta, step_size, lr: 1, 1, γ = 0.01, Adam 0.01.
        steps: iterations of every run.
        step_sizes, lr_grid: what the tuned methods choose from, on other points.
        scale: of the updates by LSTMs, so that untrained ones move little.
    """

    meta: MetaTraining
    meta_batch: int = 1
    scale: float = 0.1
    points: int = 2000
    C: float = 1.0
    beta: float = 1.0
    step_size: float = 0.01
    lr: float = 0.01
    steps: int = 500
    step_sizes: Grid = (0.01, 0.1, 0.5)
    lr_grid: Grid = (0.01, 0.03, 0.1, 0.3)


@final
@dataclass(frozen=True)
class CirclesConfig(DeepConfig):
    """Deep SVMs on two rings.

    Arguments:
        meta_points: of a deep SVM in training, fewer than in a validation or a test.
        direction_step: γ beside the learned direction.
        starts, held: fresh rings and initial weights of a test, and of a validation.
        resolution: of the pictures.
    """

    meta_points: int = 200
    direction_step: float = 0.3
    starts: int = 8
    held: int = 16
    resolution: int = 80

    @property
    def in_training(self) -> CirclesConfig:
        """Deep SVMs of fewer points with the same C n: the loss is an estimate of the same mean."""
        return replace(self, points=self.meta_points, C=self.C * self.points / self.meta_points)


_CIRCLES = CirclesConfig(MetaTraining(200, (30, 120), check_every=20), meta_batch=16, scale=0.2)
CIRCLES = {
    Profile.QUICK: replace(
        _CIRCLES,
        points=200,
        steps=200,
        step_sizes=(0.01, 0.1),
        lr_grid=(0.01, 0.1),
        starts=4,
        held=4,
        meta_batch=4,
        meta=MetaTraining(12, (40, 100), lrs=(1e-2,), check_every=3),
        resolution=60,
    ),
    Profile.PAPER: _CIRCLES,
    Profile.FULL: replace(_CIRCLES, starts=20),
}


@final
@dataclass(frozen=True)
class ManmadeConfig(DeepConfig):
    """A convolutional deep SVM on two superclasses.

    Arguments:
        data: set of images.
        positive: the classes of label +1; the paper's "manmade".
        test_points: images that test it, None for all.
        channels: of the first convolution.
    """

    points: int = 300
    steps: int = 120
    scale: float = 0.02
    lr_grid: Grid = (0.003, 0.01, 0.03)
    step_sizes: Grid = (0.01, 0.3)
    data: str = "cifar10"
    positive: tuple[int, ...] = (0, 1, 8, 9)  # airplane, automobile, ship, truck
    test_points: int | None = None
    channels: int = 8


_MANMADE = ManmadeConfig(MetaTraining(90, 120, check_every=3, lrs=(1e-2,)))
MANMADE = {
    Profile.QUICK: replace(
        _MANMADE,
        data="digits",
        positive=(1, 4, 7),  # straight strokes
        points=150,
        steps=60,
        lr_grid=(0.003, 0.01),
        meta=MetaTraining(6, 60, check_every=2, lrs=(1e-2,)),
    ),
    Profile.PAPER: _MANMADE,
    Profile.FULL: replace(_MANMADE, points=500, steps=200, step_sizes=(0.01, 0.1, 0.3)),
}


@dataclass(frozen=True)
class ImageConfig:
    """Convolutional networks whose dense matrices are in trace-norm balls.

    Arguments:
        rows: how many training images of a set are used, None for all.
        test_points: images of the test set, None for all.
        channels: of the first convolution.
        radius, step_size, iterations: the paper's μ = 50, γ = 0.001, K = 5.
        grid: rates that the tuned methods choose from; one number for γ and lr of FWNet.
        batch, steps, every: images an iteration, iterations, and between tests.
    """

    rows: int | None = None
    test_points: int | None = None
    channels: int = 8
    radius: float = 50.0
    step_size: float = 0.001
    iterations: int = 5
    grid: Grid = (0.001, 0.003, 0.01, 0.03)
    batch: int = 64
    steps: int = 600
    every: int = 20


@final
@dataclass(frozen=True)
class MnistConfig(ImageConfig):
    """A convolutional network with a softmax layer in a trace-norm ball.

    Arguments:
        data: set of images; half of them train optimizers.
        width: of the network's fully connected layer; the paper's has 16 units.
        lr: the paper's Adam, 0.001.
        meta: training of L2LC_∇ and of L2L.
    """

    data: str = "mnist"
    width: int = 16
    lr: float = 0.001
    meta: MetaTraining = MetaTraining(60, 600, check_every=3, lrs=(1e-2,))


MNIST = {
    Profile.QUICK: MnistConfig(
        data="digits",
        steps=300,
        every=10,
        grid=(0.003, 0.01, 0.03),
        meta=MetaTraining(5, 300, check_every=1, lrs=(1e-2,)),
    ),
    Profile.PAPER: MnistConfig(),
    Profile.FULL: MnistConfig(steps=1500),
}


@final
@dataclass(frozen=True)
class DensityConfig(ImageConfig):
    """Wider and deeper networks, their dense matrices in trace-norm balls or not.

    Arguments:
        data: sets of images.
        nets: width and depth of the fully connected part, from sparse to dense.
    """

    rows: int | None = 20000
    grid: Grid = (0.001, 0.003, 0.01)
    steps: int = 300
    every: int = 150
    data: tuple[str, ...] = ("mnist", "cifar10")
    nets: tuple[tuple[int, int], ...] = ((16, 1), (64, 1), (256, 2))


DENSITY = {
    Profile.QUICK: DensityConfig(data=("digits",), rows=None, nets=((16, 1), (64, 1), (128, 2))),
    Profile.PAPER: DensityConfig(),
    Profile.FULL: DensityConfig(
        data=("mnist", "cifar10", "cifar100"),
        nets=((16, 1), (64, 1), (256, 1), (256, 2)),
        rows=None,
        steps=800,
        every=400,
    ),
}
