"""The duality gap of signed weights u and z, see `MarginProblem`, and what a better one costs."""

from __future__ import annotations

import numpy as np

from fwnet.estimators.svm.kernels import Array, KernelRows
from fwnet.estimators.svm.pairwise import signed_survey
from fwnet.estimators.svm.records import DualGap, MarginProblem

NOTHING = np.zeros(3)  # outside the points of a survey
_DOUBLE = 2.5  # the time of kernel values in float64, over that in float32


def dual_gap(
    problem: MarginProblem, u: Array, z: Array, violations: Array | None = None
) -> DualGap:
    """Return value, P and (P − D)/P of u and z; fill the violations (n,) of `pairwise.survey`."""
    violations = np.empty(len(u)) if violations is None else violations
    p = problem
    return DualGap(*signed_survey(p.y, p.box, u, z, p.epsilon, p.width, violations))


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
