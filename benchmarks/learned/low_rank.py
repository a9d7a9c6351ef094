"""Softmax regression over the trace-norm ball: MNIST in 14 × 14, half to train, half to test.

Full gradients for all; only the last row of each T lets the rival have minibatches instead, as
many passes over the data as ours takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.learned.targets import Missing, Target
from fwnet import Domain, FrankWolfe, LineSearch, SoftmaxRegression, TraceNormBall, learned
from fwnet.directions import Corrections, ProjectedStep, SingularVertices
from fwnet.learned.baselines import FISTA, Baseline, ProjectedMomentum, Solver, as_solver
from fwnet.learned.families.real import all_mnist

STEPS = (10, 20, 40)
RATES = (1.0, 2.0, 5.0, 10.0)
MOMENTA = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
BATCH = 1000  # of the minibatches
PASSES = 3 / 2  # over X, ours against those of a gradient step: singular directions besides
BALL = TraceNormBall(30.0)


def halves() -> tuple[SoftmaxRegression, SoftmaxRegression] | None:
    """Problems of two disjoint halves of MNIST's training images, 30,000 each."""
    data = all_mnist()
    if data is None:
        return None
    images, digits = (torch.as_tensor(part.copy()) for part in data)
    X = images.float().div(255).reshape(-1, 14, 2, 14, 2).mean((2, 4)).flatten(1)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    first, second = order.split(len(order) // 2)
    return tuple(SoftmaxRegression(X[r], digits[r].long(), 10) for r in (first, second))  # type: ignore[return-value]


def low_rank(controllers: Sequence[learned.Controller], problems: int) -> list[Target | Missing]:
    """Loss at T against projected SGD with momentum, its constants the best for that T."""
    found = halves()
    if found is None:
        return [Missing("low-rank softmax on MNIST", "needs MNIST in the folder FWNET_DATA")]
    training, test = found
    tuned = _tuned(training, RATES, MOMENTA, None)
    sampled = _tuned(training, (0.05, 0.1, 0.2, 0.5, 1.0), (0.0, 0.9), BATCH)
    controls = {
        "FISTA": FISTA(),
        "rank-1 line search": Solver("", lambda d: FrankWolfe(d, LineSearch())),
        "hand-designed hull": Solver("", _hand_designed),
        "untrained": Solver("", partial(as_solver, learned.LearnedLowRank())),
    }
    ours = torch.stack([_losses(method, test) for method in _learned(controllers)])
    theirs = {name: _losses(method, test) for name, method in controls.items()}
    # The minimum is nearly flat at T = 40: what is left above it says more than the loss.
    best = float(_learned(controllers)[0].run(test, BALL, 120).values.min())
    rows: list[Target | Missing] = []
    for t in STEPS:
        rivals = {
            tuned[t].name: _losses(tuned[t], test)[t],
            **{name: losses[t] for name, losses in theirs.items()},
            f"minibatches {sampled[t].name}": _losses(sampled[t], test)[t],
        }
        mine = float(ours[:, t].median())
        for rival, loss in rivals.items():
            least = 1.0 if rival == tuned[t].name else None
            name = f"low-rank softmax, T={t}"
            left = f"above the minimum: {mine - best:.2e} and {float(loss) - best:.2e}"
            ratio = float(loss) / mine
            rows.append(
                Target(name, mine, "loss", float(loss), rival, ratio, None, least, note=left)
            )
    rows += _parts(controllers, tuned, test, problems)
    return [*rows, _seconds(controllers[0], tuned[max(STEPS)], _part(test, 10_000))]


def _parts(
    controllers: Sequence[learned.Controller],
    tuned: dict[int, Baseline],
    test: SoftmaxRegression,
    problems: int,
) -> list[Target]:
    """The same on disjoint parts of the test half: medians and quartiles of the ratios."""
    size = len(test.y) // (10 * max(2, problems // 10))
    X, y = (part[: problems * size].unflatten(0, (problems, size)) for part in (test.X, test.y))
    parts = SoftmaxRegression(X, y, test.classes)
    ours = torch.stack([_losses(method, parts) for method in _learned(controllers)])
    rows = []
    for t in STEPS:
        theirs = _losses(tuned[t], parts)[t]
        ratios = (theirs / ours[:, t]).flatten()  # (seeds · parts,)
        low, middle, high = ratios.quantile(torch.tensor([0.25, 0.5, 0.75]).double()).tolist()
        name = f"low-rank softmax, {problems} parts of {size} rows, T={t}"
        label = f"{tuned[t].name}, worst ratio {float(ratios.min()):.3f}"
        mine, other = float(ours[:, t].median()), float(theirs.median())
        rows.append(Target(name, mine, "loss", other, label, middle, (low, high), 1.0))
    return rows


def _part(problem: SoftmaxRegression, rows: int) -> SoftmaxRegression:
    return problem.minibatch(torch.arange(min(rows, len(problem.y))))


def _seconds(controller: learned.Controller, rival: Baseline, part: SoftmaxRegression) -> Target:
    """Processor seconds to the loss that the rival has after 40 steps: in turn, medians of 3."""
    target = _losses(rival, part)[-1]
    mine, theirs = [], []
    for _ in range(3):
        run = _learned([controller])[0].run(part, BALL, max(STEPS), target)
        mine.append(float(run.seconds[-1]))
        theirs.append(float(rival.run(part, BALL, max(STEPS)).seconds[-1]))
    ours, others = sorted(mine)[1], sorted(theirs)[1]
    name = f"low-rank softmax, {len(part.y)} rows, to SGD's loss at T=40"
    return Target(name, ours, "s", others, rival.name, others / ours)


def _learned(controllers: Sequence[learned.Controller]) -> list[Baseline]:
    return [Solver("learned", partial(as_solver, controller)) for controller in controllers]


def _losses(method: Baseline, problem: SoftmaxRegression) -> Tensor:  # (T + 1, *batch)
    return method.run(problem, BALL, max(STEPS)).values


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
            runs.append((baseline, _losses(baseline, problem)))
    return {t: min(runs, key=lambda run: float(run[1][t]))[0] for t in STEPS}


def _hand_designed(domain: Domain) -> FrankWolfe:
    hull = Corrections(4, [ProjectedStep(), SingularVertices()], rounds=1)
    return FrankWolfe(domain, direction=hull)
