"""SVMDual with one C for each point; the one formula of its matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fwnet
from fwnet.problems.svm import dual_matrix

F64 = torch.float64


def data(n: int = 7, batch: int | None = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    shape = (n,) if batch is None else (batch, n)
    X = torch.randn(*shape, 3, generator=generator, dtype=F64)
    y = torch.where(torch.rand(shape, generator=generator) < 0.5, -1.0, 1.0).to(F64)
    return X, y, 0.1 + 5 * torch.rand(shape, generator=generator, dtype=F64)


def test_the_matrix_entry_by_entry() -> None:
    X, y, C = data()
    K = X @ X.mT
    Q = dual_matrix(K, y, 1 / C, bias=True)
    for i in range(7):
        for j in range(7):
            own = 1 / float(C[i]) if i == j else 0.0
            wanted = float(y[i]) * float(y[j]) * (float(K[i, j]) + 1.0) + own
            assert float(Q[i, j]) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize("batch", [None, 4])
def test_features_and_kernel_are_one_problem(batch: int | None) -> None:
    X, y, C = data(batch=batch)
    x = torch.full(y.shape, 1 / 7, dtype=F64)
    for penalty in (C[0] if batch else C, 0.7):
        kernel = fwnet.SVMDual(X @ X.mT, y, C=penalty)
        features = fwnet.SVMDual(features=X, y=y, C=penalty)
        for name in ("value", "gradient"):
            ours = getattr(kernel, name)(kernel.at(x))
            assert torch.allclose(ours, getattr(features, name)(features.at(x)), rtol=1e-12)


def test_the_hinge_gap_with_one_c_for_each_point() -> None:
    X, y, C = data(30)
    problem = fwnet.SVMDual(features=X, y=y, C=C)
    alpha = torch.rand(30, generator=torch.Generator().manual_seed(1), dtype=F64)
    alpha /= alpha.sum()
    gap, primal = problem.hinge_gap(problem.at(alpha))
    lifted = np.hstack([X.numpy(), np.ones((30, 1))])
    Q = (y.numpy()[:, None] * lifted) @ (y.numpy()[:, None] * lifted).T + np.diag(1 / C.numpy())
    beta = alpha.numpy() / (alpha.numpy() @ Q @ alpha.numpy())
    w = (beta * y.numpy()) @ lifted
    slack = np.maximum(0.0, 1.0 - y.numpy() * (lifted @ w))
    value = 0.5 * w @ w + 0.5 * C.numpy() @ slack**2
    dual = beta.sum() - 0.5 * beta @ Q @ beta
    assert float(primal) == pytest.approx(value, rel=1e-12)
    assert float(gap) == pytest.approx(value - dual, rel=1e-12)


def test_c_must_fit_the_points() -> None:
    X, y, C = data()
    with pytest.raises(
        ValueError, match=r"SVMDual\(C=...\) must be a number, or have shape \(7,\)"
    ):
        fwnet.SVMDual(features=X, y=y, C=C[:3])
    with pytest.raises(ValueError, match="must hold positive finite numbers only"):
        fwnet.SVMDual(features=X, y=y, C=-C)
