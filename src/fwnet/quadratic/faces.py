"""Faces of the simplex: which coordinates are free, and Newton's equations on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics.compiled import machine_code

_UNPACKED = 48  # up to this size packing costs more than it saves
_COMPILED = 64  # up to this size call overhead decides, and compiled code saves it
_FEW = 8  # problems that are not worth a first call of compiled code


def compiled_for(data: Tensor) -> Any | None:
    """The compiled code for a batch of small problems on the CPU, if Numba is installed.

    Arguments:
        data: `(batch, n, n)` matrices or `(batch, n, d)` features.
    """
    few, n = data.shape[0] < _FEW, data.shape[1]
    small = n <= _COMPILED and not few and data.device.type == "cpu"
    return machine_code("fwnet.quadratic.scalar") if small else None


def as_doubles(value: Tensor) -> np.ndarray:
    """A contiguous float64 array: no copy where it is one already."""
    return np.ascontiguousarray(value.detach().cpu().numpy(), dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class FaceFactor:
    """Cholesky factors of (Q + ridge I) restricted to the free coordinates, packed and padded.

    Arguments:
        index: `(batch, m)` the free coordinates, m = the most that any problem has; None for
            small problems, which stay as they are, m = n.
        used: `(batch, m)` 1 for a free coordinate, 0 for padding, in Q's dtype.
        cholesky: `(batch, m, m)` lower factors, identity where padded.
        pivot: `(batch,)` the smallest pivot, 0 where the factor does not exist.
    """

    index: Tensor | None
    used: Tensor
    cholesky: Tensor
    pivot: Tensor

    def solve(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """The Newton direction on the face and its multiplier.

            (Q + ridge I)_FF d_F = r_F + level 1,   Σ d = 0,   d = 0 elsewhere

        Arguments:
            r: `(batch, n)`, best near 0 on average: a common shift changes only the level.
        """
        packed = (r if self.index is None else r.gather(1, self.index)) * self.used
        right = torch.stack((packed, self.used), -1)
        solved = torch.cholesky_solve(right, self.cholesky)
        total = solved.sum(1)
        shift = -total[:, :1] / total[:, 1:]
        direction = (solved[..., 0] + shift * solved[..., 1]) * self.used
        if self.index is None:
            return direction, shift.squeeze(-1)
        # padding adds 0 to coordinate 0, so adding is safe where writing would not be
        spread = torch.zeros_like(r).scatter_add_(1, self.index, direction)
        return spread, shift.squeeze(-1)


def factor_face(Q: Tensor, free: Tensor, ridge: Tensor | None = None) -> FaceFactor:
    """Factor (Q + ridge I) on the free coordinates.

    Arguments:
        Q: `(batch, n, n)` symmetric.
        free: `(batch, n)` booleans, at least one true in each row.
        ridge: `(batch,)` at least 0, none by default.
    """
    index, mask = (None, free) if Q.shape[-1] <= _UNPACKED else pack(free)
    used = mask.to(Q.dtype)
    if index is None:
        block = Q * used.unsqueeze(-1) * used.unsqueeze(-2)
    else:
        block = restrict(Q, index, used)
    diagonal = block.diagonal(dim1=-2, dim2=-1)
    padding = 1 - used
    diagonal += padding if ridge is None else ridge.unsqueeze(-1) * used + padding
    cholesky, info = torch.linalg.cholesky_ex(block)
    pivots = cholesky.diagonal(dim1=-2, dim2=-1).masked_fill(~mask, torch.inf)
    pivot = torch.where(info == 0, pivots.amin(-1).square(), 0.0)
    if bool(info.any()):
        identity = torch.eye(block.shape[-1], dtype=Q.dtype, device=Q.device)
        cholesky = torch.where((info == 0)[:, None, None], cholesky, identity)
    return FaceFactor(index, used, cholesky, pivot)


def pack(free: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the true entries of each row, padded with 0, and which of them count."""
    count = free.sum(-1, keepdim=True)
    most = int(count.max())
    everything = torch.arange(free.shape[-1], device=free.device).expand(free.shape)
    place = torch.where(free, free.cumsum(-1) - 1, most)
    index = everything.new_zeros(free.shape[0], most + 1).scatter_(1, place, everything)[:, :most]
    used = torch.arange(most, device=free.device) < count
    return torch.where(used, index, 0), used


def restrict(Q: Tensor, index: Tensor, used: Tensor) -> Tensor:
    """The block Q_FF of every problem, 0 where padded; always a fresh tensor."""
    batch, n, _ = Q.shape
    most = index.shape[-1]
    if most == n and int(used.sum()) == batch * n:
        return Q.clone(memory_format=torch.contiguous_format)
    rows = (index + n * torch.arange(batch, device=Q.device).unsqueeze(-1)).reshape(-1)
    block = Q.reshape(batch * n, n).index_select(0, rows).reshape(batch, most, n)
    block = block.gather(2, index.unsqueeze(1).expand(-1, most, -1))
    return block.mul_(used.unsqueeze(-1)).mul_(used.unsqueeze(-2))


def spectral_face_solve(Q: Tensor, free: Tensor, r: Tensor) -> Tensor:
    """The direction on a singular face, 0 where there is no curvature.

        d = (H Q_FF H)⁺ r_F,   H = I − 11ᵀ/|F|

    Arguments:
        Q, free: as in `factor_face`.
        r: `(batch, n)`.
    """
    index, mask = pack(free)
    used = mask.to(Q.dtype)
    block = restrict(Q, index, used)
    count = used.sum(-1, keepdim=True)
    for _ in range(2):  # centre the columns, then the rows
        block = (block - block.sum(1, keepdim=True) / count.unsqueeze(-1)) * used.unsqueeze(-1)
        block = block.mT
    packed = r.gather(1, index) * used
    packed = (packed - packed.sum(-1, keepdim=True) / count) * used
    values, vectors = torch.linalg.eigh((block + block.mT) / 2)
    size = Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1, keepdim=True)
    curved = values > 4e3 * torch.finfo(Q.dtype).eps * size
    inside = (vectors.mT @ packed.unsqueeze(-1)).squeeze(-1)
    steps = torch.where(curved, inside / values, 0.0)
    direction = (vectors @ steps.unsqueeze(-1)).squeeze(-1) * used
    return torch.zeros_like(r).scatter_add(1, index, direction)
