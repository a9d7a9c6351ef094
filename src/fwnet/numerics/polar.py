"""U Vᵀ of a matrix by matrix products only; the result never leaves the spectral ball."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.numerics.tensors import is_read

# Odd polynomials a s + b s³ + c s⁵, each closest to 1 on the range that the one before leaves; the
# first range is [0.02, 1]. Greedy choices are optimal: Amsel et al., The Polar Express (2025).
_POLYNOMIALS = (
    (7.710970, -22.113756, 16.248744),
    (3.215276, -2.411172, 0.501300),
    (2.218308, -1.593990, 0.410748),
    (1.884209, -1.260195, 0.376021),
)
_LAST = (1.875, -1.25, 0.375)  # converges from there on
ROUNDED_UP = 1.004  # the norm is rounded itself
_LEAST, _MOST = 1e-6, 1e6  # lengths whose fourth powers are far from the ends of float32
_ALIKE = 1e-2  # lengths in one batch that one number scales; their eighth powers are in range


def orthogonalize(matrix: Tensor, steps: int = 4, scale: float = 1.0) -> Tensor:
    """Nearly scale · U Vᵀ for G = U S Vᵀ, with a spectral norm of at most |scale|.

        X <- G / ‖(G Gᵀ)²‖_F^¼;   X <- (a I + b A + c A²) X, A = X Xᵀ, `steps` times;   X / peak

    All singular values of the first X are at most 1; `peak` is the most that the polynomials make
    of a number in [0, 1], so no singular value passes 1. Those of G above a fiftieth of
    ‖(G Gᵀ)²‖_F^¼ end above 0.82 after three steps and above 0.998 after four; for k singular
    values, that is at most k^⅛ times the largest one. A zero matrix gives 0.

    Arguments:
        matrix: `(*batch, d, m)`.
        steps: three products of matrices each, at least 1.
        scale: a factor of the result, free of charge.
    """
    end = scale / peak_of(steps, max(matrix.shape[-2:]), matrix.dtype)
    wide = matrix.shape[-2] <= matrix.shape[-1]
    x = matrix if matrix.ndim == 2 else matrix.reshape(-1, *matrix.shape[-2:])
    product, update = _products(x)
    plain = is_read(x) and not (torch.is_grad_enabled() and x.requires_grad)
    plain = plain and x.dtype.itemsize > 2  # float16 has too small a range
    first = _first_by_numbers if plain and x.ndim == 2 else _first
    x = first(x, wide, end if steps == 1 else 1.0, plain)
    for k, (a, b, c) in enumerate(coefficients(steps)[1:], 2):
        gram = product(x, x.mT) if wide else product(x.mT, x)
        inner = update(gram, gram, gram, beta=b, alpha=c)
        left, right = (inner, x) if wide else (x, inner)
        factor = end if k == steps else 1.0
        x = update(x, left, right, beta=a * factor, alpha=factor)
    return x if matrix.ndim == 2 else x.reshape(matrix.shape)


def _first(x: Tensor, wide: bool, factor: float, plain: bool) -> Tensor:
    """The first step, of matrices `(batch, d, m)` or `(d, m)`, times the factor."""
    a, b, c = _POLYNOMIALS[0]
    tiny = torch.finfo(x.dtype).tiny  # instead of 0 / 0
    length = _common_length(x) if plain else None
    if length is None:
        largest = x.abs().amax((-2, -1), keepdim=True)  # may be below tiny
        x, length = x / torch.where(largest == 0, 1.0, largest), 1.0
    product, update = _products(x)
    gram = product(x, x.mT) if wide else product(x.mT, x)
    square = update(gram, gram, gram, beta=0.0, alpha=length**-4)
    size = torch.linalg.vector_norm(square, dim=(-2, -1), keepdim=True).clamp_min(tiny)
    share = (size * ROUNDED_UP).rsqrt()
    inner = torch.addcmul(gram, square, share, value=c / b * length**2) * share
    x = x * share.sqrt()
    left, right = (inner, x) if wide else (x, inner)
    return update(x, left, right, beta=a * factor / length, alpha=b * factor / length**3)


def _common_length(x: Tensor) -> float | None:
    """The largest length of the matrices; None if it or a smaller one needs its own scale."""
    lengths: list[float] = torch.linalg.vector_norm(x, dim=(-2, -1)).flatten().tolist()
    largest = max(lengths, default=0.0)
    alike = _LEAST < largest < _MOST and min(lengths) > _ALIKE * largest
    return largest if alike else None


def _first_by_numbers(x: Tensor, wide: bool, factor: float, plain: bool) -> Tensor:
    """The same for one matrix whose size may be read: fewer and smaller calls."""
    a, b, c = _POLYNOMIALS[0]
    length = torch.linalg.vector_norm(x).item()
    if not _LEAST < length < _MOST:
        return _first(x, wide, factor, plain)
    gram = torch.mm(x, x.mT) if wide else torch.mm(x.mT, x)
    square = torch.addmm(gram, gram, gram, beta=0.0, alpha=length**-4)
    share = (ROUNDED_UP * torch.linalg.vector_norm(square).item()) ** -0.5
    inner = gram.add_(square, alpha=c / b * share * length**2)
    size = factor * math.sqrt(share) / length
    left, right = (inner, x) if wide else (x, inner)
    return torch.addmm(x, left, right, beta=a * size, alpha=b * share * size / length**2)


def _products(x: Tensor) -> tuple[Any, Any]:
    """A B and β C + α A B, of matrices or of batches."""
    return (torch.mm, torch.addmm) if x.ndim == 2 else (torch.bmm, torch.baddbmm)


def coefficients(steps: int) -> tuple[tuple[float, float, float], ...]:
    """(a, b, c) of each step."""
    return _POLYNOMIALS[:steps] + (_LAST,) * (steps - len(_POLYNOMIALS))


@lru_cache
def peak(steps: int, rounding: float = 0.0) -> float:
    """The largest value of the composed polynomials on [0, 1], each rounded up by that share.

    The largest of one on [0, top] is at top, or where a + 3b s² + 5c s⁴ = 0.
    """
    top = 1.0
    for a, b, c in coefficients(steps):
        root = 9 * b * b - 20 * a * c
        squares = [(-3 * b + sign * math.sqrt(max(root, 0.0))) / (10 * c) for sign in (-1, 1)]
        places = [top, *(math.sqrt(s) for s in squares if 0 < s < top * top)]
        top = max(a * s + b * s**3 + c * s**5 for s in places) * (1 + rounding)
    return top


@lru_cache
def peak_of(steps: int, side: int, dtype: torch.dtype) -> float:
    """`peak`, if products of matrices with that many rows or columns round to the dtype."""
    checks.at_least("orthogonalize(steps=...)", steps, 1)
    return peak(steps, 4 * math.sqrt(side) * torch.finfo(dtype).eps)
