"""One frozen record an experiment, and what each profile runs; the defaults are the paper's.

quick   embedded data, minutes on two cores: the shape of every figure
paper   the paper's data at a meaningful size, within an hour on two cores
full    ten seeds, whole test sets, more points, longer meta-training: a night on two cores
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from fwnet.lab.paper.experiment import Profile
from fwnet.learned import Linear, MetaConfig

Grid = tuple[float, ...]


@final
@dataclass(frozen=True)
class MetaTraining:
    """How a learned optimizer is trained.

    Arguments:
        episodes: runs, each of another problem.
        horizon: steps of a run.
        window: steps between updates; the graph is cut there.
        lrs: rates of Adam that are tried, each from the same first weights.
        check_every: episodes between validations, which choose the weights that are kept.
    """

    episodes: int
    horizon: int
    window: int = 20
    lrs: tuple[float, ...] = (3e-3, 1e-2)
    check_every: int = 5

    def config(self, seed: int) -> MetaConfig:
        """The same for `meta_train`: constant rates, one run to choose by."""
        return MetaConfig(
            steps=self.episodes,
            unroll=self.window,
            horizon=self.horizon,
            batch=1,
            learning_rate=self.lrs,
            schedule=Linear(1.0),
            validate_every=self.check_every,
            validation_problems=1,
            seed=seed,
        )


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
    l2l_grid: Grid = (0.03, 0.1, 0.3)
    meta: MetaTraining = field(default=MetaTraining(episodes=20, horizon=100))
    meta_batch: int = 2


CIFAR2 = {
    Profile.QUICK: Cifar2Config(
        data="digits",
        per_class=40,
        steps=100,
        gd_grid=(0.1, 1.0, 10.0, 100.0),
        adam_grid=(0.01, 0.03, 0.1, 0.3),
        l2l_grid=(0.1, 0.3),
        meta=MetaTraining(episodes=8, horizon=100, check_every=2),
    ),
    Profile.PAPER: Cifar2Config(),
    Profile.FULL: Cifar2Config(
        per_class=250, steps=300, meta=MetaTraining(episodes=60, horizon=150), meta_batch=2
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

    points: int = 2000
    C: float = 1.0
    beta: float = 1.0
    step_size: float = 0.01
    lr: float = 0.01
    steps: int = 500
    step_sizes: Grid = (0.01, 0.1, 0.5)
    lr_grid: Grid = (0.01, 0.03, 0.1, 0.3)
    meta: MetaTraining = field(default=MetaTraining(episodes=60, horizon=80, check_every=6))
    meta_points: int = 300
    resolution: int = 80


CIRCLES = {
    Profile.QUICK: CirclesConfig(
        points=600,
        step_sizes=(0.01, 0.1),
        lr_grid=(0.01, 0.1),
        meta=MetaTraining(episodes=25, horizon=40, lrs=(1e-2,)),
        meta_points=200,
        resolution=60,
    ),
    Profile.PAPER: CirclesConfig(),
    Profile.FULL: CirclesConfig(meta=MetaTraining(episodes=200, horizon=100, check_every=10)),
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

    data: str = "cifar10"
    positive: tuple[int, ...] = (0, 1, 8, 9)  # airplane, automobile, ship, truck
    points: int = 300
    test_points: int = 1000
    channels: int = 8
    C: float = 1.0
    beta: float = 1.0
    step_size: float = 0.01
    lr: float = 0.01
    steps: int = 120
    lr_grid: Grid = (0.003, 0.01, 0.03)
    step_sizes: Grid = (0.01, 0.3)
    meta: MetaTraining = field(default=MetaTraining(episodes=8, horizon=60, check_every=2))
    meta_points: int = 200


MANMADE = {
    Profile.QUICK: ManmadeConfig(
        data="digits",
        positive=(1, 4, 7),  # straight strokes
        points=250,
        test_points=300,
        steps=60,
        lr_grid=(0.003, 0.01),
        meta=MetaTraining(episodes=6, horizon=40, window=10, check_every=2),
        meta_points=120,
    ),
    Profile.PAPER: ManmadeConfig(),
    Profile.FULL: ManmadeConfig(
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

    data: str = "mnist"
    rows: int | None = None
    test_points: int = 1000
    channels: int = 8
    width: int = 16
    radius: float = 50.0
    step_size: float = 0.001
    iterations: int = 5
    lr: float = 0.001
    grid: Grid = (0.001, 0.003, 0.01, 0.03)
    batch: int = 64
    steps: int = 600
    every: int = 20
    meta: MetaTraining = field(default=MetaTraining(episodes=12, horizon=140, check_every=3))


MNIST = {
    Profile.QUICK: MnistConfig(
        data="digits",
        test_points=400,
        steps=400,
        every=10,
        grid=(0.003, 0.01, 0.03),
        meta=MetaTraining(episodes=10, horizon=100, check_every=2),
    ),
    Profile.PAPER: MnistConfig(),
    Profile.FULL: MnistConfig(
        test_points=10000, steps=1500, meta=MetaTraining(episodes=40, horizon=200)
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

    data: tuple[str, ...] = ("mnist", "cifar10")
    rows: int | None = 20000
    test_points: int = 1000
    channels: int = 8
    nets: tuple[tuple[int, int], ...] = ((16, 1), (64, 1), (256, 2))
    radius: float = 50.0
    step_size: float = 0.001
    iterations: int = 5
    grid: Grid = (0.001, 0.003, 0.01)
    batch: int = 64
    steps: int = 300
    every: int = 50


DENSITY = {
    Profile.QUICK: DensityConfig(
        data=("digits",), rows=None, test_points=400, nets=((16, 1), (64, 1), (128, 2)), steps=250
    ),
    Profile.PAPER: DensityConfig(),
    Profile.FULL: DensityConfig(
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
