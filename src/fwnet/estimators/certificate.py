"""The duality gap in double precision, for weights that were found in single precision.

    P = ½|w|² + ½b² + ½ Σ Cᵢ max(0, 1 − yᵢf(xᵢ))²      D = Σβ − ½ βᵀQβ,   β = α/ρ

Only points near or inside the margin enter P, and only they are evaluated again: a point whose
margin passes 1 by ten times the largest rounding error seen has no loss. Where even these are too
many, a sample of them gives the size of the rounding error, and the gap that is returned is an
upper bound with four times that error in every score.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fwnet.estimators.kernels import KernelSpec, cross_kernel
from fwnet.estimators.records import BinaryProblem, Weights, relative_gap

_ENTRIES = 1 << 20  # kernel values that a certificate may cost before it samples
_SAMPLE = 64


def certified_gap(
    X: Any, spec: KernelSpec, problem: BinaryProblem, found: Weights
) -> tuple[float, float]:
    """Return ρ and (P − D)/P of the classifier `found`, its scores evaluated again in float64."""
    support = np.flatnonzero(found.alpha)
    weights = found.alpha[support] * problem.y[support]
    margins, guard = problem.y * found.scores / found.rho, 1e-3
    while True:
        near = np.flatnonzero((margins < 1.0 + guard) | (found.alpha > 0))
        many = len(near) * len(support) > _ENTRIES
        rows = near[:: 1 + len(near) // _SAMPLE] if many else near
        scores = cross_kernel(X[rows], X[support], spec) @ weights + problem.bias * weights.sum()
        error = float(np.abs(scores - found.scores[rows]).max())
        if many:
            return found.rho, _gap_bound(problem, found, 4.0 * error)
        if guard >= 10.0 * error / found.rho or len(near) == len(problem.y):
            break
        guard = 20.0 * error / found.rho
    exact = found.scores.copy()
    exact[rows] = scores
    far = np.ones(len(exact), bool)
    far[near] = False
    exact[far] = problem.y[far] * found.rho * 2.0  # beyond the margin: no loss
    return relative_gap(problem, found.alpha, exact)


def _gap_bound(problem: BinaryProblem, found: Weights, error: float) -> float:
    alpha, scale = found.alpha, 1.0 / found.rho
    square = float(np.dot(alpha * problem.y, found.scores))
    slack = np.maximum(0.0, 1.0 - scale * (problem.y * found.scores - error))
    primal = 0.5 * (scale**2 * (square + error) + float(np.dot(problem.box, slack * slack)))
    dual = scale - 0.5 * scale**2 * (square + error + float(np.dot(alpha, alpha / problem.box)))
    return (primal - dual) / primal
