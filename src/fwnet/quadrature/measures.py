"""Measures: what is integrated against."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks


class Measure(ABC):
    """A probability measure π on Rᵈ, in float64.

    Example:
        >>> from fwnet.quadrature import Gaussian, Measure, Uniform
        >>> all(isinstance(m, Measure) for m in (Gaussian([0.0]), Uniform([0.0], [1.0])))
        True
    """

    dim: int

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent points of π: `(n, d)`."""


@final
class Gaussian(Measure):
    """N(mean, covariance).

    Arguments:
        mean: `(d,)`.
        covariance: `(d, d)` positive definite, `(d,)` its diagonal, or a number; 1 by default.

    Example:
        >>> from fwnet.quadrature import Gaussian
        >>> Gaussian([0.0, 1.0], covariance=2.0).dim
        2
    """

    def __init__(self, mean: Any, covariance: Any = 1.0) -> None:
        self.mean = _vector("Gaussian(mean)", mean)
        self.dim = d = len(self.mean)
        cov = checks.finite("Gaussian(covariance)", numbers("Gaussian(covariance)", covariance))
        if cov.ndim == 0 or cov.shape == (d,):
            cov = torch.diag(cov.expand(d))
        if cov.shape != (d, d) or not torch.equal(cov, cov.mT):
            raise ValueError(
                f"Gaussian(covariance) must be a number, ({d},) or symmetric ({d}, {d}), as mean "
                f"has {d} entries; got shape {tuple(cov.shape)}."
            )
        self.covariance = cov
        self._factor, failed = torch.linalg.cholesky_ex(cov)
        if bool(failed):
            raise ValueError("Gaussian(covariance) must be positive definite.")

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        normal = torch.randn(n, self.dim, dtype=torch.float64, generator=generator)
        return self.mean + normal @ self._factor.mT


@final
class Uniform(Measure):
    """The uniform measure on the box low <= x <= high.

    Arguments:
        low, high: `(d,)`, low < high.

    Example:
        >>> from fwnet.quadrature import Uniform
        >>> Uniform([0.0, 0.0], [1.0, 2.0]).dim
        2
    """

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = _vector("Uniform(low)", low), _vector("Uniform(high)", high)
        if self.low.shape != self.high.shape or not bool((self.low < self.high).all()):
            raise ValueError(
                "Uniform(low, high) must be of one length with low < high; got "
                f"{self.low.tolist()} and {self.high.tolist()}."
            )
        self.dim = len(self.low)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        unit = torch.rand(n, self.dim, dtype=torch.float64, generator=generator)
        return self.low + unit * (self.high - self.low)


@final
class MixtureMeasure(Measure):
    """Σ weightᵢ πᵢ.

    Arguments:
        weights: positive, with sum 1.
        parts: measures of one dimension, all Gaussian or all uniform.

    Example:
        >>> from fwnet.quadrature import Gaussian, MixtureMeasure
        >>> MixtureMeasure([0.3, 0.7], [Gaussian([-1.0]), Gaussian([2.0])]).dim
        1
    """

    def __init__(self, weights: Any, parts: Sequence[Measure]) -> None:
        self.weights = _vector("MixtureMeasure(weights)", weights)
        self.parts = list(parts)
        if len(self.weights) != len(self.parts) or len({type(part) for part in self.parts}) != 1:
            raise ValueError(
                "MixtureMeasure(weights, parts) needs one weight for each part, and parts of one "
                f"kind, Gaussian or Uniform; got {len(self.weights)} weights and "
                f"{[type(part).__name__ for part in self.parts]}."
            )
        if not isinstance(self.parts[0], Gaussian | Uniform):
            raise TypeError(
                "MixtureMeasure(parts) takes Gaussian or Uniform measures; got "
                f"{type(self.parts[0]).__name__}."
            )
        if len({part.dim for part in self.parts}) != 1:
            raise ValueError(
                f"MixtureMeasure(parts) must have one dimension; got {[p.dim for p in self.parts]}."
            )
        if not bool((self.weights > 0).all()) or not math.isclose(float(self.weights.sum()), 1.0):
            raise ValueError(
                f"MixtureMeasure(weights) must be positive with sum 1; got {self.weights.tolist()}."
            )
        self.dim = self.parts[0].dim

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        which = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        drawn = torch.stack([part.sample(n, generator) for part in self.parts])
        return drawn[which, torch.arange(n)]


@final
class Empirical(Measure):
    """Σ weightᵢ δ(xᵢ): the measure of a data set.

    Arguments:
        points: `(n, d)`.
        weights: `(n,)`, at least 0 with sum 1; all equal by default.

    Example:
        >>> from fwnet.quadrature import Empirical
        >>> Empirical([[0.0], [1.0], [2.0]]).dim
        1
    """

    def __init__(self, points: Any, weights: Any = None) -> None:
        self.points = checks.finite("Empirical(points)", numbers("Empirical(points)", points))
        if self.points.ndim != 2 or len(self.points) == 0:
            raise ValueError(
                "Empirical(points) must be (n, d) with n > 0; got shape "
                f"{tuple(self.points.shape)}."
            )
        n, self.dim = self.points.shape
        self.weights = self.points.new_full((n,), 1.0 / n)
        if weights is not None:
            self.weights = _vector("Empirical(weights)", weights)
            total = float(self.weights.sum())
            one = len(self.weights) == n and math.isclose(total, 1.0, rel_tol=1e-6)
            if not one or bool((self.weights < 0).any()):
                raise ValueError(
                    f"Empirical(weights) must be {n} numbers, at least 0, with sum 1; got "
                    f"{len(self.weights)} with sum {total:.6g}."
                )

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        which = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        return self.points[which]


def numbers(name: str, values: Any) -> Tensor:
    """Values as a float64 tensor; raise a clear error if they are no numbers."""
    if isinstance(values, Tensor):
        return values.detach().double()
    try:
        return torch.tensor(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise TypeError(f"{name} must be numbers; got {kind} {values!r:.60}.") from None


def _vector(name: str, values: Any) -> Tensor:
    vector = torch.atleast_1d(numbers(name, values))
    if vector.ndim != 1 or len(vector) == 0:
        raise ValueError(f"{name} must be a vector; got shape {tuple(vector.shape)}.")
    checks.finite(name, vector)
    return vector
