"""Balls of matrices: trace, spectral, Schatten and row norms, and the spectraplex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.domains.base import Domain, NormBall, check_exponent, settle_radius, slack
from fwnet.domains.norm_balls import L1Ball, L2Ball, at_most_one, lp_norm
from fwnet.domains.simplex import Simplex
from fwnet.numerics.bounds import bounded_eigenpair, bounded_singular_pair
from fwnet.numerics.singular import bottom_eigenpair, top_singular_pair
from fwnet.numerics.tensors import Cost, dense_cost, norm, unit
from fwnet.vertices import Dense, Rank1, Vertex


@final
@dataclass(frozen=True)
class TraceNormBall(NormBall):
    """Ball of the trace norm (nuclear norm): convex relaxation of low rank.

        {X : Σ singular values of X <= radius}

    The vertices are radius · u vᵀ with unit vectors u, v; lmo(C) = −radius · u₁v₁ᵀ for the top
    singular vectors of C.

    Example:
        >>> cost = torch.tensor([[1.0, 0.0], [0.0, -3.0]])
        >>> TraceNormBall(2.0).lmo(cost).dense().round(decimals=3)
        tensor([[-0., -0.],
                [0., 2.]])
    """

    radius: float = 1.0
    event_dim: ClassVar[int] = 2

    def vertex(self, cost: Cost) -> Vertex:
        u, _, v = top_singular_pair(cost)
        return Rank1(-self.radius * u, v)

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """−radius · u vᵀ, and −radius · (an upper bound on σ₁); see `bounded_singular_pair`."""
        offset = None if along is None else along.double() / self.radius
        (u, _, v), upper = bounded_singular_pair(cost, offset=offset)
        return Rank1(-self.radius * u, v), -self.radius * upper

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        limit = self.radius + slack(x, tol, self.radius)
        size = torch.linalg.matrix_norm(x) * math.sqrt(min(x.shape[-2:]))  # an upper bound on ‖x‖_*
        if not torch.compiler.is_compiling() and bool((size <= limit).all()):
            return size <= limit  # no decomposition needed, for instance at the start, 0
        # In float32 a matrix of rank 1 has many singular values of 1e-7, which add up.
        return self.norm(x.double()) <= limit

    def norm(self, x: Tensor) -> Tensor:
        total: Tensor = torch.linalg.svdvals(x).sum(-1)
        return total

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """X = Σ (s_i / radius) · (radius u_i v_iᵀ), its singular value decomposition.

        The remaining weight 1 − Σ w_i is split between ±u_1 v_1ᵀ, which cancel.
        """
        u, s, vh = _svd(x)
        rank = _rank(s)
        u, v = u[..., :rank].mT, vh[..., :rank, :]
        weights = at_most_one(s[..., :rank] / self.radius)
        missing = (1.0 - weights.sum(-1, keepdim=True)).clamp_min(0)
        if bool((missing > max(x.shape[-2:]) * torch.finfo(x.dtype).eps).any()):
            first = weights[..., :1] + missing / 2
            weights = torch.cat([first, weights[..., 1:], missing / 2], -1)
            u, v = torch.cat([u, -u[..., :1, :]], -2), torch.cat([v, v[..., :1, :]], -2)
        return Rank1(self.radius * u, v), weights

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: that of the singular values on the l1 ball."""
        u, s, vh = _svd(x)
        near = (u * L1Ball(self.radius).project(s).unsqueeze(-2)) @ vh
        return torch.where((s.sum(-1) <= self.radius)[..., None, None], x, near)


@final
@dataclass(frozen=True)
class SpectralBall(NormBall):
    """Ball of the spectral norm.

        {X : largest singular value of X <= radius}

    lmo(C) = −radius · U Vᵀ with C = U S Vᵀ.

    Example:
        >>> cost = torch.tensor([[1.0, 0.0], [0.0, -3.0]])
        >>> SpectralBall(2.0).lmo(cost).dense().round(decimals=3)
        tensor([[-2., -0.],
                [-0.,  2.]])
    """

    radius: float = 1.0
    event_dim: ClassVar[int] = 2

    def vertex(self, cost: Cost) -> Vertex:
        u, _, vh = _svd(dense_cost(cost).nan_to_num())
        return Dense(-self.radius * (u @ vh), 2)

    def norm(self, x: Tensor) -> Tensor:
        largest: Tensor = torch.linalg.svdvals(x)[..., 0]
        return largest

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.sqrt(min(shape[-2:]))

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: the singular values clipped."""
        u, s, vh = _svd(x)
        return (u * s.clamp_max(self.radius).unsqueeze(-2)) @ vh


@final
@dataclass(frozen=True)
class SchattenBall(NormBall):
    """Ball of the Schatten norm, the lp norm of the singular values, 1 < p < ∞.

        {X : (Σ σ_i(X)^p)^(1/p) <= radius}

    lmo(C) = −radius · U diag(w / |w|_p) Vᵀ with C = U S Vᵀ and w_i = s_i^(1/(p−1)). Between the
    trace norm (p = 1) and the spectral norm (p = ∞); p = 2 is the Frobenius norm. A p near 1 gives
    vertices of nearly low rank, and f moves in all directions at once.

    Example:
        >>> ball = SchattenBall(2.0, radius=5.0)
        >>> ball.lmo(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).dense().round(decimals=3)
        tensor([[-3.,  0.],
                [ 0., -4.]])

    Reference: Jaggi (2013), section 3.
    """

    p: float
    radius: float = 1.0
    event_dim: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exponent(self, {1: "TraceNormBall", math.inf: "SpectralBall"})

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost).nan_to_num()
        u, s, vh = _svd(cost / _scale_of(cost))
        seen = s.detach() > _noise(s.detach())  # a power of 0 may have an infinite derivative
        seen[..., 0] = True
        largest = s.detach()[..., :1]
        scaled = torch.where(seen & (largest > 0), s / torch.where(largest > 0, largest, 1.0), 1.0)
        w = torch.where(seen, scaled ** (1 / (self.p - 1)), 0.0)
        values = self.radius * w / lp_norm(w, self.p).unsqueeze(-1)
        return Dense(-(u * values.unsqueeze(-2)) @ vh, 2)

    def norm(self, x: Tensor) -> Tensor:
        return lp_norm(torch.linalg.svdvals(x), self.p)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.pow(min(shape[-2:]), max(0.0, 1 / 2 - 1 / self.p))


@final
@dataclass(frozen=True)
class RowBall(NormBall):
    """Matrices with short rows: a bound on each output of a linear layer.

        {X : every row |x_i|₂ <= radius}

    lmo(C) = −radius · c_i / |c_i|, row by row.

    Example:
        >>> RowBall(1.0).lmo(torch.tensor([[3.0, 4.0], [0.0, -2.0]])).dense()
        tensor([[-0.6000, -0.8000],
                [-0.0000,  1.0000]])
    """

    radius: float = 1.0
    event_dim: ClassVar[int] = 2

    def vertex(self, cost: Cost) -> Vertex:
        return Dense(-self.radius * unit(dense_cost(cost)), 2)

    def norm(self, x: Tensor) -> Tensor:
        return norm(x).amax(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2.0 * self.radius * math.sqrt(shape[-2])

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: rows that are too long, scaled back."""
        return L2Ball(self.radius).project(x)


@final
@dataclass(frozen=True)
class Spectraplex(Domain):
    """Spectraplex: the simplex of symmetric matrices.

        {X : X positive semidefinite, trace X = radius}

    The vertices are radius · v vᵀ, |v| = 1. A cost C counts as (C + Cᵀ)/2; the best v is the
    eigenvector of its smallest eigenvalue.

    Example:
        >>> cost = torch.tensor([[1.0, 0.0], [0.0, -3.0]])
        >>> Spectraplex().lmo(cost).dense().round(decimals=3)
        tensor([[0., 0.],
                [0., 1.]])
    """

    radius: float = 1.0
    event_dim: ClassVar[int] = 2

    def __post_init__(self) -> None:
        settle_radius(self)

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        self.check_kind("square matrices", shape[-1] == shape[-2], name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        _, v = bottom_eigenpair(cost)
        return Rank1(self.radius * v, v)

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """radius · v vᵀ, and radius · (a lower bound on λ_min); see `bounded_eigenpair`."""
        v, lower = bounded_eigenpair(cost)
        return Rank1(self.radius * v, v), self.radius * lower

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self.radius)
        symmetric = (x - x.mT).abs().amax((-2, -1)) <= tol
        trace = x.diagonal(dim1=-2, dim2=-1).sum(-1)
        smallest: Tensor = torch.linalg.eigvalsh((x + x.mT) / 2)[..., 0]
        return symmetric & (smallest >= -tol) & ((trace - self.radius).abs() <= tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return self.radius * 2**0.5 if shape[-1] > 1 else 0.0

    def _start(self, zeros: Tensor) -> Tensor:
        """The barycentre, radius/n · I."""
        zeros.diagonal(dim1=-2, dim2=-1).fill_(self.radius / zeros.shape[-1])
        return zeros

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """X = Σ (l_i / radius) · (radius v_i v_iᵀ), its eigenvalue decomposition."""
        values, vectors = _eigh(x)
        values, vectors = values.flip(-1).clamp_min(0), vectors.flip(-1)
        rank = _rank(values)
        v = vectors[..., :rank].mT
        weights = values[..., :rank]
        return Rank1(self.radius * v, v), weights / weights.sum(-1, keepdim=True)

    def project(self, x: Tensor) -> Tensor:
        """Euclidean projection: that of the eigenvalues on the simplex."""
        values, vectors = _eigh(x)
        return (vectors * Simplex(self.radius).project(values).unsqueeze(-2)) @ vectors.mT


def _svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The thin decomposition, with derivatives that stay finite if x is rank-deficient.

        dU = U (F ∘ (dP S + S dPᵀ)) + (I − UUᵀ) dX V S⁻¹,   dP = Uᵀ dX V,   F_ij = 1/(s_j² − s_i²)

    and V likewise with dPᵀ; F and S⁻¹ are 0 where they would divide by 0: tied singular vectors
    are not functions of x, only their span is.
    """
    if not (torch.is_grad_enabled() and x.requires_grad):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        return u, s, vh
    scale = _scale_of(x)  # so squares stay in range
    u, s, vh = _unit_svd(x / scale)
    return u, s * scale.squeeze(-1), vh


def _scale_of(x: Tensor) -> Tensor:
    """A power of two `(*batch, 1, 1)` near the largest entry, 1 if x is 0."""
    size = x.detach().abs().amax((-2, -1), keepdim=True)
    return torch.where(size > 0, size.log2().floor().exp2(), 1.0)


def _unit_svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    if _apart(s.detach(), s.detach()[..., -1:]):
        return u, s, vh
    u, s, v = u.detach(), s.detach(), vh.detach().mT
    change = x - x.detach()
    seen = s > _noise(s)
    inverse = (seen / torch.where(seen, s, 1.0)).unsqueeze(-2)
    inside = u.mT @ change @ v
    rows, columns, factor = s.unsqueeze(-1), s.unsqueeze(-2), _reciprocal_differences(s.square())
    left = u @ (factor * (inside * columns + rows * inside.mT))
    right = v @ (factor * (rows * inside + inside.mT * columns))
    left = left + (change @ v - u @ inside) * inverse
    right = right + (change.mT @ u - v @ inside.mT) * inverse
    return u + left, s + inside.diagonal(dim1=-2, dim2=-1), (v + right).mT


def _eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """The decomposition of (x + xᵀ)/2, with derivatives as in `_svd`."""
    symmetric = (x + x.mT) / 2
    values, vectors = torch.linalg.eigh(symmetric)
    if not vectors.requires_grad or _apart(values.detach()):
        return values, vectors
    values, vectors = values.detach(), vectors.detach()
    inside = vectors.mT @ (symmetric - symmetric.detach()) @ vectors
    turned = vectors + vectors @ (_reciprocal_differences(values) * inside)
    return values + inside.diagonal(dim1=-2, dim2=-1), turned


def _apart(values: Tensor, *more: Tensor) -> bool:
    """Whether the sorted values, and `more` from 0, differ by more than rounding."""
    gaps = torch.cat([values.diff(dim=-1), *more], -1).abs()
    return bool((gaps > _noise(values)).all())


def _reciprocal_differences(values: Tensor) -> Tensor:
    """1 / (values_j − values_i), 0 where they are tied: `(*batch, r, r)`."""
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    tied = apart.abs() <= _noise(values).unsqueeze(-1)
    return torch.where(tied, 0.0, 1 / torch.where(tied, 1.0, apart))


def _noise(values: Tensor) -> Tensor:
    """Rounding error of the largest of `(*batch, r)`."""
    size = values.abs().amax(-1, keepdim=True)
    return size * (4 * values.shape[-1] * torch.finfo(values.dtype).eps)


def _rank(values: Tensor) -> int:
    """The largest numerical rank in a batch of sorted singular values `(*batch, r)`, at least 1."""
    noise = values[..., :1] * (values.shape[-1] * torch.finfo(values.dtype).eps)
    return max(1, int((values > noise).sum(-1).max()))
