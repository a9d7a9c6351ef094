"""A direction that was trained on n <= 384, at n = 2000 and n = 10,000: gradients to 1e-4."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.learned.matrix_free import RBFMap
from benchmarks.learned.targets import Missing, Target
from fwnet import Quadratic, Simplex, learned
from fwnet.learned.baselines import FISTA, Baseline, Solver, as_solver
from fwnet.learned.families.real import CLASSES, all_mnist

GRID = (0.95, 0.99)  # FISTA's constants that validation chooses at smaller n


def large(
    controllers: Sequence[learned.Controller], sizes: dict[int, int]
) -> list[Target | Missing]:
    """Pairs of MNIST's test classes, rbf kernel; `sizes` says how many pairs of which n.

    FISTA's constant is the better of two on the very problem: more than tuning could find.
    """
    data = all_mnist()
    if data is None:
        return [Missing("direction at large n", "MNIST is not in FWNET_DATA")]
    rows: list[Target | Missing] = []
    for n, count in sizes.items():
        ratios, ours, theirs = [], [], []
        for pair in _pairs(count):
            problem = _dual(*data, pair, n)
            target = 1.0001 * _best(controllers[0], problem)
            rival = min(_gradients(FISTA(c), problem, target, 1000) for c in GRID)
            for controller in controllers:
                mine = Solver("learned", partial(as_solver, controller))
                ours.append(_gradients(mine, problem, target, 300))
                theirs.append(rival)
                ratios.append(rival / ours[-1])
        low, high = np.quantile(ratios, (0.25, 0.75)).tolist()
        rows.append(
            Target(
                f"direction to 1e-4, mnist n={n}",
                statistics.median(ours),
                "gradients",
                statistics.median(theirs),
                "FISTA, better of two",
                statistics.median(ratios),
                (low, high),
                1.0,
            )
        )
    return rows


def _pairs(count: int) -> list[tuple[int, int]]:
    a, b, c = CLASSES["test"]
    return [(a, c), (a, b), (b, c)][:count]


def _dual(X: np.ndarray, y: np.ndarray, pair: tuple[int, int], n: int) -> Quadratic:
    """The first n/2 images of each class; K in float64, as f is a thousandth of its entries."""
    rows = np.concatenate([np.flatnonzero(y == digit)[: n // 2] for digit in pair])
    signs = 2.0 * torch.tensor(y[rows] == pair[0]).double() - 1.0
    columns = RBFMap(torch.tensor(X[rows]).double() / 255, signs, C=1.0).columns(torch.arange(n))
    return Quadratic((columns + columns.mT) / 2)  # the two halves of a product differ in rounding


def _best(controller: learned.Controller, problem: Quadratic) -> Tensor:
    """min f to 2e-5, certified by the gap of a long run."""
    result = controller.solver(Simplex(), max_steps=1000, tol=1e-8)(problem)
    assert float(result.gap) < 2e-5 * float(result.value)
    return result.value - 0.5 * result.gap


def _gradients(method: Baseline, problem: Quadratic, target: Tensor, most: int) -> float:
    run = method.run(problem, Simplex(), most, target)
    place = int(run.first(target))
    return float(run.gradients[place]) if place >= 0 else float("inf")
