"""From classes to binary problems and back: one-vs-rest and one-vs-one on shared points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.margin_problem import BinaryProblem, MarginProblem


@final
@dataclass(frozen=True, eq=False)
class Split:
    """One of the problems of a fit, on some of its points."""

    points: Array | None  # (m,) indices; None for all points
    problem: MarginProblem
    start: Array | None = None  # (m,) coefficients of an earlier fit


def splits(labels: Array, classes: int, scheme: str, box: Array, order: Array) -> list[Split]:
    """Return the binary problems of labels 0..classes−1; two classes are one problem.

    Arguments:
        box, order: of all points, as in `MarginProblem`.
    """
    if classes == 2 or scheme == "ovr":
        positive = range(1 if classes == 2 else 0, classes)
        return [Split(None, BinaryProblem(_signs(labels, c), box, order)) for c in positive]
    problems, place = [], np.empty(len(labels), np.int64)
    for i, j in pairs(classes):
        points = np.flatnonzero((labels == i) | (labels == j))
        place.fill(-1)
        place[points] = np.arange(len(points))
        some = place[order]
        signs = _signs(labels[points], i)
        problems.append(Split(points, BinaryProblem(signs, box[points], some[some >= 0])))
    return problems


def _signs(labels: Array, positive: int) -> Array:
    return np.where(labels == positive, 1.0, -1.0)


def pairs(classes: int) -> list[tuple[int, int]]:
    """Return all pairs of classes, the positive one first."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def votes(decisions: Array, classes: int) -> Array:
    """Turn one-vs-one decisions (n, pairs) into one score a class (n, classes).

    score = number of duels won + c/(3(|c| + 1)),   c = sum of the decisions in its favour

    The second term is below 1/3 and breaks ties by confidence.
    """
    won, confidence = np.zeros((len(decisions), classes)), np.zeros((len(decisions), classes))
    for k, (i, j) in enumerate(pairs(classes)):
        first = decisions[:, k] > 0
        won[:, i] += first
        won[:, j] += ~first
        confidence[:, i] += decisions[:, k]
        confidence[:, j] -= decisions[:, k]
    return won + confidence / (3.0 * (np.abs(confidence) + 1.0))
