"""The simplex QP of a kernel with few features: finite Newton in feature space."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics.line_search import batched_root
from fwnet.quadratic.faces import as_doubles, compiled_for
from fwnet.quadratic.gradients import FeatureFaceSystem, augmented
from fwnet.quadratic.solve import SimplexQPSolution

_NEWTON_STEPS = 60
_FULL_STEPS = 8  # faces before steps are searched: nearly always enough
_REFINEMENTS = 3


@torch.no_grad()
def solve_feature_qp(
    Z: Tensor, D: Tensor, c: Tensor, tol: float
) -> tuple[SimplexQPSolution, FeatureFaceSystem]:
    """argmin ½ xᵀ(ZZᵀ + diag D)x + cᵀx over the simplex, through its dual.

        min over (w, level):  ½|w|² + ½ Σ max(0, level − c_i − z_iᵀw)²/D_i − level
        x_i = max(0, level − c_i − z_iᵀw)/D_i

    Smooth, convex and piecewise quadratic in d + 1 variables: Newton's method with a line search
    ends after a few pieces. Also returns the equations of the last face, ready for gradients.

    Arguments:
        Z: `(batch, n, d)`.
        D: `(batch, n)` positive.
        c: `(batch, n)`.
        tol: gap relative to |⟨gradient, x⟩|.

    Reference: Mangasarian (2002), a finite Newton method for classification.
    """
    batch, _, d = Z.shape
    rows = augmented(Z)
    settled = _compiled_newton(rows, D, c)
    if settled is not None:
        return _refine(Z, D, c, settled[0], tol), settled[1]
    unit = Z.new_zeros(batch, d + 1, 1)
    unit[:, -1] = 1.0
    column, tilted = c.unsqueeze(-1), bool(c.any())
    free = torch.ones_like(c, dtype=torch.bool)
    theta, excess = unit, -c
    for t in range(_NEWTON_STEPS):
        face = FeatureFaceSystem(rows, D, free)
        right = unit - torch.bmm(face.weighted.mT, column) if tilted else unit
        aim = torch.cholesky_solve(right, face.cholesky)
        reach = torch.baddbmm(column, rows, aim, beta=-1, alpha=-1).squeeze(-1)  # D x if positive
        if t >= _FULL_STEPS:
            aim, reach = _line_search(theta, aim, excess, reach, D)
        theta, excess = aim, reach
        now = excess > 0
        if t >= _FULL_STEPS:
            now.scatter_(-1, excess.argmax(-1, keepdim=True), True)
        if torch.equal(now, free):
            break
        free = now
    x = excess.clamp_min(0) / D
    x = x / x.sum(-1, keepdim=True)
    return _refine(Z, D, c, x, tol), face


def _compiled_newton(rows: Tensor, D: Tensor, c: Tensor) -> tuple[Tensor, FeatureFaceSystem] | None:
    """The same by compiled code; None if it is not for such a batch, or a step needs a search."""
    code = compiled_for(rows)
    if code is None:
        return None
    gram = as_doubles(torch.bmm(rows.mT, rows / D.unsqueeze(-1)))
    x, solved = np.empty(c.shape), np.empty(len(c), np.bool_)
    code.newton_all(as_doubles(rows), as_doubles(D), as_doubles(c), gram, x, solved)
    if not solved.all():
        return None
    face = FeatureFaceSystem(
        rows, D, torch.from_numpy(x > 0), torch.from_numpy(gram).mT.to(c.dtype)
    )
    x /= x.sum(-1, keepdims=True)
    return torch.from_numpy(x).to(c.dtype), face


def _dual_value(theta: Tensor, excess: Tensor, D: Tensor) -> Tensor:
    w, level = theta[:, :-1, 0], theta[:, -1, 0]
    return 0.5 * w.square().sum(-1) + 0.5 * (excess.clamp_min(0).square() / D).sum(-1) - level


def _line_search(
    theta: Tensor, aim: Tensor, excess: Tensor, reach: Tensor, D: Tensor
) -> tuple[Tensor, Tensor]:
    """The full step where it decreases the dual, the root of its slope elsewhere."""
    value = _dual_value(theta, excess, D)
    slack = 64 * torch.finfo(D.dtype).eps * (value.abs() + theta[:, -1, 0].abs())
    worse = _dual_value(aim, reach, D) > value + slack
    if not bool(worse.any()):
        return aim, reach
    w, move, change = theta[:, :-1, 0], (aim - theta).squeeze(-1), reach - excess
    weighted = change / D
    square, along = move[:, :-1].square().sum(-1), (w * move[:, :-1]).sum(-1) - move[:, -1]

    def slope_at(step: Tensor) -> tuple[Tensor, Tensor]:
        there = (excess + step.unsqueeze(-1) * change).clamp_min(0)
        slope = along + step * square + (there * weighted).sum(-1)
        return slope, square + ((there > 0) * change * weighted).sum(-1)

    here, curvature = slope_at(torch.zeros_like(value))
    step, _ = batched_root(
        slope_at, here, torch.ones_like(here), 1e-9 * here.abs(), curvature=curvature
    )
    step = torch.where(worse, step, 1.0).unsqueeze(-1)
    return theta + step.unsqueeze(-1) * (aim - theta), excess + step * change


def _refine(Z: Tensor, D: Tensor, c: Tensor, x: Tensor, tol: float) -> SimplexQPSolution:
    """Newton steps in x on the final face remove what cancelled in feature space."""
    size = Z.square().sum(-1).add(D).amax(-1) + c.abs().amax(-1)
    floor = 64 * torch.finfo(D.dtype).eps * size
    best = _certify(Z, D, c, x, tol, floor)
    for _ in range(_REFINEMENTS):
        if bool(best.converged.all()):
            break
        system = FeatureFaceSystem.of(Z, D, x > 0)
        x = (best.x + system.solve(-best.gradient)).clamp_min(0)
        x = x / x.sum(-1, keepdim=True)
        now = _certify(Z, D, c, x, tol, floor)
        better = now.gap < best.gap
        best.put(better, now.take(better))
    return best


def _certify(
    Z: Tensor, D: Tensor, c: Tensor, x: Tensor, tol: float, floor: Tensor
) -> SimplexQPSolution:
    image = torch.bmm(Z.mT, x.unsqueeze(-1))
    g = torch.baddbmm((D * x + c).unsqueeze(-1), Z, image).squeeze(-1)
    return SimplexQPSolution.at(x, g, tol, floor)
