"""The certificate: the Frank-Wolfe gap of the true gradient, with the exact oracle."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fwnet.domains.singular import top_singular_pair
from fwnet.low_rank.factors import Factors
from fwnet.low_rank.problems import FactoredProblem


class Certificate(NamedTuple):
    """f(W), its duality gap, and the right singular vector v `(m,)` of the oracle's vertex."""

    value: float
    gap: float
    v: Tensor


def certify(
    problem: FactoredProblem, W: Factors, radius: float, accuracy: float = 1e-6
) -> Certificate:
    """f and its gap at W: f(W) − min f is at most the gap.

        gap = ⟨G, W⟩ + radius · σ₁(G),   G = ∇f(W)

    Arguments:
        accuracy: relative error of σ₁, which is added to it: the gap is an upper bound.
    """
    left = W.left
    look = problem.look(problem.scores(left), W.V, W.V)
    pair = top_singular_pair(look.gradient, W.V[:, 0], tol=accuracy)
    along = float((look.product.double() * left.double()).sum())
    return Certificate(look.value, along + radius * float(pair.sigma) * (1 + accuracy), pair.v)
