"""LogisticRegression."""

from __future__ import annotations

from copy import copy
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional

from fwnet.numerics import checks
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

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> problem = LogisticRegression(X, torch.tensor([1.0, -1.0]))
        >>> FrankWolfe(L2Ball(1.0), tol=1e-4)(problem).x
        tensor([ 0.7071, -0.7071])
    """

    def __init__(self, X: Tensor | LinearMap | Any, y: Tensor) -> None:
        matrix = as_linear_map("LogisticRegression(X)", X)
        batch = tuple(matrix.shape[:-2])
        super().__init__(matrix, batch)
        self.y = checks.signs("LogisticRegression(y)", y, (*batch, matrix.shape[-2]), matrix)

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
