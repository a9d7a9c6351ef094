"""Losses of blocks of logits: a value, and errors in place of the logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from fwnet.problems.softmax import exponentials

Index = slice | Tensor


class Loss(ABC):
    """φ(Z) = Σ wᵢ ℓ(zᵢ), with weights that sum to 1.

    Attributes:
        m: columns of Z.
        weight: `(n,)`.

    Example:
        >>> from fwnet.low_rank import Loss, SquaredLoss
        >>> loss: Loss = SquaredLoss(torch.zeros(3, 2), torch.ones(3))
        >>> loss.m, loss.weight
        (2, tensor([0.3333, 0.3333, 0.3333]))
    """

    m: int
    weight: Tensor

    @abstractmethod
    def errors_(
        self, Z: Tensor, rows: Index, scale: float = 1.0, out: Tensor | None = None
    ) -> float:
        """Return scale · Σ wᵢ ℓ(zᵢ) over some rows; write its gradient to `out`, or over Z."""

    @abstractmethod
    def some(self, index: Tensor, dtype: torch.dtype) -> Loss:
        """The loss of the rows with the given numbers."""


@final
class SoftmaxLoss(Loss):
    """ℓ(z) = log Σⱼ exp zⱼ − z_y;   ∇ℓ(z) = softmax(z) − e_y.

    Arguments:
        y: labels 0, …, m − 1, `(n,)`.
        m: number of classes.
        weight: `(n,)`, at least 0; made to sum to 1.

    Example:
        >>> from fwnet.low_rank import ArrayRows, RowProblem, SoftmaxLoss, solve
        >>> loss = SoftmaxLoss(torch.tensor([0, 1, 1]), 2, torch.ones(3))
        >>> solve(RowProblem(ArrayRows(torch.eye(3)), loss), radius=4.0).status
        'converged'
    """

    def __init__(self, y: Tensor, m: int, weight: Tensor) -> None:
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < m:
            raise ValueError(f"y must lie in 0..{m - 1}; got {int(y.min())}..{int(y.max())}.")
        self.y, self.m = y, m
        self.weight = weight / weight.sum()

    def errors_(
        self, Z: Tensor, rows: Index, scale: float = 1.0, out: Tensor | None = None
    ) -> float:
        y, weight = self.y[rows].unsqueeze(-1), self.weight[rows].unsqueeze(-1) * scale
        chosen = Z.gather(-1, y)
        errors, total, top = exponentials(Z, Z if out is None else out)
        losses = total.log().add_(top).sub_(chosen)
        errors.mul_(weight / total).scatter_add_(-1, y, -weight)
        return float(torch.linalg.vecdot(losses.double(), weight.double(), dim=0))

    def some(self, index: Tensor, dtype: torch.dtype) -> SoftmaxLoss:
        return SoftmaxLoss(self.y[index], self.m, self.weight[index].to(dtype))


@final
class SquaredLoss(Loss):
    """ℓ(z) = ½ |z − y|²;   ∇ℓ(z) = z − y.

    Arguments:
        Y: targets `(n, m)`.
        weight: `(n,)`, at least 0; made to sum to 1.

    Example:
        >>> from fwnet.low_rank import ArrayRows, RowProblem, SquaredLoss, solve
        >>> loss = SquaredLoss(torch.ones(3, 2), torch.ones(3))
        >>> solve(RowProblem(ArrayRows(torch.eye(3)), loss), radius=1.0).status
        'converged'
    """

    def __init__(self, Y: Tensor, weight: Tensor) -> None:
        self.Y, self.m = Y, Y.shape[1]
        self.weight = weight / weight.sum()

    def errors_(
        self, Z: Tensor, rows: Index, scale: float = 1.0, out: Tensor | None = None
    ) -> float:
        weight = self.weight[rows].unsqueeze(-1) * scale
        errors = torch.sub(Z, self.Y[rows], out=Z if out is None else out)
        losses = torch.linalg.vecdot(errors, errors).unsqueeze(-1)
        errors.mul_(weight)
        return 0.5 * float(torch.linalg.vecdot(losses.double(), weight.double(), dim=0))

    def some(self, index: Tensor, dtype: torch.dtype) -> SquaredLoss:
        return SquaredLoss(self.Y[index].to(dtype), self.weight[index].to(dtype))
