"""Targets of the learned start: cold, from the neighbour, learned; the same solver for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from benchmarks.learned.targets import Target
from fwnet import Domain, PairwiseFrankWolfe, Problem, Simplex, Start, learned
from fwnet.learned.baselines import Solver
from fwnet.learned.families.real import digits
from fwnet.learned.recurring import TASKS, Recurring
from fwnet.problems import Quadratic
from fwnet.quadratic.solve import simplex_qp

SIZES = {"C-paths": 240, "one-vs-one pairs": 240, "few-shot episodes": 40}


class Cost(NamedTuple):
    """Of each problem, to 1e-4: steps of the solver and products of the start; seconds."""

    iterations: np.ndarray
    seconds: np.ndarray


def starts(controllers: Sequence[learned.LearnedStart], problems: int) -> list[Target]:
    """Second-order pairwise steps to 1e-4; a start's product with the matrix counts as a step.

    Its linear solves are in the seconds. Hand-designed pivots make the same solves on faces that
    signs choose. The exact solver, block pivoting to the end, is for the record: where the matrix
    is at hand and small, it needs no start.
    """
    rows, (X, y) = [], digits("test")
    for name, (task, _) in TASKS.items():
        drawn = task(X, y, problems, SIZES[name], torch.Generator().manual_seed(7))
        each = [_cost(drawn, c.near) for c in controllers]
        ours = Cost(*(np.concatenate(part) for part in zip(*each, strict=True)))
        label = f"start, {name}"
        cold = _cost(drawn, None)
        rows.append(_target(label, ours, cold, "cold", 2.0))
        rows.append(_target(label, ours, cold, "cold", None, "seconds"))
        if name != "few-shot episodes":  # whose guess is the barycentre: no neighbour
            warm = _cost(drawn, learned.LearnedStart(rounds=0).near)
            rows.append(_target(label, ours, warm, "neighbour", 1.0))
        rows.append(_target(label, ours, _cost(drawn, Pivots), "hand-designed pivots", None))
        rows.append(_target(label, ours, _exact(drawn), "exact solver", None, "seconds"))
    return rows


@final
class Pivots(Start):
    """The learned start's rounds, faces by hand: what is positive, or should grow."""

    def __init__(self, guess: Tensor) -> None:
        super().__init__()
        self.guess, self.rounds = guess, learned.LearnedStart()

    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        visit = self.rounds.begin(problem, self.guess)
        face = self.guess > 0
        if bool(face.all()):  # the barycentre says nothing yet
            face = visit.slope < (visit.slope * visit.y).sum()
        for _ in range(self.rounds.rounds):
            visit, last = self.rounds.visit(problem, visit, face), face
            level = (visit.p_slope * visit.p).sum()
            face = (visit.u > 0) | (~face & (visit.p_slope < level))
            if torch.equal(face, last):
                break
        return visit.y


def _cost(drawn: Recurring, near: Callable[[Tensor], Start] | None) -> Cost:
    counts, seconds = [], []
    for k in range(len(drawn.guess)):
        begin = None if near is None else near(drawn.guess[k])
        solver = Solver("", partial(PairwiseFrankWolfe, second_order=True, start=begin))
        target = drawn.best[k] * (1 + 1e-4)
        run = solver.run(Quadratic(_matrix(drawn, k)), Simplex(), 1500, target)
        t = int(run.first(target))
        counts.append(np.inf if t < 0 else float(run.gradients[t]))
        seconds.append(np.inf if t < 0 else float(run.seconds[t]))
    return Cost(np.array(counts), np.array(seconds))


def _exact(drawn: Recurring) -> Cost:
    seconds = []
    for k in range(len(drawn.guess)):
        began = time.process_time()
        simplex_qp(_matrix(drawn, k), start=drawn.guess[k])
        seconds.append(time.process_time() - began)
    return Cost(np.full(len(seconds), np.nan), np.array(seconds))


def _matrix(drawn: Recurring, k: int) -> Tensor:
    return drawn.problem.matrix.matrix[k]  # type: ignore[attr-defined]


def _target(
    name: str, ours: Cost, theirs: Cost, rival: str, least: float | None, by: str = "iterations"
) -> Target:
    mine, other = getattr(ours, by), getattr(theirs, by)
    ratio = np.tile(other, len(mine) // len(other)) / mine
    low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
    medians = float(np.median(mine)), float(np.median(other))
    unit = {"iterations": "iterations", "seconds": "s"}[by]
    quartiles = (float(low), float(high))
    return Target(name, medians[0], unit, medians[1], rival, float(middle), quartiles, least)
