"""Kernels whose integrals against a measure are known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.quadrature.measures import Empirical, Gaussian, Measure, MixtureMeasure, Uniform, numbers

_BLOCK = 1 << 22  # kernel values that are made at a time

MeanMaker: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class SmoothKernel(ABC):
    """A positive definite k(x, z) <= 1 = k(x, x) with its mean element z(x) = ∫ k(x, ·) dπ.

    Arguments:
        lengthscale: ℓ, a number or one for each dimension.

    Example:
        >>> from fwnet.quadrature import RBF, SmoothKernel
        >>> kernel: SmoothKernel = RBF(lengthscale=[1.0, 2.0])
        >>> kernel
        RBF([1.0, 2.0])
    """

    def __init__(self, lengthscale: Any = 1.0) -> None:
        scale = numbers("lengthscale", lengthscale)
        if scale.ndim > 1 or not bool((scale > 0).all()) or not bool(torch.isfinite(scale).all()):
            raise ValueError(
                f"lengthscale must be positive, a number or one for each dimension; got "
                f"{lengthscale!r}."
            )
        self.lengthscale = scale

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lengthscale.tolist()})"

    @abstractmethod
    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        """k(xᵢ, zⱼ): `(n, d)`, `(m, d)` -> `(n, m)`."""

    def _mean(self, x: Tensor, part: Measure) -> Tensor:
        """∫ k(x, ·) dπ for a Gaussian or uniform π: `(n,)`."""
        raise self._no_closed_form(part)

    def _double(self, part: Measure, other: Measure) -> Tensor:
        """∬ k dπ dπ' of two Gaussian or two uniform measures."""
        raise self._no_closed_form(part)

    def column_maker(self, X: Tensor) -> Callable[[int], Tensor]:
        """A function from i to k(X, xᵢ) `(n,)`, for many columns of one matrix."""
        return lambda i: self(X, X[i : i + 1])[:, 0]

    # What moves points works on arrays: for some hundred numbers, torch's calls take longer than
    # the work.

    def gram(self, x: np.ndarray) -> np.ndarray:
        """k(xᵢ, xⱼ), `(n, n)`, as a new array."""
        at = torch.from_numpy(x)
        return self(at, at).numpy()

    def pull(self, x: np.ndarray, K: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The gradient of wᵀKw over x, with K = k(x, x): `(n, d)`."""
        at, weights = torch.tensor(x, requires_grad=True), torch.from_numpy(w)
        with torch.enable_grad():
            return torch.autograd.grad(weights @ (self(at, at) @ weights), at)[0].numpy()

    def scales(self, dim: int) -> Tensor:
        """ℓ for each dimension: `(d,)`."""
        if self.lengthscale.ndim and len(self.lengthscale) != dim:
            raise ValueError(
                f"lengthscale has {len(self.lengthscale)} entries, but the points have {dim} "
                "dimensions."
            )
        return self.lengthscale.expand(dim)

    def mean(self, x: Tensor, measure: Measure) -> Tensor:
        """The mean element z(x) = ∫ k(x, ·) dπ: `(n, d)` -> `(n,)`."""
        if isinstance(measure, Empirical):
            points, weights = measure.points, measure.weights
            return blocked(lambda some: self(some, points) @ weights, x, len(points))
        found = [self._mean(x, part) for part in _parts(measure)]
        return torch.stack(found, -1) @ _weights(measure)

    def mean_maker(self, measure: Measure) -> MeanMaker:
        """A function from x to z(x) and its gradient, `(n,)` and `(n, d)`, for many x."""

        def make(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            at = torch.tensor(x, requires_grad=True)
            with torch.enable_grad():
                z = self.mean(at, measure)
                total = z.sum() + 0.0 * at.sum()  # z may be constant
                return z.detach().numpy(), torch.autograd.grad(total, at)[0].numpy()

        return make

    def double(self, measure: Measure) -> Tensor:
        """∬ k dπ dπ, a number."""
        if isinstance(measure, Empirical):
            return self.mean(measure.points, measure) @ measure.weights
        parts, weights = _parts(measure), _weights(measure)
        pairs = [torch.stack([self._double(part, other) for other in parts]) for part in parts]
        return weights @ torch.stack(pairs) @ weights

    def _no_closed_form(self, part: Measure) -> ValueError:
        return ValueError(
            f"∫ k dπ has no closed form here for {type(self).__name__} and {type(part).__name__}. "
            "Use RBF with Gaussian, Uniform or mixtures of them, or Empirical(points) with many "
            "points of the measure."
        )


@final
class RBF(SmoothKernel):
    """k(x, z) = exp(−½ Σ (xᵢ − zᵢ)²/ℓᵢ²), for Gaussian and uniform measures, mixtures and data.

    Example:
        >>> from fwnet.quadrature import Gaussian, RBF, quadrature
        >>> rule = quadrature(Gaussian([0.0]), 8, RBF(1.0))
        >>> abs(rule.integrate(lambda x: x[:, 0] ** 2).value - 1) < 0.05
        True
    """

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        scale = self.scales(x.shape[-1]).to(x)
        centre = z.mean(0)  # |x − z|² far from 0 would be rounding
        left, half = _halves((x - centre) / scale)
        right, other = (left, half) if x is z else _halves((z - centre) / scale)
        one, another = torch.ones_like(half), torch.ones_like(other)
        exponents = torch.cat([left, half, one], -1) @ torch.cat([right, another, other], -1).mT
        return exponents.clamp_max_(0.0).exp_()

    def column_maker(self, X: Tensor) -> Callable[[int], Tensor]:
        scaled = X / self.scales(X.shape[-1]).to(X)
        scaled = scaled - scaled.mean(0)
        halves = -0.5 * (scaled * scaled).sum(-1)
        flat = scaled.mT.contiguous().mT  # a product with few long columns, not many short rows

        def make(i: int) -> Tensor:
            exponent = torch.addmv(halves, flat, scaled[i])
            return exponent.add_(halves[i]).clamp_max_(0.0).exp_()

        return make

    def gram(self, x: np.ndarray) -> np.ndarray:
        n, d = x.shape
        left, right = np.ones((2, n, d + 2))  # (u, −|u|²/2, 1) and (u, 1, −|u|²/2)
        left[:, :d] = right[:, :d] = u = (x - x.mean(0)) / self.scales(d).numpy()
        left[:, d] = right[:, d + 1] = -0.5 * np.einsum("ij,ij->i", u, u)
        exponents = left @ right.T
        np.minimum(exponents, 0.0, out=exponents)
        torch.from_numpy(exponents).exp_()  # in a third of NumPy's time
        return exponents

    def pull(self, x: np.ndarray, K: np.ndarray, w: np.ndarray) -> np.ndarray:
        column = w[:, None]
        near = K @ (column * x) - (K @ column) * x
        near *= column * (2.0 / self.scales(x.shape[1]).numpy() ** 2)
        return near

    def _mean(self, x: Tensor, part: Measure) -> Tensor:
        scale = self.scales(part.dim)
        if isinstance(part, Gaussian):
            return _normal(x - part.mean, part.covariance, scale)
        if not isinstance(part, Uniform):
            raise self._no_closed_form(part)
        wide = math.sqrt(2.0) * scale
        edges = torch.erf((part.high - x) / wide) - torch.erf((part.low - x) / wide)
        return (math.sqrt(math.pi / 2) * scale * edges / (part.high - part.low)).prod(-1)

    def mean_maker(self, measure: Measure) -> MeanMaker:
        parts = [part for part in _parts(measure) if isinstance(part, Gaussian)]
        if not parts:
            return super().mean_maker(measure)
        scale = self.scales(measure.dim)
        terms = []
        for share, part in zip(_weights(measure).tolist(), parts, strict=True):
            factor, log_peak = _spread(part.covariance, scale)
            inverse = torch.cholesky_inverse(factor).neg_().numpy()
            terms.append((part.mean.numpy(), inverse, share * math.exp(float(log_peak))))

        def make(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            z, slope = np.zeros(len(x)), np.zeros_like(x)
            for mean, inverse, peak in terms:
                away = x - mean
                force = away @ inverse
                value = peak * np.exp(0.5 * np.einsum("ij,ij->i", away, force))
                z += value
                slope += value[:, None] * force
            return z, slope

        return make

    def _double(self, part: Measure, other: Measure) -> Tensor:
        scale = self.scales(part.dim)
        if isinstance(part, Gaussian) and isinstance(other, Gaussian):
            both = part.covariance + other.covariance
            return _normal((part.mean - other.mean)[None], both, scale)[0]
        if not isinstance(part, Uniform) or not isinstance(other, Uniform):
            raise self._no_closed_form(part)
        return _boxes(part, other, lambda u: _rbf_twice(u, scale))


@final
class Matern32(SmoothKernel):
    """k(x, z) = Π (1 + rᵢ) exp(−rᵢ), rᵢ = √3 |xᵢ − zᵢ|/ℓᵢ, for uniform measures and data.

    Example:
        >>> from fwnet.quadrature import Matern32, Uniform, quadrature
        >>> rule = quadrature(Uniform([0.0], [1.0]), 8, Matern32(0.5))
        >>> abs(rule.integrate(lambda x: x[:, 0] ** 2).value - 1 / 3) < 0.01
        True
    """

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        scale = self.scales(x.shape[-1]).to(x)
        out = x.new_ones(len(x), len(z))
        for k, s in enumerate(scale.unbind()):  # one dimension at a time: (n, m) and no more
            r = (x[:, k, None] - z[:, k]).abs() * (math.sqrt(3.0) / s)
            out = out * (1 + r) * torch.exp(-r)
        return out

    def _mean(self, x: Tensor, part: Measure) -> Tensor:
        if not isinstance(part, Uniform):
            raise self._no_closed_form(part)
        rate = math.sqrt(3.0) / self.scales(part.dim)

        def below(u: Tensor) -> Tensor:  # ∫₀ᵘ (1 + rs) exp(−rs) ds
            return (2.0 - (2.0 + rate * u) * torch.exp(-rate * u)) / rate

        sides = _odd(below, part.high - x) + _odd(below, x - part.low)
        return (sides / (part.high - part.low)).prod(-1)

    def _double(self, part: Measure, other: Measure) -> Tensor:
        if not isinstance(part, Uniform) or not isinstance(other, Uniform):
            raise self._no_closed_form(part)
        rate = math.sqrt(3.0) / self.scales(part.dim)

        def twice(u: Tensor) -> Tensor:  # its second derivative is k
            u = u.abs()
            return (2.0 * u + (3.0 / rate + u) * torch.exp(-rate * u)) / rate

        return _boxes(part, other, twice)


def _halves(u: Tensor) -> tuple[Tensor, Tensor]:
    """u and −|u|²/2, so that (u, −|u|²/2, 1)·(v, 1, −|v|²/2) = −|u − v|²/2."""
    return u, -0.5 * torch.linalg.vecdot(u, u).unsqueeze(-1)


def _normal(away: Tensor, covariance: Tensor, scale: Tensor) -> Tensor:
    """∫ exp(−½|x − z|²/ℓ²) dN(z; m, S) with away = x − m: `(n, d)` -> `(n,)`."""
    factor, log_peak = _spread(covariance, scale)
    whitened = torch.linalg.solve_triangular(factor, away.mT, upper=False)
    return torch.exp(log_peak - 0.5 * (whitened * whitened).sum(0))


def _spread(covariance: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The Cholesky factor of S + diag(ℓ²), and log ∫ k(m, ·) dN(m, S)."""
    factor = torch.linalg.cholesky(covariance + torch.diag(scale * scale))
    return factor, (scale / factor.diagonal()).log_().sum()


def _boxes(part: Uniform, other: Uniform, twice: Any) -> Tensor:
    """∬ k over two boxes from a function whose second derivative is k, for each dimension."""
    a, b, c, d = part.low, part.high, other.low, other.high
    total = twice(b - c) - twice(b - d) - twice(a - c) + twice(a - d)
    return (total / ((b - a) * (d - c))).prod()


def _rbf_twice(u: Tensor, scale: Tensor) -> Tensor:
    v = u / scale
    slope = math.sqrt(math.pi / 2) * v * torch.erf(v / math.sqrt(2.0))
    return scale * scale * (torch.exp(-0.5 * v * v) + slope)


def _odd(function: Any, u: Tensor) -> Tensor:
    """An integral from 0 to u of an even function, from its values for u >= 0."""
    return torch.sign(u) * function(u.abs())


def _parts(measure: Measure) -> list[Measure]:
    return list(measure.parts) if isinstance(measure, MixtureMeasure) else [measure]


def _weights(measure: Measure) -> Tensor:
    if isinstance(measure, MixtureMeasure):
        return measure.weights
    return torch.ones(1, dtype=torch.float64)


def blocked(function: Any, x: Tensor, width: int) -> Tensor:
    """function of the rows of x, a block at a time."""
    return torch.cat([function(some) for some in x.split(max(1, _BLOCK // width))])


def check_kernel(kernel: Any) -> SmoothKernel:
    """Return the kernel; raise a clear error if it is not a SmoothKernel."""
    if not isinstance(kernel, SmoothKernel):
        raise TypeError(
            "kernel must be RBF(...), Matern32(...) or another SmoothKernel, which are positive "
            f"definite; got {kernel!r}."
        )
    return kernel


def check_measure(measure: Any) -> Measure:
    """Return the measure; raise a clear error if it is not a Measure."""
    if not isinstance(measure, Measure):
        raise TypeError(
            "measure must be Gaussian(...), Uniform(...), MixtureMeasure(...) or Empirical(...); "
            f"got {measure!r}."
        )
    checks.at_least("the dimension of measure", measure.dim, 1)
    return measure
