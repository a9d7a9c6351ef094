"""Extreme singular and eigenvectors of a matrix: what the matrix balls ask for."""

from __future__ import annotations

import math
import zlib
from functools import lru_cache

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.numerics.lanczos import Products, SingularPair, lanczos
from fwnet.numerics.tensors import Cost, ImplicitMatrix, dense_cost, norm, unit

SMALL = 192  # a dense matrix with a side up to this is decomposed in full
_SMALL_IMPLICIT = 16  # for an implicit one that means this many columns of products
WARM_NOISE = 0.3  # added to a guess, relative to its norm


def top_singular_pair(
    matrix: Cost,  # (*batch, d, m)
    start: Tensor | None = None,  # (*batch, m)
    tol: float | None = None,
) -> SingularPair:
    """Largest singular value and its vectors.

        sigma = max over |u| = |v| = 1 of uᵀ G v

    A small matrix, or one with gradients, is decomposed in full (the gradients are right where
    sigma is simple); another large or implicit one is asked by Golub-Kahan-Lanczos.
    A zero matrix has sigma 0 and some unit vectors.

    Arguments:
        start: a guess of v, as from the last call; Lanczos adds noise to it, since a guess that
            is an exact singular vector would hide all larger ones.
        tol: residual relative to sigma; 1e-11 for float64, 1e-6 for float32 unless given. The error
            of sigma is at most that, but Lanczos may miss a larger value to which the start is
            nearly orthogonal: one that is larger by a share δ, for one start in δ / tol. `bounds`
            misses none.
    """
    d, m = matrix.shape[-2:]
    if isinstance(matrix, ImplicitMatrix):
        if min(d, m) <= _SMALL_IMPLICIT or _has_gradient(matrix):
            return full_pair(matrix.dense())
    elif min(d, m) <= SMALL or _has_gradient(matrix):
        return full_pair(matrix)
    tol = tol if tol is not None else 1e-11 if matrix.dtype == torch.float64 else 1e-6
    # some min(d, m) / 4 steps cost as much as a full decomposition
    max_restarts = 1 + min(d, m) // 256 if isinstance(matrix, Tensor) else 40
    with torch.no_grad():
        pair, accurate = lanczos(Products(matrix), guess(matrix, start), tol, max_restarts)
    if not accurate and isinstance(matrix, Tensor):
        return full_pair(matrix)
    return pair


def bottom_eigenpair(
    matrix: Cost,  # (*batch, n, n)
    start: Tensor | None = None,  # (*batch, n)
    tol: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Smallest eigenvalue `(*batch,)` of S = (C + Cᵀ)/2 and its vector `(*batch, n)`.

        value = min over |v| = 1 of vᵀ C v

    Large matrices: the top singular pair of `shifted(S)`, whose largest eigenvalue that is.
    """
    n = matrix.shape[-1]
    small = SMALL if isinstance(matrix, Tensor) else _SMALL_IMPLICIT
    if n <= small or _has_gradient(matrix):
        return full_bottom(dense_cost(matrix))
    v = top_singular_pair(shifted(matrix)[0], start, tol).v
    return (Products(matrix).matvec(v) * v).sum(-1), v


def shifted(matrix: Cost) -> tuple[Cost, Tensor]:
    """A = top · I − S for S = (C + Cᵀ)/2, and top `(*batch,)`; A's top eigenvalue is its norm.

        top = μ + |S − μI|,   μ = zᵀSz / zᵀz for some z

    μ lies between the extreme eigenvalues of S. So the eigenvalues of S − μI that are furthest
    from 0 on both sides decide, however large μ is, and any estimate of |S − μI| above its half
    will do.
    """
    products = Products(matrix)
    z = guess(matrix, None)
    middle = (products.matvec(z) * z).sum(-1) / z.square().sum(-1)
    if isinstance(matrix, Tensor):
        eye = torch.eye(matrix.shape[-1]).to(matrix)
        centred = (matrix + matrix.mT) / 2 - middle[..., None, None] * eye
        size = top_singular_pair(centred, tol=1e-2).sigma
        return size[..., None, None] * eye - centred, middle + size

    def times(v: Tensor) -> Tensor:
        flat = v if v.ndim == 1 else v.squeeze(-1)
        image = (products.matvec(flat) + products.rmatvec(flat)) / 2 - middle[..., None] * flat
        return image if v.ndim == 1 else image.unsqueeze(-1)

    def rest(v: Tensor) -> Tensor:
        return (size if v.ndim == 1 else size[..., None, None]) * v - times(v)

    def dense() -> Tensor:
        whole = matrix.dense()
        eye = torch.eye(whole.shape[-1]).to(whole)
        return (middle + size)[..., None, None] * eye - (whole + whole.mT) / 2

    kind = (dense, matrix.dtype, matrix.device)
    size = top_singular_pair(ImplicitMatrix(matrix.shape, times, times, *kind), tol=1e-2).sigma
    return ImplicitMatrix(matrix.shape, rest, rest, *kind), middle + size


def power_iteration(matrix: Cost, v: Tensor, steps: int) -> SingularPair:
    """`steps` rounds of power iteration on GᵀG, differentiable in the matrix and in v.

        u = G v / |G v|,   v = Gᵀu / |Gᵀu|,   sigma = uᵀ G v = |Gᵀu|

    sigma is a lower bound of the largest singular value.

    Arguments:
        v: `(*batch, m)`, the start; its scale is free.
        steps: at least 1.
    """
    checks.at_least("power_iteration(steps=...)", steps, 1)
    products = Products(matrix)
    for _ in range(steps):
        u = unit(products.matvec(v))
        image = products.rmatvec(u)
        v = unit(image)
    return SingularPair(u, norm(image), v)


def _has_gradient(matrix: Cost) -> bool:
    """Whether autograd follows the matrix; an implicit one shows it in its products."""
    if not torch.is_grad_enabled():
        return False
    if isinstance(matrix, Tensor):
        return matrix.requires_grad
    probe = torch.ones(*matrix.shape[:-2], matrix.shape[-1], dtype=matrix.dtype)
    return matrix.matvec(probe.to(matrix.device)).requires_grad


def guess(matrix: Cost, start: Tensor | None) -> Tensor:
    """The start of Lanczos: Gaussian noise of norm about 1, or `start` with some of it.

    The noise depends on the matrix, so that no matrix has all its large singular vectors
    orthogonal to it but by chance; the same matrix gets the same noise, in a batch or not.
    """
    *batch, _, m = matrix.shape
    probe = _gaussian(m, 2016).to(matrix.device, matrix.dtype).expand(*batch, m)
    image = Products(matrix).matvec(probe).detach().cpu().reshape(math.prod(batch), -1)
    size = image.abs().amax(-1, keepdim=True)
    digits = (image / torch.where(size == 0, 1.0, size) * 100).nan_to_num().round()  # no rounding
    seeds = [zlib.crc32(row.numpy().tobytes()) for row in digits.to(torch.int8)]
    noise = torch.stack([_gaussian(m, seed) for seed in seeds]) / m**0.5
    noise = noise.to(matrix.device, matrix.dtype).reshape(*batch, m)
    return noise if start is None else unit(start.detach()) + WARM_NOISE * noise


@lru_cache(maxsize=16)
def _gaussian(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, dtype=torch.float64, generator=generator)


def full_pair(matrix: Tensor) -> SingularPair:
    """The pair from the eigenvectors of GᵀG, G tall."""
    if matrix.shape[-2] < matrix.shape[-1]:
        v, sigma, u = full_pair(matrix.mT)
        return SingularPair(u, sigma, v)
    scale = matrix.detach().abs().amax((-2, -1), keepdim=True)
    scaled = matrix / torch.where(scale == 0, 1.0, scale)
    values, vectors = _eigh((scaled.mT @ scaled).detach())  # NaN flows on through u and sigma
    v = vectors[..., -1]
    if scaled.requires_grad:
        square = scaled.mT @ (scaled @ v.unsqueeze(-1))
        v = _with_gradient(values, vectors, -1, square)
    image = (scaled @ v.unsqueeze(-1)).squeeze(-1)
    sigma = norm(image) * scale.squeeze(-1).squeeze(-1)
    return SingularPair(unit(image), sigma, v)


def full_bottom(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest eigenvalue of (C + Cᵀ)/2 and its vector, by a full decomposition."""
    symmetric = (matrix + matrix.mT) / 2
    values, vectors = _eigh(symmetric.detach())
    v = vectors[..., 0]
    image = symmetric @ v.unsqueeze(-1)
    if symmetric.requires_grad:
        v = _with_gradient(values, vectors, 0, image)
    return ((symmetric @ v.unsqueeze(-1)).squeeze(-1) * v).sum(-1), v


def _eigh(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and vectors; NaN counts as 0.

    Entries below ε² of the largest count as 0 too, which is far below the rounding of the others:
    LAPACK does not converge where its products of tiny entries underflow.
    """
    known = symmetric.nan_to_num()
    size = known.abs()
    least = torch.finfo(known.dtype).eps ** 2 * size.amax((-2, -1), keepdim=True)
    values, vectors = torch.linalg.eigh(torch.where(size < least, 0.0, known))
    return values, vectors


def _with_gradient(values: Tensor, vectors: Tensor, which: int, image: Tensor) -> Tensor:
    """Eigenvector w = vectors[..., which] of M with its gradient, from image = M w `(…, n, 1)`.

        dw = (λI − M)⁺ dM w

    Unlike a full decomposition's gradient it does not see ties among the *other* eigenvalues.
    """
    distance = values[..., which, None] - values
    noise = values.abs().amax(-1, keepdim=True) * torch.finfo(values.dtype).eps * values.shape[-1]
    tied = distance.abs() <= noise
    weights = torch.where(tied, 0.0, 1.0 / torch.where(tied, 1.0, distance))
    change = weights.unsqueeze(-1) * (vectors.mT @ (image - image.detach()))
    return vectors[..., which] + (vectors @ change).squeeze(-1)
