"""python -m benchmarks.trace.mnist_cnn [--seeds 10]: iterations to 95 % on MNIST, and tuned Adam's.

The paper's CNN: two convolutions, a fully connected layer of 16 neurons, a softmax layer.
Frank-Wolfe holds the weights of the last two in trace-norm balls of radius 50, Adam moves the rest.
Every method tries five learning rates on validation images with seeds of its own; the rate that
gets to 95 % in the fewest iterations then runs on fresh seeds, and the test images count. All
methods of a seed share the initial network and the order of the minibatches. Frank-Wolfe's share of
the rate, its momentum and the softness were chosen on the validation images too. The row "as in the
paper" is not tuned: γ = 0.001, five power iterations, no momentum, Adam with 0.001 for the rest.

MNIST is read from the folder FWNET_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import fwnet
from benchmarks.svm.data import folder
from fwnet.optim import FrankWolfe

BATCH, LIMIT, EVERY, GOAL = 64, 600, 5, 0.95
RADIUS, TRAIN, SHOWN = 50.0, 20_000, 1000  # images to train on; to count on
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


def held(share: float = 1.0, rest_rate: float | None = None, **options: object) -> Build:
    """Frank-Wolfe on the fully connected weights, Adam on the rest with lr, or rest_rate.

    Frank-Wolfe takes a share of lr: its steps keep their length when gradients get small.
    """

    def build(net: nn.Sequential, lr: float) -> torch.optim.Optimizer:
        weights = [net[5].weight, net[7].weight]
        rest = [p for p in net.parameters() if all(p is not w for w in weights)]
        groups = [
            {"params": weights, "domain": fwnet.TraceNormBall(RADIUS)},
            {"params": rest, "lr": lr if rest_rate is None else rest_rate},
        ]
        return FrankWolfe(groups, lr=share * lr, **options)

    return build


RATES = (2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
ADAM = Method("Adam", lambda net, lr: torch.optim.Adam(net.parameters(), lr=lr), RATES)
METHODS = (
    ADAM,
    Method("trace norm, spectral", held(0.25, oracle=fwnet.NewtonSchulz(), momentum=0.95), RATES),
    Method("trace norm, soft", held(0.25, oracle=fwnet.SoftTraceNorm(0.3), momentum=0.95), RATES),
    Method(
        "as in the paper",
        held(oracle=fwnet.PowerIteration(5), momentum=0.0, rescale=None, rest_rate=1e-3),
        (1e-3,),
    ),
    Method("Adam, as there", ADAM.build, (1e-3,)),
    Method("trace norm, rank 1", held(oracle=fwnet.PowerIteration(1)), RATES),
)


def iterations(build: Build, lr: float, seed: int, data: Data) -> int:
    """How many minibatches until GOAL of the shown images are right; LIMIT if never."""
    net = network(seed)
    opt = build(net, lr)
    order = torch.Generator().manual_seed(seed)
    recent: list[float] = []
    for t in range(1, LIMIT + 1):
        rows = torch.randint(len(data.X), (BATCH,), generator=order)
        opt.zero_grad()
        scores = net(data.X[rows])
        nn.functional.cross_entropy(scores, data.y[rows]).backward()
        opt.step()
        recent = [*recent[-4:], _share(scores, data.y[rows])]
        # Looking costs thirty steps: only when the last minibatches say that it is worth it.
        if t % EVERY == 0 and statistics.mean(recent) >= GOAL - 0.03:
            with torch.no_grad():
                if _share(net(data.X_shown), data.y_shown) >= GOAL:
                    return t
    return LIMIT


def _share(scores: Tensor, y: Tensor) -> float:
    return float((scores.argmax(-1) == y).float().mean())


def chosen(method: Method, data: Data, seeds: range) -> float:
    """The learning rate with the fewest iterations on validation."""
    if len(method.rates) == 1:
        return method.rates[0]
    means = {
        lr: statistics.mean(iterations(method.build, lr, seed, data) for seed in seeds)
        for lr in method.rates
    }
    say(
        f"  {method.name}, mean on validation: "
        + ", ".join(f"{lr:g}: {mean:.0f}" for lr, mean in means.items())
    )
    return min(means, key=lambda lr: means[lr])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def images(part: str, rows: range) -> tuple[Tensor, Tensor]:
    """Images `(n, 1, 28, 28)` in [0, 1] and digits; only what is needed is unpacked."""
    root = folder()
    assert root is not None
    tensors = []
    for kind, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        with gzip.open(root / "mnist" / f"{part}-{kind}-ubyte.gz") as file:
            raw = bytearray(file.read(header + rows.stop * size)[header + rows.start * size :])
        tensors.append(torch.frombuffer(raw, dtype=torch.uint8))
    return tensors[0].reshape(-1, 1, 28, 28) / 255, tensors[1].long()


def load() -> tuple[Data, Data]:
    """The same training images, shown beside validation and test images."""
    train = images("train", range(TRAIN))
    validation = images("train", range(TRAIN, TRAIN + SHOWN))
    return Data(*train, *validation), Data(*train, *images("t10k", range(SHOWN)))


def main(seeds: int = 10, tuning: int = 2) -> None:
    """Tune and run each method in turn, print its row; some five minutes of one core."""
    if folder() is None:
        raise SystemExit("mnist_cnn: set FWNET_DATA to the folder that holds mnist/.")
    torch.set_num_threads(1)
    validation, test = load()
    say(f"iterations to {GOAL:.0%} of {SHOWN} test images, {seeds} seeds; {LIMIT} stands for never")
    adam: list[int] = []
    for method in METHODS:
        lr = chosen(method, validation, range(1000, 1000 + tuning))
        run = [iterations(method.build, lr, seed, test) for seed in range(seeds)]
        adam = adam or run
        ratios = sorted(a / b for a, b in zip(run, adam, strict=True))
        say(
            f"{method.name:20s} lr {lr:<6g} median {statistics.median(run):4.0f}, "
            f"{min(run)} to {max(run)};  over tuned Adam's, seed by seed: "
            f"median {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tuning", type=int, default=2, help="seeds for each learning rate")
    options = parser.parse_args()
    main(options.seeds, options.tuning)
