"""Which points: Frank-Wolfe on the weights of all candidates, or the greedy rival."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fwnet.directions import Corrections
from fwnet.domains import Simplex
from fwnet.numerics.compiled import numba_or_none
from fwnet.numerics.linear_maps import DenseMap, LinearMap
from fwnet.problems import Quadratic
from fwnet.quadrature.kernels import SmoothKernel
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe
from fwnet.steps import LineSearch

METHODS = ("pairwise", "corrective", "line-search", "open-loop", "herding", "sequential")
_MEMORY = 16  # points that a corrective step weighs anew
_ROUNDING = 1e-12  # posterior variances of k(x, ·) below it


def select(matrix: LinearMap, z: Tensor, method: str, steps: int) -> tuple[Tensor, Tensor]:
    """Places and their weights on the simplex: min ½ wᵀKw − zᵀw by steps of Frank-Wolfe.

    Arguments:
        matrix: K, `(m, m)`.
        z: `(m,)`; the start is the point of its largest entry, and a step adds one point at most.
        method: one of `METHODS` but the last.
    """
    x0 = torch.zeros_like(z)
    x0[z.argmax()] = 1.0
    if steps == 0:
        return x0.nonzero()[:, 0], z.new_ones(1)
    solver = _solver(method, steps, isinstance(matrix, DenseMap) and numba_or_none() is not None)
    x = solver(Quadratic(matrix, -z), x0).x
    index = x.nonzero()[:, 0]
    return index, x[index]


@cache  # a solver keeps nothing of a solve, and making one takes as long as fifty steps
def _solver(method: str, steps: int, compiled: bool) -> FrankWolfe:
    budget: dict[str, Any] = {"max_steps": steps, "tol": 0.0, "check_every": steps}
    if method == "pairwise":
        return PairwiseFrankWolfe(Simplex(), compiled=compiled, **budget)
    if method == "corrective":
        hull = Corrections(_MEMORY, [])  # a projected step would give weight to every candidate
        return FrankWolfe(Simplex(), LineSearch(), direction=hull, **budget)
    rule: Any = {
        "line-search": LineSearch(),
        "open-loop": lambda t: 2.0 / (t + 3),  # the start was the first point
        "herding": lambda t: 1.0 / (t + 2),
    }[method]
    return FrankWolfe(Simplex(), rule, **budget)


def sequential(kernel: SmoothKernel, X: Tensor, z: Tensor, n: int) -> Tensor:
    """Sequential Bayesian quadrature: each point lowers the posterior variance most.

        argmax of (z(x) − k(x)ᵀK⁻¹z)² / (k(x, x) − k(x)ᵀK⁻¹k(x)),   by a growing Cholesky factor

    Returns the places in X, at most n of them: where the variance is rounding, it stops.
    """
    make, rows = kernel.column_maker(X), X.new_empty(n, len(X))
    rest, variance, score = z.clone(), X.new_ones(len(X)), torch.empty_like(z)
    # Arrays over the same numbers: reading one of them costs a tenth of what a tensor takes.
    rest_of, variance_of, score_of = rest.numpy(), variance.numpy(), score.numpy()
    chosen: list[int] = []
    for t in range(n):
        torch.mul(rest, rest, out=score).div_(variance)
        i = int(score_of.argmax())
        if not score_of[i] > 0:
            break
        deviation = math.sqrt(variance_of[i])
        row, share = rows[t], 1.0 / deviation
        at = rows[:t, i].contiguous()  # BLAS is slow with a strided vector
        torch.addmv(make(i), rows[:t].mT, at, beta=share, alpha=-share, out=row)
        rest.add_(row, alpha=-float(rest_of[i]) * share)
        variance.addcmul_(row, row, value=-1.0)
        variance_of[i] = 0.0
        torch.threshold_(variance, _ROUNDING, math.inf)  # no score for what is rounding
        chosen.append(i)
    return torch.tensor(chosen)
