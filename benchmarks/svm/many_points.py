"""rbf on 10⁵ and 10⁶ points of `make_classification` in 20 dimensions, γ = 0.05, C = 1."""

from __future__ import annotations

import resource
import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.harness import OURS, Row, compare, figure
from benchmarks.svm import peers
from fwnet.estimators import FWSVC

_TEST = 5000
_MILLION, _MINUTES, _PART = 10**6, 25.0, 200_000


class _Fit(NamedTuple):
    model: Any
    seconds: float  # of the processor
    wall: float
    accuracy: float
    gigabytes: float  # the most that the process has taken so far


def large(repeats: int) -> list[Row]:
    """n = 10⁵, gap 1e-2, once each; also stopped after a fifth of the time, and Nystroem."""
    X, y, test, truth = _points(100_000)
    ours = _fit(FWSVC(gamma=0.05, tol=1e-2), X, y, test, truth)
    early = _fit(FWSVC(gamma=0.05, tol=1e-2, max_time=0.2 * ours.wall), X, y, test, truth)
    low = _fit(_nystroem(), X, y, test, truth)
    intelex = peers.optional("sklearnex.svm")
    best = _fit((intelex.SVC if intelex else SVC)(gamma=0.05), X, y, test, truth)
    name = "scikit-learn-intelex SVC" if intelex else "SVC"
    note = (
        f"gap {ours.model.duality_gap_:.1e}, accuracy {ours.accuracy:.4f} / {best.accuracy:.4f}, "
        f"{ours.gigabytes:.2f} GB"
    )
    fifth = (
        f"accuracy after a fifth {early.accuracy:.4f} (gap {early.model.duality_gap_:.2f}) / "
        f"{low.accuracy:.4f}"
    )
    case = "rbf n=100000 d=20"
    return [
        _row(case, name, ours, best, 0.8, note),
        _row(case, "Nystroem(1000) + LinearSVC", ours, low, None, fifth),
    ]


def million(repeats: int) -> list[Row]:
    """n = 10⁶, 25 minutes and then a certificate; Nystroem fits a part, which has room."""
    X, y, test, truth = _points(_MILLION)
    ours = _fit(FWSVC(gamma=0.05, tol=1e-2, max_time=60 * _MINUTES), X, y, test, truth)
    low = _fit(_nystroem(), X[:_PART], y[:_PART], test, truth)
    note = (
        f"gap {ours.model.duality_gap_:.3f}, accuracy {ours.accuracy:.4f} / {low.accuracy:.4f}, "
        f"{len(ours.model.support_)} support vectors, {ours.gigabytes:.2f} GB"
    )
    case = "rbf n=1000000 d=20"
    return [
        figure(case, [ours.wall / 60], "minutes", 30.0),
        _row(case, f"Nystroem(1000) of {_PART}", ours, low, None, note),
    ]


def _points(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points and classes for training, points and classes for testing."""
    X, y = make_classification(
        n + _TEST, 20, n_informative=10, n_clusters_per_class=8, random_state=0
    )
    FWSVC(gamma=0.05, cache_size=5).fit(X[:3000], y[:3000])  # compiles
    return np.ascontiguousarray(X[:n]), y[:n], X[n:], y[n:]


def _nystroem() -> Any:
    return make_pipeline(Nystroem(gamma=0.05, n_components=1000, random_state=0), LinearSVC())


def _fit(model: Any, X: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray) -> _Fit:
    began, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return _Fit(model, seconds, wall, model.score(test, truth), peak)


def _row(case: str, peer: str, ours: _Fit, theirs: _Fit, target: float | None, note: str) -> Row:
    samples = {OURS: [ours.seconds], peer: [theirs.seconds]}
    (row,) = compare(case, samples, {peer: target}, 1.0, "s")
    return replace(row, note=note)
