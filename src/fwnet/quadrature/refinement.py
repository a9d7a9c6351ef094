"""Move the points of a rule downhill."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fwnet.domains.linear_programs import scipy_optimize
from fwnet.quadrature.kernels import SmoothKernel
from fwnet.quadrature.measures import Measure
from fwnet.quadrature.rules import bayesian_factor

_FLOOR = 1e-14  # variances below it are rounding


def refined(kernel: SmoothKernel, measure: Measure, points: Tensor, steps: int) -> Tensor:
    """Points of a smaller posterior variance v(x) = ∬k − zᵀK⁻¹z, by L-BFGS on log v.

    The weights w = K⁻¹z minimise ∬k − 2zᵀw + wᵀKw, so its gradient with w held fixed is that of v:
    no derivative goes through the solution of a linear system. Returns `points` itself if nothing
    was won.
    """
    double, mean = float(kernel.double(measure)), kernel.mean_maker(measure)
    best, least = points, math.inf

    def log_variance(at: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least
        x = torch.from_numpy(at).reshape(points.shape)
        K = kernel(x, x)
        factor, (z, slope) = bayesian_factor(K), mean(x)
        w = torch.cholesky_solve(z[:, None], factor)[:, 0]
        variance = max(double - float(w @ z), _FLOOR)
        if _FLOOR < variance < least:
            best, least = points if least == math.inf else x.clone(), variance
        gradient = kernel.pull(x, K, w) - 2.0 * w[:, None] * slope
        return math.log(variance), (gradient / variance).flatten().numpy()

    optimize = scipy_optimize("quadrature(refine=...)")
    optimize.minimize(
        log_variance,
        points.flatten().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20},
    )
    return best
