"""What a matrix must be: finite, symmetric, positive semidefinite; else an error that says so."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks


def check_matrix(Q: Tensor) -> None:
    """Check that Q `(batch, n, n)` is finite and symmetric, by two products with a fixed vector.

    Qr = Qᵀr for one r without pattern: two passes over the memory where comparing takes five.
    """
    n = Q.shape[-1]
    probe = torch.arange(1, n + 1, dtype=Q.dtype, device=Q.device).mul(2.399963).sin().add(1.5)
    right, left = Q @ probe, probe @ Q
    size = probe.sum() * Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1, keepdim=True)
    slack = torch.finfo(Q.dtype).eps ** 0.65 * size
    if not bool(((right - left).abs() <= slack).all()):
        checks.finite("Q", Q)
        worst = (Q - Q.mT).abs()
        place = int(worst.argmax())
        b, i, j = place // n**2, place // n % n, place % n
        raise ValueError(
            f"Q must be symmetric; entries ({b}, {i}, {j}) and ({b}, {j}, {i}) are "
            f"{float(Q[b, i, j]):.6g} and {float(Q[b, j, i]):.6g}, which differ by "
            f"{float(worst[b, i, j]):.2g}. Pass (Q + Q.mT) / 2."
        )


def check_convex(Q: Tensor) -> None:
    """Check that matrices `(batch, n, n)` are positive semidefinite but for rounding."""
    size = Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1)
    if not bool((size > 0).all()):  # only 0 is semidefinite with a diagonal of zeros
        size = Q.abs().amax((-2, -1))
        size = torch.where(size > 0, size, 1.0)
    lifted = Q / size[:, None, None]  # a shift of Q itself could underflow
    lifted.diagonal(dim1=-2, dim2=-1).add_(torch.finfo(Q.dtype).eps ** 0.4)
    failed = torch.linalg.cholesky_ex(lifted).info
    if bool(failed.any()):
        least = float(torch.linalg.eigvalsh(Q[int(failed.argmax())])[0])
        raise ValueError(
            f"Q must be positive semidefinite; its least eigenvalue is {least:.3g}. Add a "
            "multiple of the identity."
        )


def check_small(Q: Tensor, matrix: np.ndarray, trusted: bool) -> None:
    """The same checks for one small matrix: by NumPy first, by the others in a doubtful case.

    Arguments:
        Q: `(1, n, n)`.
        matrix: the same in float64, `(n, n)`.
        trusted: whether it need only be finite.
    """
    if not np.isfinite(matrix).all():
        checks.finite("Q", Q)
    if trusted:
        return
    size = matrix.diagonal().max()
    if not np.abs(matrix - matrix.T).max() <= 1e-10 * size:
        check_matrix(Q)
    lifted = matrix.copy()
    lifted.reshape(-1)[:: len(matrix) + 1] += 1e-6 * size
    try:
        np.linalg.cholesky(lifted)
    except np.linalg.LinAlgError:
        check_convex(Q)
