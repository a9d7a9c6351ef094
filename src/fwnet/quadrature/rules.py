"""QuadratureRule: points and weights, with the worst-case error that they certify."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.quadrature.kernels import SmoothKernel
from fwnet.quadrature.measures import Measure


class Estimate(NamedTuple):
    """An integral, and the posterior standard deviation of a Gaussian process.

    Example:
        >>> from fwnet.quadrature import RBF, Estimate, Uniform, quadrature
        >>> rule = quadrature(Uniform([0.0], [1.0]), 8, RBF(0.5))
        >>> estimate: Estimate = rule.integrate(lambda x: x[:, 0])
        >>> round(estimate.value, 2), estimate.std < 0.1
        (0.5, True)
    """

    value: float
    std: float


@final
@dataclass(frozen=True, eq=False)
class QuadratureRule:
    """∫ f dπ ≈ Σ wᵢ f(xᵢ), and how wrong that can be.

        |∫ f dπ − Σ wᵢ f(xᵢ)| <= worst_case_error · ‖f‖     for f in the kernel's Hilbert space

    Attributes:
        points: `(n, d)`.
        weights: `(n,)`; Bayesian weights w = K⁻¹z may be negative.
        worst_case_error: an upper bound that includes the rounding of its computation, so that it
            does not fall below about 1e-7.
        kernel: k.
        method: how the points were found.
        indices: which of the candidates they are, `(n,)`; None if they were moved.

    Example:
        >>> from fwnet.quadrature import RBF, QuadratureRule, Uniform, quadrature
        >>> rule: QuadratureRule = quadrature(Uniform([0.0], [1.0]), 8, RBF(0.5))
        >>> rule.points.shape, round(float(rule.weights.sum()), 2)
        (torch.Size([8, 1]), 1.0)
    """

    points: Tensor
    weights: Tensor
    worst_case_error: float
    kernel: SmoothKernel
    method: str
    indices: Tensor | None = None

    @property
    def variance(self) -> float:
        """worst_case_error²: the posterior variance of the integral for a process with kernel k."""
        return self.worst_case_error**2

    def __repr__(self) -> str:
        n, d = self.points.shape
        return (
            f"QuadratureRule({n} points in {d} dimensions by {self.method!r}, "
            f"worst_case_error={self.worst_case_error:.3g})"
        )

    def integrate(self, f: Callable[[Tensor], Any]) -> Estimate:
        """∫ f dπ, and its posterior standard deviation for a Gaussian process with kernel s²k.

        s² = fᵀK⁻¹f/n is the scale of largest likelihood.

        Arguments:
            f: points `(n, d)` -> values `(n,)`.
        """
        values = torch.as_tensor(f(self.points), dtype=torch.float64)
        if values.shape != self.weights.shape:
            raise ValueError(
                f"f must return one value for each of the {len(self.weights)} points; got shape "
                f"{tuple(values.shape)}."
            )
        checks.finite("the values of f", values)
        factor = bayesian_factor(self.kernel(self.points, self.points))
        half = torch.linalg.solve_triangular(factor, values[:, None], upper=False)
        scale = math.sqrt(float((half * half).sum()) / len(values))
        return Estimate(float(self.weights @ values), scale * self.worst_case_error)


def bayesian_factor(K: Tensor) -> Tensor:
    """The Cholesky factor of K + εI, with the least ε of 1e-14, 1e-13, … that is enough."""
    for power in range(-14, -3):
        shifted = K.clone()
        shifted.diagonal().add_(10.0**power)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        if not bool(failed):
            return factor
    raise ValueError("the kernel is not positive semidefinite on these points.")


def bayesian_weights(K: Tensor, z: Tensor) -> Tensor:
    """w = K⁻¹z, of the smallest worst-case error that the points allow."""
    return torch.cholesky_solve(z[:, None], bayesian_factor(K))[:, 0]


def worst_case_error(
    kernel: SmoothKernel, measure: Measure, points: Tensor, weights: Tensor
) -> float:
    """√(∬k − 2zᵀw + wᵀKw), and all that rounding may have taken away from it."""
    return weighed(kernel, measure, points, weights)[1]


def weighed(
    kernel: SmoothKernel, measure: Measure, points: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, float]:
    """Weights, those of Bayesian quadrature if none are given, and their worst-case error.

    A sum of N terms is off by at most Nε of the sum of their sizes. With u = (x − centre)/ℓ, which
    is off by ε|x|/ℓ, the exponent of a kernel value or a mean element is off by a few ε of |u|² and
    of |u||x|/ℓ.
    """
    K, z = kernel(points, points), kernel.mean(points, measure)
    if weights is None:
        weights = bayesian_weights(K, z)
    double = kernel.double(measure)
    value = double - 2.0 * (z @ weights) + weights @ (K @ weights)
    sizes = weights.abs()
    total = double.abs() + 2.0 * (z.abs() @ sizes) + sizes @ (K.abs() @ sizes)
    n, d = points.shape
    scaled = points / kernel.scales(d)
    reach = float((scaled - scaled.mean(0)).square().sum(-1).max())
    far = float(scaled.square().sum(-1).max())
    terms = 2 * n + 16 * d + 32 + 8 * (reach + math.sqrt(reach * far))
    slack = torch.finfo(torch.float64).eps * terms * total
    check_norm(float(value), float(slack))
    return weights, math.sqrt(max(0.0, float(value)) + float(slack))


def check_norm(value: float, slack: float) -> None:
    """Raise if a squared norm is negative by more than its rounding."""
    if value < -slack:
        raise ValueError(
            "the kernel is not positive semidefinite: a squared norm of differences of its values "
            f"is {value:.3g}."
        )
