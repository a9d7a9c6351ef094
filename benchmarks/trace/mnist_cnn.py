"""python -m benchmarks.trace.mnist_cnn [--seeds 10]: iterations to 95 % on MNIST, and tuned Adam's.

The paper's CNN: two convolutions, a fully connected layer of 16 neurons, a softmax layer. What
counts is the first iteration, of 5, 10, 15, …, at which 95 % of all 10,000 test images are right:
with the averaged weights where a method keeps averages, with the weights themselves where not.
Every method tries five learning rates on 5,000 validation images with seeds of its own; the rate
with the smallest median then runs once on fresh seeds. All methods of a seed share the initial
network and the order of the minibatches.

Frank-Wolfe holds weights in trace-norm balls of radius 50: all of them, or those of the last two
layers as in the paper; Adam moves the rest with the same rate. Oracles, momentum, rescaling and
averaging were chosen on validation images. The rows "as in the paper" are not tuned: γ = 0.001,
five power iterations, no momentum, Adam with 0.001 for the rest.

MNIST is read from the folder FWNET_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import fwnet
from benchmarks.svm.data import folder
from fwnet.data import load
from fwnet.optim import FrankWolfe, constrain

BATCH, LIMIT, EVERY, GOAL, RADIUS = 64, 400, 5, 0.95, 50.0
TRAIN, VALIDATION, TEST, BLOCK = 20_000, 5_000, 10_000, 500  # images
TUNING_SEED, TEST_SEED = 1000, 3000
Build = Callable[[nn.Sequential, float], torch.optim.Optimizer]


@dataclass(frozen=True)
class Data:
    """Images `(n, 1, 28, 28)` and digits for training and for counting."""

    X: Tensor
    y: Tensor
    X_shown: Tensor
    y_shown: Tensor


@dataclass(frozen=True)
class Method:
    """A name, how to build its optimizer, and the learning rates that it may choose from."""

    name: str
    build: Build
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """Minibatches until GOAL of the shown images are right, LIMIT if never; seconds of training."""

    iterations: int
    seconds: float


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 16),
        nn.ReLU(),
        nn.Linear(16, 10),
    )


def held(names: Sequence[str] = ("*.weight",), **options: Any) -> Build:
    """Frank-Wolfe on the named weights, Adam on the rest."""

    def build(net: nn.Sequential, lr: float) -> torch.optim.Optimizer:
        groups = constrain(net, {name: fwnet.TraceNormBall(RADIUS) for name in names})
        return FrankWolfe(groups, lr=lr, **options)

    return build


def as_in_the_paper(net: nn.Sequential, lr: float) -> torch.optim.Optimizer:
    return held(LAST, oracle=fwnet.PowerIteration(5), momentum=0.0, rescale=None)(net, lr)


def adam(net: nn.Sequential, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(net.parameters(), lr=lr)


def averaged_adam(net: nn.Sequential, lr: float) -> torch.optim.Optimizer:
    """Without a domain FrankWolfe is torch's Adam to the bit."""
    return FrankWolfe([{"params": net.parameters(), "domain": None}], lr=lr, averaging=8)


LAST = ("5.weight", "7.weight")
RATES = (2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
LARGE = (1e-2, 2e-2, 4e-2, 8e-2, 16e-2)  # for WIDE: no vertex of high rank is as far away
WIDE: dict[str, Any] = {"rescale": "diameter"}
SPECTRAL, SOFT = fwnet.NewtonSchulz(), fwnet.SoftTraceNorm(0.3)
PLAIN: dict[str, Any] = {"momentum": 0.8, "rescale": None}  # γ = lr
METHODS = (
    Method("Adam", adam, RATES),
    Method("Adam, averaged", averaged_adam, RATES),
    Method("spectral, averaged", held(oracle=SPECTRAL, averaging=8, **PLAIN), RATES),
    Method("soft, averaged", held(oracle=SOFT, averaging=8, **PLAIN), RATES),
    Method("diameter, spectral, averaged", held(oracle=SPECTRAL, averaging=8, **WIDE), LARGE),
    Method("last two, spectral, averaged", held(LAST, oracle=SPECTRAL, averaging=8, **WIDE), LARGE),
    Method("spectral", held(oracle=SPECTRAL, **PLAIN), RATES),
    Method("rank 1, averaged", held(oracle=fwnet.PowerIteration(1), averaging=8), RATES),
    Method("as in the paper", as_in_the_paper, (1e-3,)),
    Method("Adam, as in the paper", adam, (1e-3,)),
)


def train(build: Build, lr: float, seed: int, data: Data) -> Run:
    net = network(seed)
    opt = build(net, lr)
    order = torch.Generator().manual_seed(seed)
    seconds = 0.0
    for t in range(1, LIMIT + 1):
        begin = time.process_time()
        rows = torch.randint(len(data.X), (BATCH,), generator=order)
        opt.zero_grad()
        nn.functional.cross_entropy(net(data.X[rows]), data.y[rows]).backward()
        opt.step()
        seconds += time.process_time() - begin
        if t % EVERY == 0:
            with torch.no_grad(), shown(opt):
                if reaches(net, data.X_shown, data.y_shown):
                    return Run(t, seconds)
    return Run(LIMIT, seconds)


def shown(opt: torch.optim.Optimizer) -> AbstractContextManager[None]:
    """The averages if the optimizer keeps some."""
    keeps = opt.param_groups[0].get("averaging") is not None
    return opt.averaged() if keeps and isinstance(opt, FrankWolfe) else nullcontext()


def reaches(net: nn.Sequential, X: Tensor, y: Tensor) -> bool:
    """Whether GOAL of the images are right; looks at no more of them than it takes to know."""
    left = round((1 - GOAL) * len(y))
    for images, digits in zip(X.split(BLOCK), y.split(BLOCK), strict=True):
        left -= int((net(images).argmax(-1) != digits).sum())
        if left < 0:
            return False
    return True


def chosen(method: Method, data: Data, seeds: range) -> float:
    """The learning rate with the smallest median on validation; of two alike, the smaller mean."""
    if len(method.rates) == 1:
        return method.rates[0]
    scores = {}
    for lr in method.rates:
        counts = [train(method.build, lr, seed, data).iterations for seed in seeds]
        scores[lr] = (statistics.median(counts), statistics.mean(counts))
    medians = ", ".join(f"{lr:g}: {median:.0f}" for lr, (median, _) in scores.items())
    say(f"  {method.name}, median on validation: {medians}")
    return min(scores, key=lambda lr: scores[lr])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def images(part: str, rows: range) -> tuple[Tensor, Tensor]:
    """Images `(n, 1, 28, 28)` in [0, 1] and digits."""
    data = load("mnist", download=False)
    X, y = (data.train if part == "train" else data.test)(slice(rows.start, rows.stop))
    return torch.from_numpy(X), torch.from_numpy(y)


def parts() -> tuple[Data, Data]:
    """The same training images, shown beside validation and test images."""
    first = images("train", range(TRAIN))
    validation = images("train", range(TRAIN, TRAIN + VALIDATION))
    return Data(*first, *validation), Data(*first, *images("t10k", range(TEST)))


def main(seeds: int = 10, tuning: int = 3) -> None:
    """Tune and run each method in turn, print its row; some nine minutes of one core."""
    if folder() is None:
        raise SystemExit("mnist_cnn: set FWNET_DATA to the folder that holds mnist/.")
    torch.set_num_threads(1)
    validation, test = parts()
    say(f"iterations to {GOAL:.0%} of {TEST} test images, {seeds} seeds; {LIMIT} stands for never")
    rivals: list[tuple[str, list[int]]] = []  # Adam's iterations, seed by seed
    for method in METHODS:
        lr = chosen(method, validation, range(TUNING_SEED, TUNING_SEED + tuning))
        runs = [train(method.build, lr, TEST_SEED + k, test) for k in range(seeds)]
        counts = [run.iterations for run in runs]
        say(
            f"{method.name:28s} lr {lr:<5g} median {statistics.median(counts):3.0f}, {min(counts)} "
            f"to {max(counts)}; {statistics.median(run.seconds for run in runs):.2f} s"
            + "".join(over(counts, theirs, name) for name, theirs in rivals)
        )
        if len(rivals) < 2:
            rivals.append((method.name, counts))


def over(ours: list[int], theirs: list[int], name: str) -> str:
    """How many iterations of the rival's, and how often fewer, seed by seed."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    wins, ties = sum(r < 1 for r in ratios), sum(r == 1 for r in ratios)
    return (
        f"; over {name}: {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}, "
        f"fewer {wins}, as many {ties} of {len(ratios)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tuning", type=int, default=3, help="seeds for each learning rate")
    options = parser.parse_args()
    main(options.seeds, options.tuning)
