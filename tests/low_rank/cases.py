"""Small problems that the tests of low_rank share."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from fwnet.estimators.low_rank.losses import Loss, SquaredLoss
from fwnet.low_rank import ArrayRows, RowProblem, Rows, SoftmaxLoss, StreamedRows

N, D, M = 300, 20, 12


def data(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and labels of a rank-3 model."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, D, generator=generator, dtype=torch.float64)
    left = torch.randn(D, 3, generator=generator, dtype=torch.float64)
    right = torch.randn(3, M, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(X @ left @ right, -1), 1, generator=generator).squeeze(-1)
    return X.to(dtype), y


def weights() -> torch.Tensor:
    return torch.rand(N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def losses() -> dict[str, Loss]:
    X, y = data()
    targets = X[:, :M].sin()
    return {
        "softmax": SoftmaxLoss(y, M, weights()),
        "squared": SquaredLoss(targets, weights()),
    }


def all_rows() -> dict[str, Rows]:
    """The same rows, in five kinds of storage."""
    X, _ = data()
    array = X.numpy()
    parts = [array[:1], array[1:200], array[200:]]
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "tensor": ArrayRows(X),
        "read-only": ArrayRows(frozen),
        "sparse": ArrayRows(sparse.csr_matrix(array)),
        "streamed": StreamedRows(lambda: iter(parts), (N, D), torch.float64),
        "streamed sparse": StreamedRows(
            lambda: map(sparse.csr_matrix, parts), (N, D), torch.float64
        ),
    }


def softmax_problem(dtype: torch.dtype = torch.float64) -> RowProblem:
    X, y = data(dtype)
    return RowProblem(ArrayRows(X), SoftmaxLoss(y, M, torch.ones(N, dtype=dtype)))


def factors(k: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(2)
    left, right = (torch.from_numpy(generator.standard_normal((size, k))) for size in (D, M))
    return left, right
