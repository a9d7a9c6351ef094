"""The duality gap in double precision, for weights that were found in single precision.

    P = ½|w|² + ½b² + ½ Σ Cᵢ max(0, 1 − yᵢf(xᵢ))²      D = Σβ − ½ βᵀQβ,   β = α/ρ

Only support vectors and points near or inside the margin enter P and D, and only they are evaluated
again: a point whose margin passes 1 by ten times the largest rounding error seen has no loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fwnet.estimators.kernels import KernelRows, KernelSpec, cross_kernel
from fwnet.estimators.records import BinaryProblem, Weights, relative_gap

_HEIGHT = 512  # rows of a block


def certified_gap(
    X: Any, spec: KernelSpec, problem: BinaryProblem, found: Weights
) -> tuple[float, float]:
    """Return ρ and (P − D)/P of the classifier `found`, its scores evaluated again in float64."""
    support = np.flatnonzero(found.alpha)
    weights = found.alpha[support] * problem.y[support]
    points, total = X[support], problem.bias * weights.sum()
    exact = problem.y * found.rho * 2.0  # beyond the margin: no loss
    exact[support] = KernelRows(points, spec, np.float64).sums(weights) + total
    known = found.alpha > 0
    error = float(np.abs(exact[support] - found.scores[support]).max())
    margins = problem.y * found.scores / found.rho
    while True:
        guard = max(1e-3, 20.0 * error / found.rho)
        rows = np.flatnonzero((margins < 1.0 + guard) & ~known)
        if not len(rows):
            return relative_gap(problem, found.alpha, exact)
        for lo in range(0, len(rows), _HEIGHT):
            some = rows[lo : lo + _HEIGHT]
            exact[some] = cross_kernel(X[some], points, spec) @ weights + total
        known[rows] = True
        error = max(error, float(np.abs(exact[rows] - found.scores[rows]).max()))
