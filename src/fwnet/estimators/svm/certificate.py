"""The duality gap in double precision, for weights that were found in single precision.

    P = ½|w|² + ½b² + ½ Σ Cᵢ max(0, 1 − yᵢf(xᵢ))²      D = Σβ − ½ βᵀQβ,   β = α/ρ

Only support vectors and points near or inside the margin enter P and D, and only they are evaluated
again: a point whose margin passes 1 by ten times the largest rounding error seen has no loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fwnet.estimators.svm.encoding import Encoding
from fwnet.estimators.svm.kernels import KernelSpec, tiles
from fwnet.estimators.svm.records import BinaryProblem, Weights, relative_gap


def certified_gap(
    X: Any, spec: KernelSpec, encoding: Encoding, problem: BinaryProblem, found: Weights
) -> tuple[float, float]:
    """Return ρ and (P − D)/P of the classifier `found`, its scores evaluated again in float64."""
    support = np.flatnonzero(found.alpha)
    weights = found.alpha[support] * problem.y[support]
    points, total = encoding.encode(X, np.float64, support), problem.bias * weights.sum()
    exact = problem.y * found.rho * 2.0  # beyond the margin: no loss
    sums = np.zeros(len(support))
    for rows, columns, tile in tiles(spec, points):
        sums[rows] += tile @ weights[columns]
        if rows != columns:
            sums[columns] += weights[rows] @ tile
    exact[support] = sums + total
    known = found.alpha > 0
    error = float(np.abs(exact[support] - found.scores[support]).max())
    margins = problem.y * found.scores / found.rho
    while True:
        guard = max(1e-3, 20.0 * error / found.rho)
        near = np.flatnonzero((margins < 1.0 + guard) & ~known)
        if not len(near):
            return relative_gap(problem, found.alpha, exact)
        sums = np.zeros(len(near))
        for rows, columns, tile in tiles(spec, encoding.encode(X, np.float64, near), points):
            sums[rows] += tile @ weights[columns]
        exact[near] = sums + total
        known[near] = True
        error = max(error, float(np.abs(exact[near] - found.scores[near]).max()))
