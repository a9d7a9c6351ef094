"""The targets on families that were not used before: run once, for the published table.

Neither a9a nor the pixels of CIFAR-10 were trained on, chosen by, or tested on before. Baselines
are tuned on a9a's training rows, on five classes of CIFAR-10; the test is on a9a's test rows and on
the five other classes. Graph kernels, which no recipe has seen either, are a third family: every
second molecule of NCI1 for tuning, the others for the test. Nothing is asked of these rows: they
say how far the targets carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from benchmarks.learned.simplex import Family, against_hulls, atoms, pairwise, steps
from benchmarks.learned.targets import Missing, Target
from fwnet.data import DataError, available, load
from fwnet.kernels import WeisfeilerLehman, load_graphs
from fwnet.learned import Controller
from fwnet.learned.families import LogUniform, SVMFamily

CLASSES = {"validation": range(5), "test": range(5, 10)}  # of CIFAR-10
ROWS = 600  # images of each class


def untouched(
    trained: Callable[[str], Sequence[Controller]], problems: int
) -> list[Target | Missing]:
    """Steps, directions, pairwise steps and atoms on a9a and CIFAR-10, as in `simplex`."""
    here = available()
    families = {name: family for name, family in UNTOUCHED.items() if here[name] is not None}
    lacking = [
        Missing(f"untouched, {name}", "needs FWNET_DATA") for name in {*UNTOUCHED} - {*families}
    ]
    return [*_without_targets(trained, problems, families), *lacking]


def graphs(trained: Callable[[str], Sequence[Controller]], problems: int) -> list[Target | Missing]:
    """The same on duals of graph kernels."""
    try:
        _graph_factor("test")
    except DataError as error:
        return [Missing("graphs", str(error))]
    return [*_without_targets(trained, problems, {"graphs": graph_kernels})]


def _without_targets(
    trained: Callable[[str], Sequence[Controller]], problems: int, families: dict[str, Family]
) -> list[Target]:
    rows = [
        *steps(trained("simplex-step"), problems, families),
        *against_hulls(trained("simplex-qp"), problems, families),
        *pairwise(trained("pairwise"), problems, families),
        *atoms(trained("corrective-atoms"), problems, families),
    ]
    return [replace(row, least=None) for row in rows]


def a9a(part: str, C: LogUniform | float, n: tuple[int, int] | int) -> SVMFamily:
    """Census rows, 123 features of 0 and 1."""
    return SVMFamily([_rows("a9a", part)], C, n)


def cifar10(part: str, C: LogUniform | float, n: tuple[int, int] | int) -> SVMFamily:
    """Pairs of CIFAR-10's classes, by their pixels."""
    return SVMFamily([_rows("cifar10", part)], C, n)


UNTOUCHED: dict[str, Family] = {"a9a": a9a, "cifar10": cifar10}


def graph_kernels(part: str, C: LogUniform | float, n: tuple[int, int] | int) -> SVMFamily:
    """Molecules of NCI1 by the Weisfeiler-Lehman kernel of three rounds."""
    return SVMFamily([_graph_factor(part)], C, n, kernels=(_product,))


def _product(X: Tensor, generator: torch.Generator) -> Tensor:
    return X @ X.mT


@cache
def _graph_factor(part: str) -> tuple[Tensor, Tensor]:
    """X with XXᵀ the kernel matrix, since a family has rows of numbers."""
    molecules, y = load_graphs("NCI1")
    mine = slice(int(part == "test"), None, 2)
    features = WeisfeilerLehman(3).fit_transform(molecules[mine])
    values, vectors = torch.linalg.eigh(torch.as_tensor((features @ features.T).toarray()))
    return vectors * values.clamp_min(0.0).sqrt(), torch.as_tensor(y[mine])


@cache
def _rows(name: str, part: str) -> tuple[Tensor, Tensor]:
    data = load(name, download=False)
    X, y = data.test() if part == "test" else data.train()
    if name == "a9a":
        return torch.as_tensor(X.toarray()), torch.as_tensor(y)
    kept = np.concatenate([np.flatnonzero(y == label)[:ROWS] for label in CLASSES[part]])
    return torch.as_tensor(X[kept].reshape(len(kept), -1)), torch.as_tensor(y[kept])
