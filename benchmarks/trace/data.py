"""The problems: a thousand classes of rank 10, and the pixels of MNIST."""

from functools import lru_cache

import torch
from torch import Tensor

from fwnet.data import available, load
from fwnet.low_rank import ArrayRows, RowProblem, SoftmaxLoss

N, D, M, RANK, SPREAD = 50_000, 2000, 1000, 10, 6.0  # SPREAD: standard deviation of a logit


@lru_cache(maxsize=1)
def thousand_classes() -> tuple[Tensor, Tensor, float]:
    """Normal X, labels drawn from softmax(X W*), and 0.3 · ‖W*‖_*."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, D, generator=generator)
    left = torch.randn(D, RANK, generator=generator) * (SPREAD / (D * RANK) ** 0.5)
    right = torch.randn(RANK, M, generator=generator)
    y = torch.cat(
        [
            torch.multinomial(torch.softmax(part @ left @ right, -1), 1, generator=generator)
            for part in X.split(2000)
        ]
    )
    small = torch.linalg.qr(left).R @ torch.linalg.qr(right.mT).R.mT
    return X, y.squeeze(-1), 0.3 * float(torch.linalg.svdvals(small).sum())


def softmax(X: Tensor, y: Tensor, classes: int) -> RowProblem:
    return RowProblem(ArrayRows(X), SoftmaxLoss(y, classes, torch.ones(len(y))))


def mnist() -> tuple[Tensor, Tensor] | None:
    """60,000 images in [0, 1] and their digits; None where they are not on this machine."""
    if available()["mnist"] is None:
        return None
    pixels, digits = load("mnist", download=False).train()
    return torch.from_numpy(pixels.reshape(len(pixels), -1)), torch.from_numpy(digits)
