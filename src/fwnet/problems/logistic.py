"""LogisticRegression."""

from __future__ import annotations

from copy import copy
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional

from fwnet.numerics.linear_maps import LinearMap, as_linear_map
from fwnet.problems.base import LinearLoss


@final
class LogisticRegression(LinearLoss):
    """Binary logistic loss.

        f(w) = 1/m Σ log(1 + exp(−yᵢ ⟨xᵢ, w⟩))

    Its image is Xw, the scores.

    Arguments:
        X: `(m, d)` or `(batch, m, d)`: a tensor (dense, sparse), a SciPy sparse matrix or a
            `LinearMap`.
        y: labels −1, +1, `(m,)` or `(batch, m)`.
    """

    def __init__(self, X: Tensor | LinearMap | Any, y: Tensor) -> None:
        matrix = as_linear_map("LogisticRegression(X)", X)
        if not isinstance(y, Tensor):
            raise TypeError(
                f"LogisticRegression(y) must be a torch.Tensor; got {type(y).__name__}."
            )
        batch = tuple(matrix.shape[:-2])
        if tuple(y.shape) != (*batch, matrix.shape[-2]):
            raise ValueError(
                f"LogisticRegression(y) must have shape {(*batch, matrix.shape[-2])} for X of "
                f"shape {tuple(matrix.shape)}; got {tuple(y.shape)}."
            )
        if not bool(((y == 1) | (y == -1)).all()):
            raise ValueError(
                "LogisticRegression(y) must hold -1 and +1 only; map 0/1 by 2 * y - 1."
            )
        super().__init__(matrix, batch)
        self.y = y.to(dtype=matrix.dtype, device=matrix.device)

    def loss(self, z: Tensor) -> Tensor:
        # Above its threshold torch drops log(1 + e⁻ᶻ): 2e-9 at the default 20, nothing at 40.
        return functional.softplus(-self.y * z, threshold=40.0).mean(-1)

    def loss_gradient(self, z: Tensor) -> Tensor:
        return -self.y * torch.sigmoid(-self.y * z) / z.shape[-1]

    def loss_gram(self, z: Tensor, images: Tensor) -> Tensor:
        chance = torch.sigmoid(z)
        return (images * (chance * (1 - chance)).unsqueeze(-2)) @ images.mT / z.shape[-1]

    def smoothness(self) -> float:
        return self.matrix.norm() ** 2 / (4 * self.matrix.shape[-2])

    def minibatch(self, rows: Tensor) -> LogisticRegression:
        part = copy(self)  # without the checks of its parts, which are this problem's
        part.matrix, part.y = self.matrix.rows(rows), self.y[..., rows]
        return part
