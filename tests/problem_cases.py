"""One list of every problem, each with the same objective in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import fwnet
from cases import F64, csr, forms, labels, normal, seeded, sparse_like, spd


@dataclass(frozen=True, eq=False)
class ProblemCase:
    """A problem and the same objective in plain torch."""

    name: str
    problem: fwnet.Problem
    value: Callable[[Tensor], Tensor]  # x -> f(x), or (batch,)
    tags: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.name

    @property
    def batched(self) -> bool:
        return self.problem.batch_dims == 1

    @property
    def point(self) -> tuple[int, ...]:
        assert self.problem.shape is not None
        return tuple(self.problem.shape[self.problem.batch_dims :])

    def sample(self, seed: int) -> Tensor:
        assert self.problem.shape is not None
        return 0.5 * normal(seed, *self.problem.shape)


def _least_squares(A: Tensor, b: Tensor, ridge: Any = 0.0) -> Callable[[Tensor], Tensor]:
    def value(x: Tensor) -> Tensor:
        residual = (A @ x.unsqueeze(-1)).squeeze(-1) - b
        return 0.5 * residual.square().sum(-1) + 0.5 * (ridge * x * x).sum(-1)

    return value


def _quadratic(K: Tensor, c: Any = 0.0) -> Callable[[Tensor], Tensor]:
    return lambda x: 0.5 * (x * (K @ x.unsqueeze(-1)).squeeze(-1)).sum(-1) + (c * x).sum(-1)


def _logistic(X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    zero = torch.zeros((), dtype=F64)
    return lambda w: torch.logaddexp(zero, -y * (X @ w.unsqueeze(-1)).squeeze(-1)).mean(-1)


def _softmax(X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    def value(W: Tensor) -> Tensor:
        z = X @ W
        each = functional.cross_entropy(z.flatten(0, -2), y.flatten(), reduction="none")
        return each.reshape(y.shape).mean(-1)

    return value


def _svm(X: Tensor, y: Tensor, C: float) -> Callable[[Tensor], Tensor]:
    Q = y.unsqueeze(-1) * (X @ X.mT + 1.0) * y.unsqueeze(-2) + torch.eye(X.shape[-2]) / C
    return _quadratic(Q)


@cache
def problems() -> list[ProblemCase]:
    m, n = 9, 8
    A, b = sparse_like(1, m, n), normal(2, m)
    K, c = spd(3, n, 5), normal(4, n)
    ridge = torch.rand(n, dtype=F64, generator=seeded(5))
    y = labels(6, m)
    cases: list[ProblemCase] = []
    for form, matrix in forms(A).items():
        tags = frozenset({form})
        cases += [
            ProblemCase(
                f"LeastSquares-{form}",
                fwnet.LeastSquares(matrix, b),
                _least_squares(A, b),
                tags=tags,
            ),
            ProblemCase(
                f"LeastSquares-ridge-{form}",
                fwnet.LeastSquares(matrix, b, ridge),
                _least_squares(A, b, ridge),
                tags=tags,
            ),
            ProblemCase(
                f"LogisticRegression-{form}",
                fwnet.LogisticRegression(matrix, y),
                _logistic(A, y),
                tags=tags,
            ),
        ]
    for form, matrix in forms(K).items():
        cases.append(ProblemCase(f"Quadratic-{form}", fwnet.Quadratic(matrix, c), _quadratic(K, c)))
    B = 3
    Ab, bb, yb = normal(7, B, m, n), normal(8, B, m), labels(9, B, m)
    Kb = torch.stack([spd(10 + i, n, 5) for i in range(B)])
    cb = normal(13, B, n)
    X, targets = normal(14, m, 4), torch.randint(0, 3, (m,), generator=seeded(15))
    Xb, targets_b = normal(16, B, m, 4), torch.randint(0, 3, (B, m), generator=seeded(17))
    points, sides = normal(18, n, 3), labels(19, n)
    points_b, sides_b = normal(20, B, n, 3), labels(21, B, n)
    rows = torch.tensor([0, 0, 1, 2, 3, 3, 3, 1, 0])
    cols = torch.tensor([0, 2, 1, 1, 0, 1, 2, 1, 2])  # (1, 1) and (0, 2) are seen twice
    seen = normal(22, len(rows))
    M, all_seen = normal(23, 4, 3), torch.cartesian_prod(torch.arange(4), torch.arange(3))
    gram, gram_b = points @ points.T, points_b @ points_b.mT
    cases += [
        ProblemCase(
            "LeastSquares-batch", fwnet.LeastSquares(Ab, bb, 0.3), _least_squares(Ab, bb, 0.3)
        ),
        ProblemCase("LeastSquares-shared", fwnet.LeastSquares(A, bb), _least_squares(A, bb)),
        ProblemCase(
            "LeastSquares-shared-csr",
            fwnet.LeastSquares(csr(A), bb),
            _least_squares(A, bb),
        ),
        ProblemCase(
            "LeastSquares-shared-free",
            fwnet.LeastSquares(forms(A)["free"], bb, ridge),
            _least_squares(A, bb, ridge),
        ),
        ProblemCase("Quadratic-no-c", fwnet.Quadratic(K), _quadratic(K)),
        ProblemCase("Quadratic-batch", fwnet.Quadratic(Kb, cb), _quadratic(Kb, cb)),
        ProblemCase("Quadratic-batch-one-c", fwnet.Quadratic(Kb, c), _quadratic(Kb, c)),
        ProblemCase("Quadratic-shared", fwnet.Quadratic(K, cb), _quadratic(K, cb)),
        ProblemCase("Quadratic-shared-csr", fwnet.Quadratic(csr(K), cb), _quadratic(K, cb)),
        ProblemCase("Logistic-batch", fwnet.LogisticRegression(Ab, yb), _logistic(Ab, yb)),
        ProblemCase("Softmax", fwnet.SoftmaxRegression(X, targets), _softmax(X, targets)),
        ProblemCase(
            "Softmax-batch", fwnet.SoftmaxRegression(Xb, targets_b), _softmax(Xb, targets_b)
        ),
        ProblemCase("SVM-kernel", fwnet.SVMDual(gram, sides, C=2.0), _svm(points, sides, 2.0)),
        ProblemCase(
            "SVM-features", fwnet.SVMDual(y=sides, features=points, C=2.0), _svm(points, sides, 2.0)
        ),
        ProblemCase("SVM-paper", fwnet.SVMDual(gram, C=0.5), _quadratic(gram + 2.0 * torch.eye(n))),
        ProblemCase(
            "SVM-batch", fwnet.SVMDual(gram_b, sides_b, C=2.0), _svm(points_b, sides_b, 2.0)
        ),
        ProblemCase(
            "SVM-batch-features",
            fwnet.SVMDual(y=sides_b, features=points_b, C=2.0),
            _svm(points_b, sides_b, 2.0),
        ),
        ProblemCase(
            "Completion",
            fwnet.MatrixCompletion(rows, cols, seen, (4, 3)),
            lambda W: 0.5 * (W[rows, cols] - seen).square().sum(),
        ),
        ProblemCase(
            "Completion-full",
            fwnet.MatrixCompletion(*all_seen.T.int(), M.flatten(), (4, 3)),
            lambda W: 0.5 * (W - M).square().sum(),
        ),
    ]
    return cases
