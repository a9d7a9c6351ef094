"""Bars of the learned start: cold, from the neighbour, learned; the same solver for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.learned.bars import Bar
from fwnet import PairwiseFrankWolfe, Simplex, learned
from fwnet.learned.baselines import Solver
from fwnet.learned.families.real import digits
from fwnet.learned.recurring import TASKS, Recurring
from fwnet.problems import Quadratic

SIZES = {"C-paths": 240, "one-vs-one pairs": 240, "few-shot episodes": 40}


def starts(controllers: Sequence[learned.LearnedStart], problems: int) -> list[Bar]:
    """Iterations of second-order pairwise to 1e-4, the start's own gradients counted with them."""
    rows, (X, y) = [], digits("test")
    for name, (task, _) in TASKS.items():
        drawn = task(X, y, problems, SIZES[name], torch.Generator().manual_seed(7))
        ours = np.concatenate([_steps(drawn, c) for c in controllers])
        cold = np.tile(_steps(drawn, None), len(controllers))
        rows.append(_bar(f"start, {name}", ours, cold, "cold", 2.0))
        if name != "few-shot episodes":  # whose guess is the barycentre: no neighbour
            untrained = learned.LearnedStart(rounds=0)
            warm = np.tile(_steps(drawn, untrained), len(controllers))
            rows.append(_bar(f"start, {name}", ours, warm, "neighbour", 1.0))
    return rows


def _steps(drawn: Recurring, start: learned.LearnedStart | None) -> np.ndarray:
    """Iterations and the gradients of the start, one by one."""
    matrix = drawn.problem.matrix.matrix  # type: ignore[attr-defined]
    counts = []
    for k in range(len(matrix)):
        begin = None if start is None else start.near(drawn.guess[k])
        solver = Solver("", lambda d, b=begin: PairwiseFrankWolfe(d, second_order=True, start=b))
        target = drawn.best[k] * (1 + 1e-4)
        run = solver.run(Quadratic(matrix[k]), Simplex(), 1500, target)
        t = int(run.first(target))
        rounds = 0 if start is None else start.rounds
        counts.append(np.inf if t < 0 else t + rounds)
    return np.array(counts, dtype=float)


def _bar(name: str, ours: np.ndarray, theirs: np.ndarray, rival: str, least: float) -> Bar:
    ratio = np.maximum(theirs, 1) / np.maximum(ours, 1)
    low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
    return Bar(
        name,
        float(np.median(ours)),
        "iterations",
        float(np.median(theirs)),
        rival,
        float(middle),
        (float(low), float(high)),
        least,
    )
