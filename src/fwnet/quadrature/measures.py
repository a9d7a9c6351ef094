"""Measures: what is integrated against."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks


class Measure(ABC):
    """A probability measure π on R^d, in float64."""

    dim: int

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent points of π: `(n, d)`."""


@final
@dataclass(frozen=True, eq=False)
class Gaussian(Measure):
    """N(mean, covariance).

    Arguments:
        mean: `(d,)`.
        covariance: `(d, d)` positive definite, `(d,)` its diagonal, or a number; 1 by default.
    """

    mean: Any
    covariance: Any = 1.0

    def __post_init__(self) -> None:
        mean = _vector("Gaussian(mean)", self.mean)
        cov = numbers("Gaussian(covariance)", self.covariance)
        checks.finite("Gaussian(covariance)", cov)
        d = len(mean)
        if cov.ndim < 2:
            cov = torch.diag(cov.expand(d)) if cov.ndim == 0 or len(cov) == d else cov
        if cov.shape != (d, d) or not torch.equal(cov, cov.mT):
            raise ValueError(
                f"Gaussian(covariance) must be a number, ({d},) or symmetric ({d}, {d}), as mean "
                f"has {d} entries; got shape {tuple(cov.shape)}."
            )
        factor, failed = torch.linalg.cholesky_ex(cov)
        if bool(failed):
            raise ValueError("Gaussian(covariance) must be positive definite.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", cov)
        object.__setattr__(self, "_factor", factor)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return len(self.mean)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        normal = torch.randn(n, self.dim, dtype=torch.float64, generator=generator)
        return self.mean + normal @ self._factor.mT  # type: ignore[attr-defined]


@final
@dataclass(frozen=True, eq=False)
class Uniform(Measure):
    """The uniform measure on the box low <= x <= high.

    Arguments:
        low, high: `(d,)`, low < high.
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low, high = _vector("Uniform(low)", self.low), _vector("Uniform(high)", self.high)
        if low.shape != high.shape or not bool((low < high).all()):
            raise ValueError(
                f"Uniform(low, high) must be of one length with low < high; got {low.tolist()} "
                f"and {high.tolist()}."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return len(self.low)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        unit = torch.rand(n, self.dim, dtype=torch.float64, generator=generator)
        return self.low + unit * (self.high - self.low)


@final
@dataclass(frozen=True, eq=False)
class MixtureMeasure(Measure):
    """Σ weightᵢ πᵢ.

    Arguments:
        weights: positive, with sum 1.
        parts: measures of one dimension, all Gaussian or all uniform.
    """

    weights: Any
    parts: Sequence[Measure]

    def __post_init__(self) -> None:
        weights = _vector("MixtureMeasure(weights)", self.weights)
        if len(weights) != len(self.parts) or len({type(part) for part in self.parts}) != 1:
            raise ValueError(
                "MixtureMeasure(weights, parts) needs one weight for each part, and parts of one "
                f"kind, Gaussian or Uniform; got {len(weights)} weights and "
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
        if not bool((weights > 0).all()) or not math.isclose(float(weights.sum()), 1.0):
            raise ValueError(
                f"MixtureMeasure(weights) must be positive with sum 1; got {weights.tolist()}."
            )
        object.__setattr__(self, "weights", weights)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return self.parts[0].dim

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        which = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        drawn = torch.stack([part.sample(n, generator) for part in self.parts])
        return drawn[which, torch.arange(n)]


@final
@dataclass(frozen=True, eq=False)
class Empirical(Measure):
    """Σ weightᵢ δ(xᵢ): the measure of a data set.

    Arguments:
        points: `(n, d)`.
        weights: `(n,)`, at least 0 with sum 1; all equal by default.
    """

    points: Any
    weights: Any = None

    def __post_init__(self) -> None:
        points = numbers("Empirical(points)", self.points)
        if points.ndim != 2 or points.shape[0] == 0:
            raise ValueError(
                f"Empirical(points) must be (n, d) with n > 0; got shape {tuple(points.shape)}."
            )
        checks.finite("Empirical(points)", points)
        n = len(points)
        weights = points.new_full((n,), 1.0 / n)
        if self.weights is not None:
            weights = _vector("Empirical(weights)", self.weights)
            one = len(weights) == n and math.isclose(float(weights.sum()), 1.0, rel_tol=1e-6)
            if not one or bool((weights < 0).any()):
                raise ValueError(
                    f"Empirical(weights) must be {n} numbers, at least 0, with sum 1; got "
                    f"{len(weights)} with sum {float(weights.sum()):.6g}."
                )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return int(self.points.shape[1])

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
