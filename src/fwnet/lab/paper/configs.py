"""One frozen record an experiment, and what each profile runs.

quick   embedded data, minutes on two cores: the shape of every figure
paper   the paper's data at a size that means something, within an hour on two cores
full    ten seeds, whole test sets, more points, longer meta-training: a night on two cores
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.meta import MetaTraining

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
        l2l_grid: the same for L2L, whose rate is the scale of its LSTM's answers.
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
    l2l_grid: Grid
    meta: MetaTraining
    meta_batch: int


_CIFAR2 = Cifar2Config(
    data="cifar10-inception",
    pairs=None,
    per_class=150,
    C=1.0,
    beta=10.0,
    steps=200,
    lr=0.01,
    betas=(0.1, 1.0, 10.0, 100.0),
    gd_grid=(0.001, 0.01, 0.1, 0.3, 1.0, 3.0),
    adam_grid=(0.001, 0.01, 0.03, 0.1, 0.3),
    l2l_grid=(0.03, 0.1, 0.3),
    meta=MetaTraining(episodes=20, horizon=100),
    meta_batch=2,
)
CIFAR2 = {
    Profile.QUICK: replace(
        _CIFAR2,
        data="digits",
        per_class=40,
        steps=100,
        gd_grid=(0.1, 1.0, 10.0, 100.0),
        adam_grid=(0.01, 0.03, 0.1, 0.3),
        l2l_grid=(0.1, 0.3),
        meta=MetaTraining(episodes=8, horizon=100, check_every=2),
    ),
    Profile.PAPER: _CIFAR2,
    Profile.FULL: replace(
        _CIFAR2,
        per_class=250,
        steps=300,
        meta=MetaTraining(episodes=60, horizon=150),
        meta_batch=2,
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
    meta=MetaTraining(episodes=60, horizon=80, check_every=6),
    meta_points=300,
    resolution=80,
)
CIRCLES = {
    Profile.QUICK: replace(
        _CIRCLES,
        points=600,
        step_sizes=(0.01, 0.1),
        lr_grid=(0.01, 0.1),
        meta=MetaTraining(episodes=25, horizon=40, lrs=(1e-2,)),
        meta_points=200,
        resolution=60,
    ),
    Profile.PAPER: _CIRCLES,
    Profile.FULL: replace(_CIRCLES, meta=MetaTraining(episodes=200, horizon=100, check_every=10)),
}


@final
@dataclass(frozen=True)
class ManmadeConfig:
    """A convolutional deep SVM on two superclasses.

    Arguments:
        data: set of images.
        positive: the classes of label +1; the paper's "manmade".
        points, test_points: images that train the deep SVM, and that test it.
        channels: of the first convolution.
        C, beta, step_size, lr: of the SVM, the softmin, FWNet's constant step and Adam.
        steps: iterations of every run.
        lr_grid, step_sizes: what the tuned FWNet and the tuned Adam choose from.
        meta, meta_points: training of L2LC_γ, images a run.
    """

    data: str
    positive: tuple[int, ...]
    points: int
    test_points: int
    channels: int
    C: float
    beta: float
    step_size: float
    lr: float
    steps: int
    lr_grid: Grid
    step_sizes: Grid
    meta: MetaTraining
    meta_points: int


_MANMADE = ManmadeConfig(
    data="cifar10",
    positive=(0, 1, 8, 9),  # airplane, automobile, ship, truck
    points=300,
    test_points=1000,
    channels=8,
    C=1.0,
    beta=1.0,
    step_size=0.01,
    lr=0.01,
    steps=120,
    lr_grid=(0.003, 0.01, 0.03),
    step_sizes=(0.01, 0.3),
    meta=MetaTraining(episodes=8, horizon=60, check_every=2),
    meta_points=200,
)
MANMADE = {
    Profile.QUICK: replace(
        _MANMADE,
        data="digits",
        positive=(1, 4, 7),  # straight strokes
        points=250,
        test_points=300,
        steps=60,
        lr_grid=(0.003, 0.01),
        meta=MetaTraining(episodes=6, horizon=40, window=10, check_every=2),
        meta_points=120,
    ),
    Profile.PAPER: _MANMADE,
    Profile.FULL: replace(
        _MANMADE,
        points=500,
        test_points=10000,
        steps=200,
        step_sizes=(0.01, 0.1, 0.3),
        meta=MetaTraining(episodes=20, horizon=80),
    ),
}


@final
@dataclass(frozen=True)
class MnistConfig:
    """A convolutional network with a softmax layer in a trace-norm ball.

    Arguments:
        data: set of images.
        rows: how many training images are used, None for all; half of them train optimizers.
        test_points: images of the test set.
        channels, width: of the network; the paper's fully connected layer has 16 units.
        radius, step_size, iterations: the paper's μ = 50, γ = 0.001, K = 5.
        lr: the paper's Adam, 0.001.
        grid: rates that the tuned Adam and the tuned FWNet (γ and Adam alike) choose from.
        batch, steps, every: images an iteration, iterations, and between tests.
        meta: training of L2LC_∇.
    """

    data: str
    rows: int | None
    test_points: int
    channels: int
    width: int
    radius: float
    step_size: float
    iterations: int
    lr: float
    grid: Grid
    batch: int
    steps: int
    every: int
    meta: MetaTraining


_MNIST = MnistConfig(
    data="mnist",
    rows=None,
    test_points=1000,
    channels=8,
    width=16,
    radius=50.0,
    step_size=0.001,
    iterations=5,
    lr=0.001,
    grid=(0.001, 0.003, 0.01, 0.03),
    batch=64,
    steps=600,
    every=20,
    meta=MetaTraining(episodes=12, horizon=140, check_every=3),
)
MNIST = {
    Profile.QUICK: replace(
        _MNIST,
        data="digits",
        test_points=400,
        steps=400,
        every=10,
        grid=(0.003, 0.01, 0.03),
        meta=MetaTraining(episodes=10, horizon=100, check_every=2),
    ),
    Profile.PAPER: _MNIST,
    Profile.FULL: replace(
        _MNIST, test_points=10000, steps=1500, meta=MetaTraining(episodes=40, horizon=200)
    ),
}


@final
@dataclass(frozen=True)
class DensityConfig:
    """Wider and deeper networks, their dense matrices in trace-norm balls or not.

    Arguments:
        data: sets of images.
        rows: training images of each set that are used.
        test_points: images of the test set.
        channels: of the first convolution.
        nets: width and depth of the fully connected part, from sparse to dense.
        radius, step_size, iterations: as in the experiment on MNIST; step_size is Adam's rate too.
        grid: what both methods' constants are tuned over; has the step size in it.
        batch, steps, every: images an iteration, iterations, and between tests.
    """

    data: tuple[str, ...]
    rows: int | None
    test_points: int
    channels: int
    nets: tuple[tuple[int, int], ...]
    radius: float
    step_size: float
    iterations: int
    grid: Grid
    batch: int
    steps: int
    every: int


_DENSITY = DensityConfig(
    data=("mnist", "cifar10"),
    rows=20000,
    test_points=1000,
    channels=8,
    nets=((16, 1), (64, 1), (256, 2)),
    radius=50.0,
    step_size=0.001,
    iterations=5,
    grid=(0.001, 0.003, 0.01),
    batch=64,
    steps=300,
    every=50,
)
DENSITY = {
    Profile.QUICK: replace(
        _DENSITY,
        data=("digits",),
        rows=None,
        test_points=400,
        nets=((16, 1), (64, 1), (128, 2)),
        steps=250,
    ),
    Profile.PAPER: _DENSITY,
    Profile.FULL: replace(
        _DENSITY,
        data=("mnist", "cifar10", "cifar100"),
        nets=((16, 1), (64, 1), (256, 1), (256, 2)),
        rows=None,
        test_points=10000,
        steps=800,
        every=100,
    ),
}


@final
@dataclass(frozen=True)
class BeyondConfig:
    """The library's own solvers on the problems of the other experiments."""

    cifar2: Cifar2Config
    circles: CirclesConfig
    mnist: MnistConfig


BEYOND = {
    profile: BeyondConfig(CIFAR2[profile], CIRCLES[profile], MNIST[profile]) for profile in Profile
}
