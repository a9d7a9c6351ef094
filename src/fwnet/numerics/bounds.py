"""Valid bounds of extreme singular values and eigenvalues: the basis of certificates.

A pair that Lanczos found bounds σ₁ from below: it may have missed a larger, nearly tied value. Here
it is also bounded from above, by the first of these that the size allows:

    full decomposition     the smaller side is at most 192
    Cholesky               σ₁ < s if s²I − GᵀG has a Cholesky factor, in float64; else the full one
    Lanczos polynomials    of a random start, for matrices known by their products; see `lanczos`

The first two hold up to the rounding of float64, the last with probability 1 − 10⁻⁹.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fwnet.numerics.lanczos import Products, SingularPair, bounded_lanczos
from fwnet.numerics.singular import (
    SMALL,
    WARM_NOISE,
    bottom_eigenpair,
    full_bottom,
    full_pair,
    guess,
    shifted,
    top_singular_pair,
)
from fwnet.numerics.tensors import Cost, ImplicitMatrix, dense_cost, picked

_DENSE = 128  # an implicit matrix with a side up to this is made dense at once

_FACTORED = 4096  # and up to this if the bound by Lanczos is not good enough
_ENTRIES = 1 << 25  # of a matrix that is made dense
_TOL = 1e-11  # relative slack of a bound in float64


class BoundedPair(NamedTuple):
    """A singular pair with sigma <= σ₁ <= upper."""

    pair: SingularPair
    upper: Tensor  # (*batch,) float64


class BoundedEigenpair(NamedTuple):
    """A unit vector v with vᵀSv >= λ_min >= lower."""

    v: Tensor  # (*batch, n)
    lower: Tensor  # (*batch,) float64


def bounded_singular_pair(
    matrix: Cost,  # (*batch, d, m)
    start: Tensor | None = None,  # (*batch, m)
    tol: float | None = None,
    offset: Tensor | None = None,  # (*batch,)
) -> BoundedPair:
    """The top singular pair of G, and an upper bound of σ₁ that holds.

        sigma <= σ₁ <= upper <= (1 + tol) sigma

    Beyond 4096 rows and columns the last inequality may fail: then the bound is wider.

    Arguments:
        start: a guess of v.
        tol: 1e-11 unless given, and no less than the rounding of an implicit matrix.
        offset: where sigma + offset is asked for, an error of 1 % of it is good enough too.
    """
    tol = _TOL if tol is None else max(tol, _TOL)
    if isinstance(matrix, Tensor) or matrix.ndim > 2 or _small(matrix, _DENSE):
        return _bounded_dense(dense_cost(matrix), start, tol)

    def enough(sigma: float, upper: float) -> bool:
        return not upper - sigma > max(loose * sigma, 0.01 * (sigma + added))  # also NaN

    added = -math.inf if offset is None else float(offset)
    loose = max(tol, 16 * torch.finfo(matrix.dtype).eps)
    noise = (1.0 if start is None else WARM_NOISE) / matrix.shape[-1] ** 0.5
    with torch.no_grad():
        first = guess(matrix, start, fresh=True)
        pair, upper, good = bounded_lanczos(Products(matrix), first, noise, enough)
    if not good and _small(matrix, _FACTORED):
        return _bounded_dense(matrix.dense(), pair.v, tol)
    return BoundedPair(pair, upper)


def bounded_eigenpair(matrix: Cost) -> BoundedEigenpair:
    """The bottom eigenvector of S = (C + Cᵀ)/2, and a lower bound of λ_min that holds.

        vᵀSv >= λ_min >= lower >= vᵀSv − 1e-11 · ‖S − λ_min I‖_F

    Cholesky: λ_min > s if S − sI has a factor. Beyond 4096 rows the bound may be wider.
    """
    if isinstance(matrix, ImplicitMatrix) and matrix.ndim == 2 and not _small(matrix, _FACTORED):
        rest, top = shifted(matrix)
        pair, upper = bounded_singular_pair(rest)
        return BoundedEigenpair(pair.v, top.double() - upper)
    whole = dense_cost(matrix).double()
    whole = (whole + whole.mT) / 2
    value, v = bottom_eigenpair(whole)
    rounding = _rounding(whole) * torch.linalg.matrix_norm(whole)
    lower = value - rounding
    if whole.shape[-1] > SMALL:
        lower = value - _TOL * torch.linalg.matrix_norm(_minus(whole, value))
        refuted = ~_positive(_minus(whole, lower))
        if bool(refuted.any()):
            least, exact = full_bottom(whole)
            lower = torch.where(refuted, least - rounding, lower)
            v = torch.where(refuted.unsqueeze(-1), exact, v)
    return BoundedEigenpair(v.to(matrix.dtype), lower)


def _bounded_dense(matrix: Tensor, start: Tensor | None, tol: float) -> BoundedPair:
    dtype, size = matrix.dtype, matrix.detach().double().abs().amax((-2, -1), keepdim=True)
    size = torch.where((size == 0) | ~torch.isfinite(size), 1.0, size)
    whole = matrix.double() / size  # squares stay in range
    tall = whole if whole.shape[-2] >= whole.shape[-1] else whole.mT
    pair = top_singular_pair(whole, None if start is None else start.double(), tol)
    upper = pair.sigma * (1.0 + _rounding(whole))
    if tall.shape[-1] > SMALL:
        upper = pair.sigma * (1.0 + tol)
        refuted = ~_positive(-_minus(tall.mT @ tall, upper.square()))
        if bool(refuted.any()):
            exact = full_pair(whole)
            upper = torch.where(refuted, exact.sigma * (1.0 + _rounding(whole)), upper)
            pair = picked(refuted, exact, pair)
    size = size.squeeze(-1).squeeze(-1)
    found = SingularPair(pair.u.to(dtype), (pair.sigma * size).to(dtype), pair.v.to(dtype))
    return BoundedPair(found, upper * size)


def _rounding(matrix: Tensor) -> float:
    """The relative error of a full decomposition in float64, from the longer side."""
    return 4 * max(matrix.shape[-2:]) * torch.finfo(torch.float64).eps


def _positive(symmetric: Tensor) -> Tensor:
    """Which matrices have a Cholesky factor, `(*batch,)`."""
    return torch.linalg.cholesky_ex(symmetric).info == 0


def _minus(symmetric: Tensor, value: Tensor) -> Tensor:
    """S − value · I."""
    shift = torch.diag_embed(value.unsqueeze(-1).expand(symmetric.shape[:-1]))
    return symmetric - shift


def _small(matrix: Cost, side: int) -> bool:
    return min(matrix.shape[-2:]) <= side and math.prod(matrix.shape) <= _ENTRIES
