"""The SVM on top of a kernel network: exact weights for given features, with a certificate.

    P(w) = ½|w|² + ½ Σ Cᵢ max(0, 1 − yᵢ⟨w, hᵢ⟩)²      D(β) = Σβ − ½|Σ βᵢyᵢhᵢ|² − ½ Σ βᵢ²/Cᵢ

hᵢ carries a last feature 1, so the bias is the last weight. Several problems (one against the rest)
share the features and are solved in one batch. β/Σβ is the α on the simplex of `fwnet.SVMDual`,
and P* = 1/(4 f*).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fwnet.numerics.line_search import batched_root
from fwnet.numerics.tensors import picked
from fwnet.problems.svm import dual_matrix
from fwnet.quadratic.solve import simplex_qp

_MAX_NEWTON, _MAX_SEARCH = 100, 60
_ENTRIES = 1 << 22  # numbers that a normal matrix gathers at a time

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

    Finite Newton in feature space; the dual on the simplex if there are more features than points.

    Arguments:
        tol: relative duality gap.
    """
    if H.shape[1] > H.shape[0]:
        Q = dual_matrix(H @ H.mT, Y, 1 / C, bias=False)  # H has the constant feature
        alpha = simplex_qp(Q, tol=tol)
        rho = (alpha * (Q @ alpha.unsqueeze(-1)).squeeze(-1)).sum(-1, keepdim=True)
        return head_of(H, Y, C, alpha / rho)
    return _newton(H, Y, C, tol)


@torch.no_grad()
def head_of(H: Tensor, Y: Tensor, C: Penalty, beta: Tensor) -> Head:
    """The head w = t Σ βᵢyᵢhᵢ of given multipliers, at the multiple t with the least P(w).

    At the solution that t is the multiple with the largest D too; before, P can be far less there.
    """
    vector, total, curve = _dual_parts(H, Y, C, beta)
    scale = total / curve
    ahead = Y * (vector @ H.mT)
    ends = (torch.zeros_like(scale), vector.square().sum(-1))
    best = _line_search(ends, torch.ones_like(ahead), ahead, C, scale)
    weights = best.unsqueeze(-1) * vector
    slack = (1 - best.unsqueeze(-1) * ahead).clamp_min(0)
    primal = 0.5 * (weights.square().sum(-1) + (C * slack.square()).sum(-1))
    gap = (primal - 0.5 * total * scale) / primal
    return Head(weights, scale.unsqueeze(-1) * beta, primal, gap)


def _certified(H: Tensor, Y: Tensor, C: Penalty, weights: Tensor, slack: Tensor) -> Head:
    """The head of given weights; the multipliers are Cᵢ times the slacks."""
    beta = C * slack.clamp_min(0)
    primal = 0.5 * (weights.square().sum(-1) + (beta.square() / C).sum(-1))
    _, total, curve = _dual_parts(H, Y, C, beta)
    return Head(weights, beta, primal, (primal - 0.5 * total.square() / curve) / primal)


def _dual_parts(H: Tensor, Y: Tensor, C: Penalty, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    vector = (beta * Y) @ H
    curve = vector.square().sum(-1) + (beta.square() / C).sum(-1)
    return vector, beta.sum(-1), curve.clamp_min(torch.finfo(H.dtype).tiny)


def _newton(H: Tensor, Y: Tensor, C: Penalty, tol: float) -> Head:
    """Newton's steps on the piecewise quadratic P, each with an exact line search.

    P is quadratic while the same points lie inside the margin, so the steps end by themselves.

    Reference: Keerthi and DeCoste, A modified finite Newton method (2005).
    """
    weights, slack = H.new_zeros(Y.shape[0], H.shape[1]), torch.ones_like(Y)
    best = _certified(H, Y, C, weights, slack)
    last, idle = best.primal, 0
    for _ in range(_MAX_NEWTON):
        if bool((best.gap <= tol).all()) or idle == 2:
            break
        inside = C * (slack > 0).to(H)
        direction = _solve(_normal(H, inside), (inside * Y) @ H) - weights
        change = Y * (direction @ H.mT)
        ends = ((weights * direction).sum(-1), direction.square().sum(-1))
        step = _line_search(ends, slack, change, C, torch.ones_like(ends[0])).unsqueeze(-1)
        weights = weights + step * direction
        slack = 1 - Y * (weights @ H.mT)
        now = _certified(H, Y, C, weights, slack)
        # P falls at every step, the gap does not: C·slack is a poor multiplier far away.
        fell = (now.primal < (1 - 1e-15) * last) & (best.gap > tol)
        idle = 0 if bool(fell.any()) else idle + 1
        last = now.primal
        best = picked(now.gap < best.gap, now, best)
    return best


def _normal(H: Tensor, inside: Tensor) -> Tensor:
    """I + Σ Cᵢhᵢhᵢᵀ over the points inside the margin, `(problems, d + 1, d + 1)`."""
    n, d = H.shape
    total = torch.eye(d, dtype=H.dtype, device=H.device).repeat(inside.shape[0], 1, 1)
    height = max(1, _ENTRIES // (d * inside.shape[0]))
    for lo in range(0, n, height):
        part = H[lo : lo + height]
        total += (part.mT * inside[:, None, lo : lo + height]) @ part
    return total


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    factor, info = torch.linalg.cholesky_ex(matrix)
    if not bool(info.any()):
        return torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
    values, vectors = torch.linalg.eigh(matrix)  # I + ... has no eigenvalue below 1
    turned = vectors.mT @ right.unsqueeze(-1) / values.clamp_min(1).unsqueeze(-1)
    return (vectors @ turned).squeeze(-1)


def _line_search(
    ends: tuple[Tensor, Tensor], slack: Tensor, change: Tensor, C: Penalty, start: Tensor
) -> Tensor:  # (problems,)
    """The t where the slope ⟨w, d⟩ + t|d|² − Σ Cᵢ max(0, slackᵢ − t·changeᵢ)·changeᵢ crosses 0.

    The slope rises with t, in straight pieces: Newton's steps end on the piece.
    A slope of 1e-6 of the first one is near enough: where no point changes sides, t = 1 has none.
    """
    across, square = ends
    weighted = C * change
    curvatures, tiny = weighted * change, torch.finfo(start.dtype).tiny

    def slope_at(t: Tensor) -> tuple[Tensor, Tensor]:
        left = (slack - t.unsqueeze(-1) * change).clamp_min_(0)
        slope = torch.addcmul(across, t, square) - torch.linalg.vecdot(left, weighted)
        curvature = square + torch.linalg.vecdot((left > 0).to(curvatures), curvatures)
        return slope, curvature.clamp_min(tiny)

    first = across - (slack.clamp_min(0) * weighted).sum(-1)
    far = torch.full_like(across, torch.inf)
    goal = 1e-6 * first.abs()
    return batched_root(slope_at, first, far, goal, guess=start, evaluations=_MAX_SEARCH)[0]
