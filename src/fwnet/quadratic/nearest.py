"""The nearest point of a convex hull, as weights."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_weights(vertices: Tensor, point: Tensor) -> Tensor:
    """Weights w >= 0, Σ w = 1, of the point of the hull that is nearest to `point`.

        min over w >= 0 of |Σ w_k (vertices_k − point)|² + (Σ w_k − 1)²,   then w / Σ w

    On the points themselves, not as a quadratic program: their Gram matrix would square the
    condition number. For w = t λ with Σ λ = 1 the best t gives r / (1 + r),
    r = |Σ λ_k (vertices_k − point)|²: the λ of the free problem is that of the constrained one.

    Arguments:
        vertices: `(K, n)` in float64; point: `(n,)`.

    Reference: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    shifted = vertices - point
    size = shifted.abs().amax().clamp_min(torch.finfo(shifted.dtype).tiny)
    columns = torch.cat([shifted / size, shifted.new_ones(len(vertices), 1)], 1).T  # (n + 1, K)
    target = columns.new_zeros(len(columns))
    target[-1] = 1.0
    w = _non_negative_least_squares(columns, target)
    return w / w.sum()


def _non_negative_least_squares(columns: Tensor, target: Tensor) -> Tensor:
    """min over w >= 0 of |columns w − target|², by Lawson and Hanson's active sets."""
    count = columns.shape[1]
    w = columns.new_zeros(count)
    active = torch.zeros(count, dtype=torch.bool)  # the weights that may be positive
    noise = 1e-14 * columns.shape[0]
    for _ in range(3 * count + 10):
        descent = columns.T @ (target - columns @ w)
        descent[active] = -torch.inf
        best = int(descent.argmax())
        if float(descent[best]) <= noise:
            break
        active[best] = True
        while True:
            candidate = torch.zeros_like(w)
            some = columns[:, active]
            # By singular values: torch's default pivots by memory that it does not initialise.
            found = torch.linalg.lstsq(some, target.unsqueeze(-1), driver="gelsd").solution
            candidate[active] = found.squeeze(-1)
            if bool((candidate[active] > 0).all()):
                w = candidate
                break
            blocked = active & (candidate <= 0)
            if bool(blocked[best]) and float(w[best]) == 0.0 and bool((w[blocked] == 0).all()):
                active[best] = False  # rounding: this column promises no more descent
                return w
            steps = torch.where(blocked, w / (w - candidate), torch.inf)
            step = float(steps.min())
            w = w + step * (candidate - w)
            active &= ~((steps == step) | (w <= 0))
            w = torch.where(active, w, 0.0)
    return w
