"""Graph classification, the first application that the paper leaves to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from fwnet.trace import Clock

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
    C: tuple[float, ...] = (1.0, 10.0, 100.0)


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
        return {"quick": 2, "paper": 3, "full": 10}[profile.value]

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
            "Mean and standard deviation over all test folds. Seconds: kernel and fits of one "
            "repetition, the choice of C and rounds included."
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
    clock = Clock()
    subtrees = {h: _matrix(WeisfeilerLehman(h), graphs) for h in config.rounds}
    subtree_seconds, clock = clock.seconds, Clock()
    paths = {0: _matrix(ShortestPath(), graphs)}
    path_seconds = clock.seconds
    makers: dict[str, tuple[Callable[[float], Any], dict[int, np.ndarray], float]] = {
        _FWSVC: (lambda C: FWSVC(C, kernel="precomputed"), subtrees, subtree_seconds),
        _SVC: (lambda C: SVC(C=C, kernel="precomputed"), subtrees, subtree_seconds),
        _PATHS: (lambda C: FWSVC(C, kernel="precomputed"), paths, path_seconds),
    }
    found: dict[str, Any] = {}
    for name, (make, kernels, seconds) in makers.items():
        clock = Clock()
        folds = StratifiedKFold(config.folds, shuffle=True, random_state=seed).split(y, y)
        scores = [_fold(make, kernels, config.C, y, train, test, seed) for train, test in folds]
        found[name] = {"accuracy": scores, "seconds": seconds + clock.seconds}
    return found


def _matrix(kernel: GraphKernel, graphs: list[Graph]) -> np.ndarray:
    features = kernel.fit_transform(graphs)
    return np.asarray((features @ features.T).toarray())


def _fold(
    make: Callable[[float], Any],
    kernels: dict[int, np.ndarray],
    grid: Sequence[float],
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
) -> float:
    """Accuracy on the test fold, with what was best on a fifth of the training folds."""
    split = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    part, held = next(split.split(train, y[train]))
    part, held = train[part], train[held]
    best, choice = -1.0, (next(iter(kernels)), grid[0])
    for h, K in kernels.items():
        for C in grid:
            score = (
                make(C).fit(K[np.ix_(part, part)], y[part]).score(K[np.ix_(held, part)], y[held])
            )
            if score > best:
                best, choice = score, (h, C)
    K = kernels[choice[0]]
    machine = make(choice[1]).fit(K[np.ix_(train, train)], y[train])
    return float(machine.score(K[np.ix_(test, train)], y[test]))
