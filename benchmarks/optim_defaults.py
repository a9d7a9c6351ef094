"""python -m benchmarks.optim_defaults [--seeds 5] [--radii [PICTURE]] [--costs]: beside tuned Adam.

`FrankWolfe(constrain(net))` without any other argument, beside Adam with the best of four learning
rates on validation data. All methods of a seed share the initial network and the order of the
minibatches. Both are shown with averaged weights too (`averaging=8`; `FrankWolfe` without a domain
is torch's Adam to the bit), with a rate tuned for Adam's averages.

`--radii` prints what the radius does on the digits instead: test score, effective rank of the first
layer (Σσ)² / Σσ², and the largest norm over radius that any step had. With a file name it draws
them too.

`--costs` prints what a step costs: on a square matrix, beside the forward and the backward pass of
64 rows through it, and on 40 small layers. Steps are in machine code, which takes over when it
pays; the plain ones are those before that, and all without Numba.

The MNIST problem needs the folder FWNET_DATA and is left out without it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from sklearn.datasets import load_digits, make_friedman1
from torch import Tensor, nn

import fwnet
from benchmarks.harness import Missing, interleave
from benchmarks.svm.data import folder
from benchmarks.trace.mnist_cnn import images, say
from benchmarks.trace.mnist_cnn import network as paper_cnn
from benchmarks.trace.optimizer import in_machine_code, many
from fwnet.optim import FrankWolfe, constrain

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
FACTORS = (1, 2, 4, 8, 16)  # radii over the initial norms
TUNING_SEEDS = range(1000, 1002)
Build = Callable[[nn.Module], FrankWolfe]
Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Problem:
    """A network, its data for a seed (training, validation, test), and how long it is trained."""

    name: str
    network: Callable[[int], nn.Module]
    data: Callable[[int], tuple[Data, Data, Data]]
    epochs: int
    batch: int
    regression: bool = False


@dataclass(frozen=True)
class Score:
    """Accuracy, or R² of a regression, with the last and with the averaged weights."""

    last: float
    averaged: float
    worst: float = 0.0  # largest norm over radius of any step
    rank: float = 0.0  # effective rank of the first matrix


def mlp(*sizes: int) -> Callable[[int], nn.Module]:
    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return build


def digits(seed: int) -> tuple[Data, Data, Data]:
    """scikit-learn's digits: 1047 for training, 300 for validation, the same 450 for all tests."""
    X, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    X = X.float() / 16
    test, rest = torch.randperm(len(X), generator=torch.Generator().manual_seed(0)).split(
        [450, 1347]
    )
    order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(seed))
    train, validation = rest[order].split([1047, 300])
    return (X[train], y[train]), (X[validation], y[validation]), (X[test], y[test])


def mnist(seed: int) -> tuple[Data, Data, Data]:
    train, validation = images("train", range(4000)), images("train", range(4000, 6000))
    return train, validation, images("t10k", range(4000))


def friedman(seed: int) -> tuple[Data, Data, Data]:
    """Friedman's first function with noise of one fifth of its standard deviation."""
    X, y = make_friedman1(4000, noise=1.0, random_state=seed)
    inputs = torch.tensor(2 * X - 1, dtype=torch.float32)
    outputs = torch.tensor((y - 14.4) / 4.9, dtype=torch.float32).unsqueeze(1)
    parts = list(
        zip(inputs.split([1500, 500, 2000]), outputs.split([1500, 500, 2000]), strict=True)
    )
    return parts[0], parts[1], parts[2]


DIGITS = Problem("digits, MLP 64-64-10", mlp(64, 64, 10), digits, 15, 32)
PROBLEMS = (
    DIGITS,
    Problem("digits, batches of 64", mlp(64, 64, 10), digits, 15, 64),
    Problem("digits, MLP 64-256-256-10", mlp(64, 256, 256, 10), digits, 10, 64),
    Problem("Friedman's function, MLP, R²", mlp(10, 64, 64, 1), friedman, 15, 64, regression=True),
    Problem("MNIST, the paper's CNN", paper_cnn, mnist, 6, 64),
)


def defaults(net: nn.Module) -> FrankWolfe:
    return FrankWolfe(constrain(net), averaging=8)  # averages are kept beside the same steps


def adam(lr: float) -> Build:
    return lambda net: FrankWolfe(
        [{"params": net.parameters(), "domain": None}], lr=lr, averaging=8
    )


def train(problem: Problem, build: Build, seed: int, validate: bool, watch: bool = False) -> Score:
    (X, y), validation, test = problem.data(seed)
    shown = validation if validate else test
    net = problem.network(seed)
    opt = build(net)
    loss = nn.functional.mse_loss if problem.regression else nn.functional.cross_entropy
    order = torch.Generator().manual_seed(seed)
    worst = 0.0
    for _ in range(problem.epochs):
        for rows in torch.randperm(len(X), generator=order).split(problem.batch):
            opt.zero_grad()
            loss(net(X[rows]), y[rows]).backward()
            opt.step()
            worst = max(worst, fullest(opt)) if watch else 0.0
    last = score(problem, net, *shown)
    with opt.averaged():
        matrix = next(net.parameters()).detach().flatten(1)
        return Score(last, score(problem, net, *shown), worst, effective_rank(matrix))


@torch.no_grad()
def score(problem: Problem, net: nn.Module, X: Tensor, y: Tensor) -> float:
    if problem.regression:
        return float(1 - (net(X) - y).square().mean() / y.var(correction=0))
    return float((net(X).argmax(1) == y).double().mean())


def fullest(opt: FrankWolfe) -> float:
    """Largest norm over radius among the weights."""
    held = [(g["domain"], p) for g in opt.param_groups if g["domain"] for p in g["params"]]
    return max(float(ball.norm(p.detach().double().flatten(1))) / ball.radius for ball, p in held)


def effective_rank(matrix: Tensor) -> float:
    s = torch.linalg.svdvals(matrix)
    return float(s.sum() ** 2 / s.square().sum())


def tuned(problem: Problem) -> tuple[float, float]:
    """Adam's best learning rates on validation: for its last weights, and for their averages."""
    runs = {lr: [train(problem, adam(lr), s, True) for s in TUNING_SEEDS] for lr in RATES}
    last = {lr: statistics.mean(run.last for run in scores) for lr, scores in runs.items()}
    averaged = {lr: statistics.mean(run.averaged for run in scores) for lr, scores in runs.items()}
    return max(last, key=lambda lr: last[lr]), max(averaged, key=lambda lr: averaged[lr])


def compare(problem: Problem, seeds: Sequence[int]) -> None:
    rate, smooth = tuned(problem)
    ours = [train(problem, defaults, seed, False) for seed in seeds]
    theirs = [train(problem, adam(rate), seed, False).last for seed in seeds]
    averaged = [train(problem, adam(smooth), seed, False).averaged for seed in seeds]
    say(problem.name)
    rows = {
        f"Adam, lr {rate:g}": theirs,
        f"Adam, lr {smooth:g}, averaged": averaged,
        "FrankWolfe, last weights": [run.last for run in ours],
        "FrankWolfe, averaged": [run.averaged for run in ours],
    }
    for name, scores in rows.items():
        text = " ".join(f"{value:.3f}" for value in scores)
        worst = 100 * min(a - b for a, b in zip(scores, theirs, strict=True))
        say(f"  {name:26s} mean {statistics.mean(scores):.4f}  {text}  worst − Adam {worst:+.1f}")


def radii(seeds: Sequence[int], picture: str) -> None:
    say("digits, MLP 64-64-10, test accuracy of averages: mean and least; rank; norm/radius")
    choices: list[tuple[str, type, fwnet.oracles.CostOracle | None]] = [
        ("SpectralBall", fwnet.SpectralBall, None),
        ("TraceNormBall", fwnet.TraceNormBall, None),
        ("TraceNormBall, soft oracle", fwnet.TraceNormBall, fwnet.SoftTraceNorm(3.0)),
        ("TraceNormBall, rank 1", fwnet.TraceNormBall, fwnet.PowerIteration(1)),
    ]
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for name, ball, oracle in choices:
        accuracies, ranks = curves.setdefault(name, ([], []))
        for factor in FACTORS:

            def build(net: nn.Module) -> FrankWolfe:
                groups = constrain(net, {"*.weight": ball(f"{factor}x init")})  # noqa: B023
                return FrankWolfe(groups, oracle=oracle, averaging=8)  # noqa: B023

            runs = [train(DIGITS, build, seed, False, watch=True) for seed in seeds]
            scores = [run.averaged for run in runs]
            accuracies.append(statistics.mean(scores))
            ranks.append(statistics.median(run.rank for run in runs))
            say(
                f"  {name:26s} {factor:2d}x init  {accuracies[-1]:.3f} {min(scores):.3f}"
                f"  rank {ranks[-1]:4.1f}  norm/radius {max(run.worst for run in runs):.4f}"
            )
    if picture:
        draw(curves, picture)


def draw(curves: dict[str, tuple[list[float], list[float]]], path: str) -> None:
    """Accuracy and effective rank over the radius, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, (accuracies, ranks) in curves.items():
        left.plot(FACTORS, accuracies, marker="o", label=name)
        right.plot(FACTORS, ranks, marker="o", label=name)
    for axes, title in ((left, "test accuracy"), (right, "effective rank of the 64 × 64 layer")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(FACTORS, [f"{factor}x init" for factor in FACTORS], fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("radius")
        axes.grid(alpha=0.3)
    left.legend(fontsize=8, loc="lower right")
    right.set_ylim(bottom=0)
    figure.savefig(path, dpi=150)


def _passes(net: nn.Module, rows: torch.Tensor) -> None:
    net(rows).square().mean().backward()


def forty_layers() -> nn.Module:
    """Linear layers, convolutions and norms of at most 64 outputs, with gradients."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.Linear(64, 32), nn.Linear(32, 64)]
        layers += [nn.Conv2d(8, 16, 3), nn.LayerNorm(64)]
    net = nn.Sequential(*layers)
    for p in net.parameters():
        p.grad = torch.randn_like(p)
    return net


def ours(net: nn.Module, rank1: bool = False, plain: bool = False) -> Callable[[], object]:
    """The steps of the defaults, or of vertices of rank 1; in machine code at once, or never."""
    balls = {"*weight": fwnet.TraceNormBall("8x init")} if rank1 else None  # type: ignore[arg-type]
    oracle = fwnet.PowerIteration(1) if rank1 else None
    return in_machine_code(FrankWolfe(constrain(net, balls), oracle=oracle), pays=not plain).step


def say_costs(what: str, steps: dict[str, Callable[[], object]], peers: int, count: int) -> None:
    """Milliseconds, and of our steps the ratios to the last so many contenders."""
    contenders = {name: many(step, count) for name, step in steps.items()}
    samples = {
        name: values
        for name, values in interleave(contenders, 15, units=count).items()
        if not isinstance(values, Missing)
    }
    names = list(samples)
    say(f"  {what}")
    for name in names:
        text = f"    {name:15s} {1e3 * statistics.median(samples[name]):8.3f}"
        for peer in names[-peers:] if name not in names[-peers:] else ():
            pairs = zip(samples[name], samples[peer], strict=True)
            text += f"   {statistics.median(a / b for a, b in pairs):5.2f} of {peer}"
        say(text)


def costs() -> None:
    say("milliseconds of a step, processor time of one thread, medians; medians of ratios")
    for side, count in ((64, 200), (256, 20), (1000, 1)):
        layers = [nn.Linear(side, side, bias=False) for _ in range(7)]
        rows = torch.randn(64, side, generator=torch.Generator().manual_seed(0))
        for layer in layers:
            layer(rows).square().mean().backward()
        weights = [list(layer.parameters()) for layer in layers]
        steps: dict[str, Callable[[], object]] = {
            "default": ours(layers[0]),
            "default, plain": ours(layers[1], plain=True),
            "rank 1": ours(layers[2], rank1=True),
            "rank 1, plain": ours(layers[3], rank1=True, plain=True),
            "passes": partial(_passes, layers[4], rows),
            "AdamW, fused": torch.optim.AdamW(weights[5], fused=True).step,
            "AdamW": torch.optim.AdamW(weights[6]).step,
        }
        say_costs(f"{side} × {side}", steps, 2, count)
    nets = [forty_layers() for _ in range(5)]
    steps = {
        "default": ours(nets[0]),
        "default, plain": ours(nets[1], plain=True),
        "rank 1": ours(nets[2], rank1=True),
        "rank 1, plain": ours(nets[3], rank1=True, plain=True),
        "AdamW, foreach": torch.optim.AdamW(nets[4].parameters(), foreach=True).step,
    }
    say_costs("40 layers", steps, 1, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--radii", nargs="?", const="", metavar="PICTURE")
    parser.add_argument("--costs", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.costs:
        costs()
        return
    if options.radii is not None:
        radii(range(options.seeds), options.radii)
        return
    for problem in PROBLEMS:
        if problem.data is not mnist or folder() is not None:
            compare(problem, range(options.seeds))


if __name__ == "__main__":
    main()
