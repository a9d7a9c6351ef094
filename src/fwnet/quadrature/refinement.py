"""Move the points of a rule downhill."""

from __future__ import annotations

import torch
from torch import Tensor

from fwnet.quadrature.kernels import SmoothKernel
from fwnet.quadrature.measures import Measure
from fwnet.quadrature.rules import bayesian_weights

_FLOOR = 1e-14  # variances below it are rounding


def refined(kernel: SmoothKernel, measure: Measure, points: Tensor, steps: int) -> Tensor:
    """Points of a smaller posterior variance v(x) = ∬k − zᵀK⁻¹z, by L-BFGS on log v.

    The weights w = K⁻¹z minimise ∬k − 2zᵀw + wᵀKw, so its gradient with w held fixed is that of v:
    no derivative goes through the solution of a linear system. Returns `points` itself if nothing
    was won.
    """
    x = points.clone().requires_grad_()
    double = kernel.double(measure)
    optimizer = torch.optim.LBFGS(
        [x], max_iter=steps, history_size=20, line_search_fn="strong_wolfe"
    )
    best, least = points, _variance(kernel, measure, points, double)

    def closure() -> Tensor:
        nonlocal best, least
        optimizer.zero_grad()
        with torch.enable_grad():
            K, z = kernel(x, x), kernel.mean(x, measure)
            w = bayesian_weights(K.detach(), z.detach())
            variance = double - 2.0 * (w @ z) + w @ (K @ w)
            value = float(variance.detach())
            if _FLOOR < value < least:
                best, least = x.detach().clone(), value
            loss = torch.log(variance.clamp_min(_FLOOR))
            loss.backward()
        return loss

    optimizer.step(closure)
    return best


def _variance(kernel: SmoothKernel, measure: Measure, points: Tensor, double: Tensor) -> float:
    z = kernel.mean(points, measure)
    return float(double - z @ bayesian_weights(kernel(points, points), z))
