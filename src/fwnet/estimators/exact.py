"""The exact optimum of a small SVM, by active sets.

    min ½ βᵀQβ − Σβ,   β ≥ 0,   Q = yyᵀ∘(k + 1) + diag(1/C)

On the right support S the answer is one linear solve, Q_SS β_S = 1. A negative entry stops the
move at the boundary and leaves; a violated margin enters. Every full move lowers the objective,
so no support comes twice.

Reference: Lawson and Hanson (1974), "Solving least squares problems", chapter 23.
"""

from __future__ import annotations

import numpy as np

from fwnet.estimators.kernels import Array
from fwnet.estimators.records import BinaryProblem


def exact_weights(kernel: Array, problem: BinaryProblem, alpha: Array) -> Array:
    """Return the optimal weights on the simplex (n,) for a float64 kernel matrix, from `alpha`."""
    y, n = problem.y, len(problem.y)
    Q = y[:, None] * (kernel + 1.0) * y
    Q.flat[:: n + 1] += 1.0 / problem.box
    beta, value = alpha / float(alpha @ Q @ alpha), 0.0
    for _ in range(20 * n):
        support = np.flatnonzero(beta)
        target = np.linalg.solve(Q[np.ix_(support, support)], np.ones(len(support)))
        if target.min() <= 0.0:
            now = beta[support]
            ratio = np.where(target <= 0.0, now / np.maximum(now - target, 1e-300), 2.0)
            first = int(np.argmin(ratio))
            beta[support] = np.maximum(now + ratio[first] * (target - now), 0.0)
            beta[support[first]] = 0.0
            continue
        if target.sum() <= value:  # at the optimum the value is ½Σβ: rounding errors rule now
            break
        beta[support], value = target, float(target.sum())
        lack = 1.0 - Q[:, support] @ target
        lack[support] = 0.0
        worst = int(np.argmax(lack))
        if lack[worst] <= 1e-12 * max(1.0, float(np.abs(Q[worst, support]) @ target)):
            break
        # A small weight on the newcomer makes it part of the next solve; the move from there
        # goes down, because its slope is negative.
        beta[worst] = 1e-9 * lack[worst] / Q[worst, worst]
    return beta / beta.sum()
