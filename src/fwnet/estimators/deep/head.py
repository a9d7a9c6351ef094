"""The SVM on top of a kernel network: exact weights for given features, with a certificate.

    P(w) = ½|w|² + ½ Σ Cᵢ max(0, 1 − yᵢ⟨w, hᵢ⟩)²      D(β) = Σβ − ½|Σ βᵢyᵢhᵢ|² − ½ Σ βᵢ²/Cᵢ

hᵢ carries a last feature 1, so the bias is the last weight. Several problems (one against the rest)
share the features. β/Σβ is the α on the simplex of `fwnet.SVMDual`,
and P* = 1/(4 f*).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fwnet.estimators.svm.limits import Limits
from fwnet.estimators.svm.margin_problem import BinaryProblem
from fwnet.estimators.svm.newton import solve_newton
from fwnet.numerics.line_search import batched_root
from fwnet.problems.svm import dual_matrix
from fwnet.quadratic.solve import simplex_qp
from fwnet.trace import Clock

_MAX_NEWTON, _MAX_SEARCH = 100, 60

Penalty = Tensor | float  # the C of each point `(n,)`, or one for all


class Head(NamedTuple):
    """Weights of every problem and the multipliers that certify them.

    Arguments:
        weights: `(problems, d + 1)`, the bias last.
        beta: multipliers, at least 0, `(problems, n)`.
        primal: P(w), `(problems,)`.
        gap: (P(w) − D)/P(w), D at the best multiple of β, `(problems,)`.
    """

    weights: Tensor
    beta: Tensor
    primal: Tensor
    gap: Tensor


def with_bias(features: Tensor) -> Tensor:
    """Add the constant feature: `(n, d)` to `(n, d + 1)`."""
    return torch.cat([features, features.new_ones(features.shape[0], 1)], 1)


@torch.no_grad()
def solve_head(H: Tensor, Y: Tensor, C: Penalty, tol: float = 1e-12) -> Head:
    """Exact weights for features H `(n, d + 1)` and labels Y `(problems, n)` of −1, +1.

    Newton's method of `FWSVC` for each problem; the dual on the simplex if there are more features
    than points.

    Arguments:
        tol: relative duality gap.
    """
    if H.shape[1] > H.shape[0]:
        Q = dual_matrix(H @ H.mT, Y, 1 / C, bias=False)  # H has the constant feature
        alpha = simplex_qp(Q, tol=tol)
        rho = (alpha * (Q @ alpha.unsqueeze(-1)).squeeze(-1)).sum(-1, keepdim=True)
        return head_of(H, Y, C, alpha / rho)
    points, labels = H[:, :-1].cpu().numpy(), Y.cpu().numpy()
    box, order = (C * H.new_ones(len(H))).cpu().numpy(), np.arange(len(H))
    limits, parts = Limits(tol, _MAX_NEWTON, Clock(), None), []
    with np.errstate(all="ignore"):  # a gap that is no number says enough
        for y in labels:
            start = np.zeros(H.shape[1])
            solved = solve_newton(points, BinaryProblem(y, box, order), limits, start)
            w = np.append(np.asarray(solved.w), solved.intercept)
            parts.append((w, y * solved.coef, solved.gap))
    weights, beta, gap = (
        torch.from_numpy(np.array(part)).to(H) for part in zip(*parts, strict=True)
    )
    return Head(weights, beta, primal_value(H, Y, C, weights), gap)


@torch.no_grad()
def head_of(H: Tensor, Y: Tensor, C: Penalty, beta: Tensor) -> Head:
    """The head w = t v, v = Σ βᵢyᵢhᵢ, of given multipliers, at the multiple t with the least P(w).

        t|v|² = Σ Cᵢ max(0, 1 − t·aᵢ)·aᵢ,   aᵢ = yᵢ⟨v, hᵢ⟩

    At the solution that t is the multiple with the largest D too; before, P can be far less there.
    """
    vector, total = (beta * Y) @ H, beta.sum(-1)
    square, ahead = vector.square().sum(-1), Y * (vector @ H.mT)
    share = square + (beta.square() / C).sum(-1)
    scale = total / share.clamp_min(torch.finfo(H.dtype).tiny)
    weighted = C * ahead
    slope_at = partial(slope_of_multiple, square=square, ahead=ahead, weighted=weighted)
    first = -weighted.sum(-1)
    far, goal = torch.full_like(first, torch.inf), 1e-6 * first.abs()
    best, _ = batched_root(slope_at, first, far, goal, guess=scale, evaluations=_MAX_SEARCH)
    weights = best.unsqueeze(-1) * vector
    primal = primal_value(H, Y, C, weights)
    return Head(weights, scale.unsqueeze(-1) * beta, primal, 1 - 0.5 * total * scale / primal)


def slope_of_multiple(
    t: Tensor, square: Tensor, ahead: Tensor, weighted: Tensor
) -> tuple[Tensor, Tensor]:
    """The slope of P(t v) in t, which rises in straight pieces, and its derivative.

    |v|² is the square, yᵢ⟨v, hᵢ⟩ ahead, Cᵢyᵢ⟨v, hᵢ⟩ weighted.
    """
    left = (1 - t.unsqueeze(-1) * ahead).clamp_min(0)
    curvature = square + torch.linalg.vecdot((left > 0).to(ahead), weighted * ahead)
    tiny = torch.finfo(ahead.dtype).tiny
    return t * square - torch.linalg.vecdot(left, weighted), curvature.clamp_min(tiny)


def primal_value(H: Tensor, Y: Tensor, C: Penalty, weights: Tensor) -> Tensor:
    """P(w) of every problem."""
    slack = (1 - Y * (weights @ H.mT)).clamp_min(0)
    return 0.5 * (weights.square().sum(-1) + (C * slack.square()).sum(-1))
