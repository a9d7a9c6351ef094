"""QuadraticFamily and LeastSquaresFamily."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain, L1Ball, Simplex
from fwnet.learned.families.base import ProblemFamily
from fwnet.learned.ranges import LogUniform, check_limits, sample_size
from fwnet.numerics import checks
from fwnet.problems import LeastSquares, Problem, Quadratic

_EIGENVALUES = LogUniform(1e-3, 1.0)
_SIMPLEX = Simplex()


@final
class QuadraticFamily(ProblemFamily):
    """Random quadratics with a given spectrum.

        f(x) = ½ (x − p)ᵀK (x − p) + constant,   K = U diag(spectrum) Uᵀ

    with a random rotation U and a target p, a sparse point of the domain pushed outside of it, so
    that the minimum lies on a face.

    Arguments:
        n: size, log-uniform between two limits, or one number; ignored if the spectrum is given
            number by number.
        spectrum: distribution of the eigenvalues, or the eigenvalues `(n,)`, at least 0.
        domain: Simplex or L1Ball.
        push: how far outside p lies, in units of the radius.
        dtype: of the problems.

    Example:
        >>> from fwnet.learned import families
        >>> families.QuadraticFamily(n=8).sample(3, torch.Generator().manual_seed(0))
        Quadratic(shape=(3, 8), dtype=torch.float32)
    """

    def __init__(
        self,
        n: tuple[int, int] | int = (64, 512),
        spectrum: LogUniform | Tensor = _EIGENVALUES,
        *,
        domain: Simplex | L1Ball = _SIMPLEX,
        push: float = 0.5,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if isinstance(spectrum, Tensor):
            checks.real_tensor("QuadraticFamily(spectrum=...)", spectrum)
            if spectrum.ndim != 1 or bool((spectrum < 0).any()):
                raise ValueError(
                    "QuadraticFamily(spectrum=...) must be (n,), no eigenvalue below 0; "
                    f"got shape {tuple(spectrum.shape)}, smallest {spectrum.min().item():.3g}."
                )
            n = len(spectrum)
        check_limits("QuadraticFamily(n=...)", n, 2)
        self.n, self.spectrum = n, spectrum
        self.domain: Simplex | L1Ball = _simplex_or_l1(domain)
        self.push = checks.non_negative("QuadraticFamily(push=...)", push)
        self.dtype = dtype

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        checks.at_least("batch", batch, 1)
        n = sample_size(self.n, generator)
        normal = torch.randn(batch, n, n, generator=generator, dtype=torch.float64)
        U = torch.linalg.qr(normal).Q
        if isinstance(self.spectrum, LogUniform):
            values = self.spectrum.sample(batch * n, generator).reshape(batch, n)
        else:
            values = self.spectrum.double().expand(batch, n)
        K = (U * values.unsqueeze(-2)) @ U.mT
        K = (K + K.mT) / 2
        target = sparse_point(self.domain, batch, n, generator)
        away = torch.randn(batch, n, generator=generator, dtype=torch.float64)
        length = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        target = target + self.push * self.domain.radius * away / length
        c = -(K @ target.unsqueeze(-1)).squeeze(-1)
        return Quadratic(K.to(self.dtype), c.to(self.dtype))


@final
class LeastSquaresFamily(ProblemFamily):
    """Least squares with a sparse truth.

        f(x) = ½ ‖Ax − b‖²,   A_ij ~ N(0, 1/m),   b = Ap + noise · N(0, 1)/√m · ‖Ap‖

    Arguments:
        n: columns of A, log-uniform between two limits, or one number.
        rows: m as a multiple of n.
        noise: relative size of the noise.
        domain: Simplex or L1Ball; p is a sparse point of it.
        dtype: of the problems.

    Example:
        >>> from fwnet.learned import families
        >>> families.LeastSquaresFamily(n=8).sample(3, torch.Generator().manual_seed(0))
        LeastSquares(shape=(3, 8), dtype=torch.float32)
    """

    def __init__(
        self,
        n: tuple[int, int] | int = (64, 512),
        rows: float = 0.5,
        noise: float = 0.1,
        *,
        domain: Simplex | L1Ball = _SIMPLEX,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_limits("LeastSquaresFamily(n=...)", n, 2)
        self.n = n
        self.domain: Simplex | L1Ball = _simplex_or_l1(domain)
        self.rows = checks.positive("LeastSquaresFamily(rows=...)", rows)
        self.noise = checks.non_negative("LeastSquaresFamily(noise=...)", noise)
        self.dtype = dtype

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        checks.at_least("batch", batch, 1)
        n = sample_size(self.n, generator)
        m = max(1, round(self.rows * n))
        A = torch.randn(batch, m, n, generator=generator, dtype=torch.float64) / m**0.5
        image = (A @ sparse_point(self.domain, batch, n, generator).unsqueeze(-1)).squeeze(-1)
        noise = torch.randn(batch, m, generator=generator, dtype=torch.float64) / m**0.5
        b = image + self.noise * torch.linalg.vector_norm(image, dim=-1, keepdim=True) * noise
        return LeastSquares(A.to(self.dtype), b.to(self.dtype))


def sparse_point(
    domain: Simplex | L1Ball, batch: int, n: int, generator: torch.Generator
) -> Tensor:  # (batch, n)
    """Points of the boundary with about a tenth of their coordinates in use."""
    used = max(1, n // 10)
    chosen = torch.rand(batch, n, generator=generator).topk(used, -1).indices
    weights = (
        -torch.rand(batch, used, generator=generator, dtype=torch.float64).clamp_min(1e-9).log()
    )
    weights = weights / weights.sum(-1, keepdim=True)
    if isinstance(domain, L1Ball):
        signs = torch.randint(0, 2, weights.shape, generator=generator)
        weights = weights * (2 * signs - 1)
    return domain.radius * weights.new_zeros(batch, n).scatter(-1, chosen, weights)


def _simplex_or_l1(domain: Domain) -> Simplex | L1Ball:
    if not isinstance(domain, Simplex | L1Ball):
        raise TypeError(f"domain must be Simplex(...) or L1Ball(...); got {domain!r}.")
    return domain
