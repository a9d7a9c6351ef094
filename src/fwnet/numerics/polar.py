"""U Vᵀ of a matrix by matrix products only; the result never leaves the spectral ball."""

from __future__ import annotations

import math
from functools import lru_cache

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
_ROUNDED_UP = 1.004  # the norm is rounded itself


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
    checks.at_least("orthogonalize(steps=...)", steps, 1)
    wide = matrix.shape[-2] <= matrix.shape[-1]
    x = matrix if matrix.ndim == 2 else matrix.reshape(-1, *matrix.shape[-2:])
    product, update = (torch.mm, torch.addmm) if x.ndim == 2 else (torch.bmm, torch.baddbmm)
    rounding = 4 * math.sqrt(max(matrix.shape[-2:])) * torch.finfo(x.dtype).eps
    end = scale / peak(steps, rounding)
    plain = x.ndim == 2 and is_read(x) and not (torch.is_grad_enabled() and x.requires_grad)
    x = (_first_by_numbers if plain else _first)(x, wide, end if steps == 1 else 1.0)
    for k, (a, b, c) in enumerate(coefficients(steps)[1:], 2):
        gram = product(x, x.mT) if wide else product(x.mT, x)
        inner = update(gram, gram, gram, beta=b, alpha=c)
        left, right = (inner, x) if wide else (x, inner)
        factor = end if k == steps else 1.0
        x = update(x, left, right, beta=a * factor, alpha=factor)
    return x if matrix.ndim == 2 else x.reshape(matrix.shape)


def _first(x: Tensor, wide: bool, factor: float) -> Tensor:
    """The first step, of matrices `(batch, d, m)` or `(d, m)`, times the factor."""
    a, b, c = _POLYNOMIALS[0]
    tiny = torch.finfo(x.dtype).tiny  # instead of 0 / 0
    x = x / x.abs().amax((-2, -1), keepdim=True).clamp_min(tiny)
    gram = x @ x.mT if wide else x.mT @ x  # of entries up to 1, so that squares stay in range
    square = gram @ gram
    size = torch.linalg.vector_norm(square, dim=(-2, -1), keepdim=True).clamp_min(tiny)
    share = (size * _ROUNDED_UP).rsqrt()
    inner = torch.addcmul(gram, square, share, value=c / b) * share
    x = x * share.sqrt()
    left, right = (inner, x) if wide else (x, inner)
    update = torch.addmm if x.ndim == 2 else torch.baddbmm
    return update(x, left, right, beta=a * factor, alpha=b * factor)


def _first_by_numbers(x: Tensor, wide: bool, factor: float) -> Tensor:
    """The same for one matrix whose size may be read: fewer and smaller calls."""
    a, b, c = _POLYNOMIALS[0]
    length = float(torch.linalg.vector_norm(x))
    if not 1e-12 < length < 1e12:  # squares may leave the range of float32
        return _first(x, wide, factor)
    left, right = (x, x.mT) if wide else (x.mT, x)
    gram = torch.addmm(x.new_empty(()), left, right, beta=0.0, alpha=length**-2)
    square = torch.mm(gram, gram)
    share = (_ROUNDED_UP * float(torch.linalg.vector_norm(square))) ** -0.5
    inner = torch.add(gram, square, alpha=c * share / b)
    size = factor * math.sqrt(share) / length
    left, right = (inner, x) if wide else (x, inner)
    return torch.addmm(x, left, right, beta=a * size, alpha=b * share * size)


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
