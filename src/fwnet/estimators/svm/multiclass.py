"""From classes to binary problems and back: one-vs-rest and one-vs-one on shared points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from fwnet.estimators.svm.kernels import Array


@final
@dataclass(frozen=True, eq=False)
class Split:
    """One binary problem: its points, or all of them, and their labels ±1."""

    points: Array | None  # (m,) indices
    y: Array  # (m,) float64


def splits(labels: Array, classes: int, scheme: str) -> list[Split]:
    """Return the binary problems of labels 0..classes−1; two classes are one problem."""
    if classes == 2:
        return [Split(None, np.where(labels == 1, 1.0, -1.0))]
    if scheme == "ovr":
        return [Split(None, np.where(labels == c, 1.0, -1.0)) for c in range(classes)]
    problems = []
    for i, j in pairs(classes):
        points = np.flatnonzero((labels == i) | (labels == j))
        problems.append(Split(points, np.where(labels[points] == i, 1.0, -1.0)))
    return problems


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
