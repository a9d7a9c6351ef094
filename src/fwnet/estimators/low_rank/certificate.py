"""The certificate: the Frank-Wolfe gap of the true gradient, with the exact oracle."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import FactoredProblem
from fwnet.numerics.bounds import bounded_singular_pair


class Certificate(NamedTuple):
    """f(W), its duality gap, and the right singular vector v `(m,)` of the oracle's vertex."""

    value: float
    gap: float
    v: Tensor


def certify(
    problem: FactoredProblem, W: Factors, radius: float, accuracy: float = 1e-6
) -> Certificate:
    """f and its gap at W: f(W) − min f is at most the gap, up to rounding.

        gap = ⟨G, W⟩ + radius · upper,   upper >= σ₁(G),   G = ∇f(W)

    The upper bound, and how sure it is, are those of `fwnet.domains.bounded_singular_pair`.

    Arguments:
        accuracy: relative error of σ₁ that is small enough; an error of 1 % of the gap is, too.
    """
    left = W.left
    look = problem.look(problem.scores(left), W.V, W.V)
    along = (look.product.double() * left.double()).sum()
    pair, upper = bounded_singular_pair(look.gradient, W.V[:, 0], accuracy, along / radius)
    return Certificate(look.value, float(along + radius * upper), pair.v)
