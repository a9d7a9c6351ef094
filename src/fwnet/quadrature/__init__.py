"""Bayesian quadrature by Frank-Wolfe: few weighted points that stand for a measure."""

from fwnet.quadrature.coresets import Coreset, coreset
from fwnet.quadrature.kernels import RBF, Matern32, SmoothKernel
from fwnet.quadrature.measures import Empirical, Gaussian, Measure, MixtureMeasure, Uniform
from fwnet.quadrature.rules import Estimate, QuadratureRule
from fwnet.quadrature.selection import METHODS
from fwnet.quadrature.solve import quadrature

__all__ = [
    "METHODS",
    "RBF",
    "Coreset",
    "Empirical",
    "Estimate",
    "Gaussian",
    "Matern32",
    "Measure",
    "MixtureMeasure",
    "QuadratureRule",
    "SmoothKernel",
    "Uniform",
    "coreset",
    "quadrature",
]
