"""The duality gap of signed weights u and z, see `MarginProblem`, and what a better one costs."""

from __future__ import annotations

import numpy as np

from fwnet.estimators.svm.kernels import Array, KernelRows
from fwnet.estimators.svm.margin_problem import DualGap, MarginProblem
from fwnet.estimators.svm.pairwise import survey

NOTHING = np.zeros(3)  # outside the points of a survey
_DOUBLE = 2.5  # the time of kernel values in float64, over that in float32


def dual_gap(
    problem: MarginProblem, u: Array, z: Array, violations: Array | None = None
) -> DualGap:
    """Return value, P and (P − D)/P of u and z; fill the violations (n,) of `pairwise.survey`.

    f = ½|w|² + ½ Σu²/C − centreᵀu + ε|u|₁,   |w|² = uᵀ(z − u/C)

    |w|² is at least 0; below that it is rounding. Where numbers overflow, value and gap are NaN.
    """
    violations = np.empty(len(u)) if violations is None else violations
    signs, gradient = vertices(problem, u, z)
    alpha, share = signs * u, u / problem.box
    with np.errstate(invalid="ignore", over="ignore"):
        square = float(u @ (z - share))
    value = 0.5 * ((0.0 if square < 0.0 else square) + float(u @ share))
    value += problem.epsilon * float(np.abs(u).sum()) - float((problem.centre * u).sum())
    found = survey(problem.box, alpha, gradient, value, problem.width, NOTHING, violations)
    return DualGap(value, *found[:2])


def seconds_in_double(
    kernel: KernelRows, problem: MarginProblem, found: DualGap, u: Array, scores: Array
) -> float:
    """How long the gap will take in float64, where the kernel values here are float32."""
    if kernel.trusted:
        return 0.0
    support = int(np.count_nonzero(u))
    room = problem.room(problem.scale(found) * scores)
    near = int(np.count_nonzero((room < 1e-3) & (u == 0)))
    return _DOUBLE * kernel.seconds_for(support * (0.5 * support + near))


def vertices(problem: MarginProblem, u: Array, z: Array) -> tuple[Array, Array]:
    """Return the sign of each point's vertex and the gradient there."""
    rest = z - problem.centre
    signs = problem.sides(u, rest)
    return signs, signs * rest + problem.epsilon
