"""Softmax regression over the trace-norm ball: MNIST in 14 × 14, half to train, half to test.

Full gradients for all; only the last row of each T lets the rival have minibatches instead, as
many passes over the data as ours takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.learned.bars import Bar, Missing
from fwnet import FrankWolfe, LineSearch, SoftmaxRegression, TraceNormBall, learned
from fwnet.directions import Corrections, ProjectedStep, SingularVertices
from fwnet.learned.baselines import FISTA, Baseline, ProjectedMomentum, Solver, as_solver
from fwnet.learned.families.real import all_mnist

STEPS = (10, 20, 40)
RATES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
MOMENTA = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
BATCH = 1000  # of the minibatches
PASSES = 3 / 2  # over X, ours against those of a gradient step: singular directions besides
BALL = TraceNormBall(30.0)


def halves(seed: int = 0) -> tuple[SoftmaxRegression, SoftmaxRegression] | None:
    """Problems of two disjoint halves of MNIST's training images, 30,000 each."""
    data = all_mnist()
    if data is None:
        return None
    images, digits = (torch.as_tensor(part.copy()) for part in data)
    X = images.float().div(255).reshape(-1, 14, 2, 14, 2).mean((2, 4)).flatten(1)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    first, second = order.split(len(order) // 2)
    return tuple(SoftmaxRegression(X[r], digits[r].long(), 10) for r in (first, second))  # type: ignore[return-value]


def low_rank(controllers: Sequence[learned.Controller], problems: int) -> list[Bar | Missing]:
    """Loss at T against projected SGD with momentum, its constants the best for that T."""
    found = halves()
    if found is None:
        return [Missing("low-rank softmax on MNIST", "needs MNIST in the folder FWNET_DATA")]
    training, test = found
    ours = _losses(_learned(controllers), test)
    tuned = _tuned(training, RATES, MOMENTA, None)
    sampled = _tuned(training, (0.1, 0.2, 0.5, 1.0, 2.0), (0.0, 0.9), BATCH)
    rivals: dict[str, Callable[[int], Baseline]] = {
        "projected SGD": lambda t: tuned[t],
        "FISTA": lambda t: FISTA(),
        "rank-1 line search": lambda t: Solver("", lambda d: FrankWolfe(d, LineSearch())),
        "hand-designed hull": lambda t: Solver("", _hand_designed),
        "the same, untrained": lambda t: Solver("", partial(as_solver, learned.LearnedLowRank())),
        "minibatches": lambda t: sampled[t],
    }
    rows: list[Bar | Missing] = []
    for t in STEPS:
        for rival, make in rivals.items():
            baseline = make(t)
            theirs = float(baseline.run(test, BALL, t).values[-1])
            label = f"{rival} {baseline.name.removeprefix('projected SGD')}".strip()
            mine = float(ours[:, t].median())
            least = 1.0 if rival == "projected SGD" else None
            name = f"low-rank softmax, T={t}"
            rows.append(Bar(name, mine, "loss", theirs, label, theirs / mine, None, least))
    rows += _parts(controllers, tuned, test, problems)
    return [*rows, _seconds(controllers[0], tuned[40], test)]


def _parts(
    controllers: Sequence[learned.Controller],
    tuned: dict[int, Baseline],
    test: SoftmaxRegression,
    problems: int,
) -> list[Bar]:
    """The same on disjoint parts of the test half: medians and quartiles of the ratios."""
    size = len(test.y) // max(problems, 1)
    parts = [test.minibatch(torch.arange(k * size, (k + 1) * size)) for k in range(problems)]
    ours = torch.stack([_losses(_learned(controllers), part) for part in parts])  # (P, seeds, T)
    rows = []
    for t in STEPS:
        theirs = torch.stack([tuned[t].run(part, BALL, t).values[-1] for part in parts])
        ratios = (theirs.unsqueeze(-1) / ours[..., t]).flatten()
        low, middle, high = ratios.quantile(torch.tensor([0.25, 0.5, 0.75]).double()).tolist()
        name = f"low-rank softmax, {problems} parts of {size} rows, T={t}"
        rows.append(
            Bar(
                name,
                float(ours[..., t].median()),
                "loss",
                float(theirs.median()),
                f"{tuned[t].name}, worst {float(ratios.min()):.3f}",
                middle,
                (low, high),
                1.0,
            )
        )
    return rows


def _seconds(controller: learned.Controller, rival: Baseline, test: SoftmaxRegression) -> Bar:
    """Processor seconds to the loss that the rival has after 40 steps: interleaved, medians."""
    target = rival.run(test, BALL, 40).values[-1]
    mine, theirs = [], []
    for _ in range(3):
        run = _learned([controller])[0].run(test, BALL, 40, target)
        mine.append(float(run.seconds[-1]))
        theirs.append(float(rival.run(test, BALL, 40).seconds[-1]))
    ours, others = sorted(mine)[1], sorted(theirs)[1]
    name = "low-rank softmax, to SGD's loss at T=40"
    return Bar(name, ours, "s", others, rival.name, others / ours)


def _learned(controllers: Sequence[learned.Controller]) -> list[Baseline]:
    return [Solver("learned", partial(as_solver, controller)) for controller in controllers]


def _losses(methods: Sequence[Baseline], problem: SoftmaxRegression) -> Tensor:  # (methods, T + 1)
    return torch.stack([method.run(problem, BALL, max(STEPS)).values for method in methods])


def _tuned(
    problem: SoftmaxRegression,
    rates: Sequence[float],
    momenta: Sequence[float],
    rows: int | None,
) -> dict[int, Baseline]:
    """For each T the constants with the smallest loss there, on the training half."""
    every = 1 if rows is None else math.ceil(PASSES * len(problem.y) / rows)
    runs = []
    for rate in rates:
        for momentum in momenta:
            baseline = ProjectedMomentum(rate, momentum, rows, every)
            runs.append((baseline, baseline.run(problem, BALL, max(STEPS)).values))
    return {t: min(runs, key=lambda run: float(run[1][t]))[0] for t in STEPS}


def _hand_designed(domain: TraceNormBall) -> FrankWolfe:
    hull = Corrections(4, [ProjectedStep(), SingularVertices()], rounds=1)
    return FrankWolfe(domain, direction=hull)
