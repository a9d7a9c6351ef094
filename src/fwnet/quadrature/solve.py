"""quadrature: choose points of a measure by Frank-Wolfe, weigh them, move them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.quadrature.kernel_map import kernel_map
from fwnet.quadrature.kernels import SmoothKernel, check_kernel, check_measure
from fwnet.quadrature.measures import Empirical, Measure, numbers
from fwnet.quadrature.refinement import refined
from fwnet.quadrature.rules import QuadratureRule, weighed, worst_case_error
from fwnet.quadrature.selection import METHODS, select, sequential

_SURPLUS = 3  # steps for each point that is kept
_GREEDY = 64  # moved points up to which a greedy choice wins more than it costs


def quadrature(
    measure: Measure,
    n: int,
    kernel: SmoothKernel,
    *,
    method: str = "pairwise",
    candidates: Any = None,
    weights: str = "bayesian",
    refine: int = 16,
    generator: torch.Generator | None = None,
) -> QuadratureRule:
    """Points and weights for ∫ f dπ, by Frank-Wolfe over the marginal polytope.

        min over w in the simplex of ½ ‖∫ k(x, ·) dπ − Σ wᵢ k(xᵢ, ·)‖² = ½ wᵀKw − zᵀw + const

    A step of Frank-Wolfe goes toward the candidate where the error is largest. Of the points that
    3n steps find, n are kept and get the weights of Bayesian quadrature, w = K⁻¹z; gradients then
    move them. The n are a greedy choice; those of the largest weights where many points move.

    Arguments:
        measure: π.
        n: how many points, at most.
        kernel: of the functions that are to be integrated.
        method: "pairwise", "corrective", "line-search", "open-loop" (2/(t + 2)), "herding"
            (1/(t + 1)), or the greedy "sequential" Bayesian quadrature, which is no Frank-Wolfe
            method.
        candidates: points to choose from, `(m, d)`, or how many to draw from π; 5n, at least 500,
            by default, and all points of an `Empirical` measure.
        weights: "bayesian", or "frank-wolfe" for those of the simplex: nonnegative, with sum 1.
        refine: how many steps of L-BFGS move the points of a measure with a density; they need
            Bayesian weights. 0 leaves the points where they are.
        generator: of the candidates; seed 0 if left out.

    Example:
        >>> import torch
        >>> from fwnet.quadrature import RBF, Gaussian, quadrature
        >>> rule = quadrature(Gaussian([0.0, 0.0]), 30, RBF(1.5))
        >>> found = rule.integrate(lambda x: torch.cos(x[:, 0]))  # exp(−1/2) = 0.60653
        >>> round(found.value, 3)
        0.607

    Reference: Briol, Oates, Girolami and Osborne, Frank-Wolfe Bayesian Quadrature (2015).
    """
    measure, kernel = check_measure(measure), check_kernel(kernel)
    checks.one_of("method", method, METHODS)
    checks.one_of("weights", weights, ("bayesian", "frank-wolfe"))
    n, refine = checks.at_least("n", n, 1), checks.at_least("refine", refine, 0)
    if weights == "frank-wolfe" and method == "sequential":
        raise ValueError('method="sequential" has no weights on the simplex; use "bayesian".')
    X = _candidates(measure, n, candidates, generator)
    if n > len(X):
        raise ValueError(f"n must be at most the number of candidates, {len(X)}; got {n}.")
    z = kernel.mean(X, measure)
    index, simplex_weights = torch.arange(len(X)), z
    if method != "sequential":
        steps = n - 1 if weights == "frank-wolfe" else _SURPLUS * n
        index, simplex_weights = select(kernel_map(kernel, X), z, method, steps)
    refine = 0 if isinstance(measure, Empirical) else refine
    if weights == "frank-wolfe":
        points = X[index]
        error = worst_case_error(kernel, measure, points, simplex_weights)
        return QuadratureRule(points, simplex_weights, error, kernel, method, index)
    if refine and n > _GREEDY and method != "sequential":
        index = index[simplex_weights.argsort(descending=True)[:n]]
    else:
        index = index[sequential(kernel, X[index], z[index], n)]
    points = X[index]
    moved = refined(kernel, measure, points, refine) if refine else points
    w, error = weighed(kernel, measure, moved)
    return QuadratureRule(moved, w, error, kernel, method, index if moved is points else None)


def _candidates(
    measure: Measure, n: int, candidates: Any, generator: torch.Generator | None
) -> Tensor:
    """The points to choose from: `(m, d)`."""
    if candidates is not None and not isinstance(candidates, int | np.integer):
        candidates = checks.finite("candidates", numbers("candidates", candidates))
        if candidates.ndim != 2 or candidates.shape[1] != measure.dim:
            raise ValueError(
                f"candidates must be (m, {measure.dim}), as the measure has {measure.dim} "
                f"dimensions; got {tuple(candidates.shape)}."
            )
        return candidates
    if isinstance(measure, Empirical) and candidates is None:
        return measure.points
    m = max(500, 5 * n) if candidates is None else checks.at_least("candidates", candidates, 1)
    return measure.sample(m, generator or torch.Generator().manual_seed(0))
