"""U Vᵀ of a matrix by products alone, never outside of the spectral ball."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from fwnet.numerics import checks

# Odd polynomials a s + b s³ + c s⁵, each closest to 1 on the range that the one before leaves; the
# first range is [0.01, 1]. Greedy choices are optimal: Amsel et al., The Polar Express (2025).
_POLYNOMIALS = (
    (8.093369, -23.620432, 17.446152),
    (3.636586, -2.721927, 0.536546),
    (2.661300, -1.977155, 0.452616),
    (1.956172, -1.337508, 0.383853),
    (1.875191, -1.250234, 0.375042),
)
_LAST = (1.875, -1.25, 0.375)  # converges from there on


def orthogonalize(matrix: Tensor, steps: int = 4) -> Tensor:
    """Nearly U Vᵀ for G = U S Vᵀ, with a spectral norm of at most 1.

        X <- G / sqrt(‖G Gᵀ‖_F);   X <- (a I + b A + c A²) X, A = X Xᵀ, `steps` times;   X / peak

    All singular values of the first X are at most 1; `peak` is the most that the polynomials make
    of a number in [0, 1], so no singular value passes 1. Those of G above a hundredth of
    sqrt(‖G Gᵀ‖_F) end above 0.97 after four steps, and at 1 after five. A zero matrix gives 0.

    Arguments:
        matrix: `(*batch, d, m)`.
        steps: three products of matrices each, at least 1.
    """
    checks.at_least("orthogonalize(steps=...)", steps, 1)
    if matrix.shape[-2] > matrix.shape[-1]:
        return orthogonalize(matrix.mT, steps).mT
    x = matrix.reshape(-1, *matrix.shape[-2:])
    tiny = torch.finfo(x.dtype).tiny  # instead of 0 / 0
    x = x / x.abs().amax((-2, -1), keepdim=True).clamp_min(tiny)  # squares stay in range
    gram = x @ x.mT
    square = torch.linalg.matrix_norm(gram, keepdim=True) * 1.002  # it is rounded itself
    square = square.clamp_min(tiny)
    x, gram = x / square.sqrt(), gram / square
    for k, (a, b, c) in enumerate(coefficients(steps)):
        gram = gram if k == 0 else x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    rounding = 4 * math.sqrt(matrix.shape[-1]) * torch.finfo(matrix.dtype).eps
    return (x / peak(steps, rounding)).reshape(matrix.shape)


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
