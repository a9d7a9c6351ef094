"""Extreme singular and eigenvectors of a matrix: what the matrix balls ask for."""

from __future__ import annotations

import zlib
from collections.abc import Callable
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
    sigma is simple); another large or implicit one is asked by Golub-Kahan-Lanczos, those of a
    batch one after the other. A zero matrix has sigma 0 and some unit vectors.

    Arguments:
        start: a guess of v; Lanczos adds noise to it, since a guess that
            is an exact singular vector would hide all larger ones.
        tol: residual relative to sigma; 1e-11 for float64, 1e-6 for float32 unless given. The error
            of sigma is at most that, but Lanczos may miss a larger value to which the start is
            nearly orthogonal: one that is larger by a share δ, for one start in δ / tol. `bounds`
            misses none.
    """
    side = min(matrix.shape[-2:])
    if _is_small(matrix, side) or _has_gradient(matrix):
        return full_pair(dense_cost(matrix))
    if matrix.ndim > 2:
        found = _one_by_one(lambda one, v: top_singular_pair(one, v, tol), matrix, start)
        return SingularPair(*found)
    tol = tol if tol is not None else 1e-11 if matrix.dtype == torch.float64 else 1e-6
    # some side / 4 steps cost as much as a full decomposition
    max_restarts = 1 + side // 256 if isinstance(matrix, Tensor) else 40
    with torch.no_grad():
        pair, accurate = lanczos(Products(matrix), guess(matrix, start), tol, max_restarts)
    if not accurate and isinstance(matrix, Tensor):
        return full_pair(matrix)
    return pair


def bottom_eigenpair(matrix: Cost) -> tuple[Tensor, Tensor]:
    """Smallest eigenvalue `(*batch,)` of S = (C + Cᵀ)/2 and its vector `(*batch, n)`.

        value = min over |v| = 1 of vᵀ C v

    Large matrices: the top singular pair of `shifted(S)`, whose largest eigenvalue that is.
    """
    if _is_small(matrix, matrix.shape[-1]) or _has_gradient(matrix):
        return full_bottom(dense_cost(matrix))
    if matrix.ndim > 2:
        value, v = _one_by_one(lambda one, _: bottom_eigenpair(one), matrix)
        return value, v
    v = top_singular_pair(shifted(matrix)[0]).v
    return Products(matrix).matvec(v) @ v, v


def shifted(matrix: Cost) -> tuple[Cost, Tensor]:
    """A = top · I − S for S = (C + Cᵀ)/2 of one C, and top `()`; A's top eigenvalue is its norm.

        top = μ + |S − μI|,   μ = zᵀSz / zᵀz for some z

    μ lies between the extreme eigenvalues of S. So the eigenvalues of S − μI that are furthest
    from 0 on both sides decide, however large μ is, and any estimate of |S − μI| above its half
    will do.
    """
    products = Products(matrix)
    z = guess(matrix, None)
    middle = products.matvec(z) @ z / (z @ z)
    if isinstance(matrix, Tensor):
        eye = torch.eye(matrix.shape[-1]).to(matrix)
        centred = (matrix + matrix.mT) / 2 - middle * eye
        size = top_singular_pair(centred, tol=1e-2).sigma
        return size * eye - centred, middle + size

    def times(v: Tensor) -> Tensor:
        return (products.matvec(v) + products.rmatvec(v)) / 2 - middle * v

    def rest(v: Tensor) -> Tensor:
        return size * v - times(v)

    def dense() -> Tensor:
        whole = matrix.dense()
        return (middle + size) * torch.eye(len(whole)).to(whole) - (whole + whole.mT) / 2

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


def _one_by_one(
    solve: Callable[[Tensor, Tensor | None], tuple[Tensor, ...]],
    matrix: Cost,  # (*batch, d, m)
    start: Tensor | None = None,  # (*batch, m)
) -> list[Tensor]:
    """The answers for the matrices of a batch, stacked.

    Lanczos on all of them at once would go on for each as long as for the slowest.
    """
    *batch, d, m = matrix.shape
    ones = dense_cost(matrix).reshape(-1, d, m)
    starts = [None] * len(ones) if start is None else start.reshape(-1, m)
    found = zip(*map(solve, ones, starts), strict=True)
    return [torch.stack(parts).reshape(*batch, *parts[0].shape) for parts in found]


def _is_small(matrix: Cost, side: int) -> bool:
    """Whether a matrix with such a smaller side is decomposed in full."""
    return side <= (SMALL if isinstance(matrix, Tensor) else _SMALL_IMPLICIT)


def _has_gradient(matrix: Cost) -> bool:
    """Whether autograd follows the matrix; an implicit one shows it in its products."""
    if not torch.is_grad_enabled():
        return False
    if isinstance(matrix, Tensor):
        return matrix.requires_grad
    probe = torch.ones(*matrix.shape[:-2], matrix.shape[-1], dtype=matrix.dtype)
    return matrix.matvec(probe.to(matrix.device)).requires_grad


def guess(matrix: Cost, start: Tensor | None, fresh: bool = False) -> Tensor:
    """The start of Lanczos: Gaussian noise of norm about 1, or `start` with some of it.

    The noise depends on the matrix, so that no matrix has all its large singular vectors
    orthogonal to it but by chance; the same matrix gets the same noise.

    Arguments:
        fresh: any other matrix gets other noise. Else matrices that differ by little get the same,
            so that rounding does not decide; but a step of a solver changes a matrix in the
            direction that Lanczos found, and from that start Lanczos sees nothing else.
    """
    m = matrix.shape[-1]
    probe = _gaussian(m, 2016).to(matrix.device, matrix.dtype)
    image = Products(matrix).matvec(probe).detach().cpu()
    if fresh:
        known = image.double().numpy()
    else:
        size = image.abs().amax()
        scaled = image / torch.where(size == 0, 1.0, size) * 100
        known = scaled.nan_to_num().round().to(torch.int8).numpy()
    noise = (_gaussian(m, zlib.crc32(known.tobytes())) / m**0.5).to(matrix.device, matrix.dtype)
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
    LAPACK may not converge where its products of tiny entries underflow, and then float64 serves.
    """
    known = symmetric.nan_to_num()
    size = known.abs()
    least = torch.finfo(known.dtype).eps ** 2 * size.amax((-2, -1), keepdim=True)
    known = torch.where(size < least, 0.0, known)
    try:
        values, vectors = torch.linalg.eigh(known)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # not in __all__
        values, vectors = torch.linalg.eigh(known.double())
    return values.to(known), vectors.to(known)


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
