"""Graph classification, the first application that the paper leaves to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, final

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.svm import SVC

from fwnet.data import DataError
from fwnet.estimators import FWSVC
from fwnet.kernels import (
    Graph,
    GraphKernel,
    ShortestPath,
    WeisfeilerLehman,
    load_graphs,
    make_graphs,
)
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Figure, Table

_PUBLISHED = {  # of the Weisfeiler-Lehman subtree kernel with an SVM
    "MUTAG": "82 to 90",
    "PTC": "57 to 60",
    "PROTEINS": "73 to 76",
    "NCI1": "82 to 86",
}


@final
@dataclass(frozen=True)
class GraphsConfig:
    """Arguments:
    sets: of the TU Dortmund collection; those that are missing are left out.
    folds: of the outer cross-validation; a seed is one repetition of it.
    rounds, C: what is chosen from inside the training folds.
    """

    sets: tuple[str, ...] = ("MUTAG", "PTC", "PROTEINS", "NCI1")
    folds: int = 10
    rounds: tuple[int, ...] = (1, 2, 3, 4, 5)
    C: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0)


QUICK = GraphsConfig(sets=(), folds=5, rounds=(1, 3), C=(1.0, 10.0))


@final
class Graphs(Experiment[GraphsConfig]):
    """Support vector machines on graphs."""

    name = "graphs"
    title = "Graph classification"
    paper = "the paper's future work"
    question = (
        "Does FWSVC classify graphs as well as scikit-learn's SVC with the same kernel, and as "
        "well as published? C and the rounds of the kernel are chosen inside the training folds."
    )

    def config(self, profile: Profile) -> GraphsConfig:
        return QUICK if profile is Profile.QUICK else GraphsConfig()

    def seeds(self, profile: Profile) -> int:
        return 2 if profile is Profile.QUICK else 10

    def run(self, config: GraphsConfig, seed: int, progress: Progress) -> dict[str, Any]:
        found: dict[str, Any] = {}
        sets = _available(config.sets)
        for k, (name, (graphs, y)) in enumerate(sets.items()):
            progress(k / len(sets), name)
            found[name] = _cross_validated(config, graphs, y, seed)
        return {"sets": found}

    def figures(self, results: Results) -> Sequence[Figure]:
        rows = []
        for name, by_method in results.first("sets").items():
            for method in by_method:
                scores = 100 * results.over_seeds("sets", name, method, "accuracy")
                seconds = results.over_seeds("sets", name, method, "seconds")
                rows.append(
                    [
                        name,
                        method,
                        float(scores.mean()),
                        float(scores.std()),
                        _PUBLISHED.get(name, ""),
                        float(np.median(seconds)),
                    ]
                )
        caption = (
            "Mean and standard deviation over the test folds of all repetitions. Seconds: "
            "processor time of kernel and fits of one repetition, the choice of C and rounds "
            "included."
        )
        columns = ("Graphs", "Machine", "Accuracy, %", "± over folds", "Published, %", "Seconds")
        return [Table("accuracy", "Accuracy on held-out graphs", caption, columns, rows)]

    def findings(self, results: Results) -> Sequence[str]:
        lines = []
        for name in results.first("sets"):
            ours = results.over_seeds("sets", name, _FWSVC, "accuracy")
            svc = results.over_seeds("sets", name, _SVC, "accuracy")
            lines.append(
                f"{name}: on the same folds FWSVC is {100 * float((ours - svc).mean()):+.2f} "
                "percentage points from SVC with the same kernel."
            )
        return lines


_FWSVC, _SVC, _PATHS = "FWSVC, Weisfeiler-Lehman", "SVC, Weisfeiler-Lehman", "FWSVC, shortest paths"


def _available(names: Sequence[str]) -> dict[str, tuple[list[Graph], np.ndarray]]:
    """The sets that are here; made graphs if there are none."""
    found = {}
    for name in names:
        try:
            found[name] = load_graphs(name)
        except DataError:
            continue
    return found or {"made graphs": make_graphs(300, seed=0)}


def _cross_validated(
    config: GraphsConfig, graphs: list[Graph], y: np.ndarray, seed: int
) -> dict[str, Any]:
    clock = process_time()
    subtrees = {h: _matrix(WeisfeilerLehman(h), graphs) for h in config.rounds}
    subtree_seconds, clock = process_time() - clock, process_time()
    paths = {0: ShortestPath().fit_transform(graphs)}  # few features: no matrix is needed
    path_seconds = process_time() - clock
    machines: dict[str, tuple[Any, dict[int, Any], float]] = {
        _FWSVC: (FWSVC(kernel="precomputed"), subtrees, subtree_seconds),
        _SVC: (SVC(kernel="precomputed"), subtrees, subtree_seconds),
        _PATHS: (FWSVC(kernel="linear"), paths, path_seconds),
    }
    found: dict[str, Any] = {}
    for name, (machine, points, seconds) in machines.items():
        clock = process_time()
        folds = StratifiedKFold(config.folds, shuffle=True, random_state=seed).split(y, y)
        scores = [_fold(machine, points, config.C, y, train, test, seed) for train, test in folds]
        found[name] = {"accuracy": scores, "seconds": seconds + process_time() - clock}
    return found


def _matrix(kernel: GraphKernel, graphs: list[Graph]) -> np.ndarray:
    features = kernel.fit_transform(graphs)
    return np.asarray((features @ features.T).toarray())


def _fold(
    machine: Any,
    points: dict[int, Any],
    grid: Sequence[float],
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
) -> float:
    """Accuracy on the test fold, with what was best on a fifth of the training folds."""
    split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    part, held = next(split.split(train, y[train]))
    tried = {
        (h, C): score
        for h, X in points.items()
        for C, score in zip(
            grid, _scores(machine, X, grid, y, train[part], train[held]), strict=True
        )
    }
    h, C = max(tried, key=lambda choice: tried[choice])  # the first of equal ones
    return _scores(machine, points[h], [C], y, train, test)[0]


def _scores(
    machine: Any,
    points: Any,
    grid: Sequence[float],
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> list[float]:
    """Accuracy on the test part for each C; points are features or a kernel matrix."""
    square = isinstance(points, np.ndarray)
    X, new = (points[np.ix_(rows, train)] if square else points[rows] for rows in (train, test))
    return [float(machine.set_params(C=C).fit(X, y[train]).score(new, y[test])) for C in grid]
