"""Error texts for bad data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet

EYE, POINT = torch.eye(3), torch.ones(3) / 3
NAN, INF = float("nan"), float("inf")


def spoiled(value: float, *shape: int) -> Tensor:
    tensor = torch.ones(*shape)
    tensor.view(-1)[1] = value
    return tensor


def in_blocks(tensor: Tensor) -> Tensor:
    with warnings.catch_warnings():  # torch calls them a beta
        warnings.simplefilter("ignore", UserWarning)
        return tensor.to_sparse_bsr((1, 1))


CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "asymmetric K",
        lambda: fwnet.Quadratic(torch.tensor([[1.0, 2.0], [0.0, 1.0]])),
        ValueError,
        "Quadratic(K): K must be symmetric; the largest difference |K - Kᵀ| is 2. Pass (K + K.mT)",
    ),
    (
        "asymmetric K in float64",
        lambda: fwnet.Quadratic(torch.tensor([[1.0, 1e-6], [0.0, 1.0]]).double()),
        ValueError,
        "Quadratic(K): K must be symmetric",
    ),
    (
        "K not square",
        lambda: fwnet.Quadratic(torch.ones(3, 2)),
        ValueError,
        "Quadratic(K): K must be square; got shape (3, 2).",
    ),
    (
        "K a vector",
        lambda: fwnet.Quadratic(torch.ones(3)),
        ValueError,
        "Quadratic(K) must be (m, n) or (batch, m, n); got (3,).",
    ),
    (
        "K NumPy",
        lambda: fwnet.Quadratic(np.eye(3)),
        TypeError,
        "Quadratic(K) must be a torch.Tensor; got ndarray. Convert with torch.as_tensor(...).",
    ),
    (
        "K integers",
        lambda: fwnet.Quadratic(torch.ones(2, 2, dtype=torch.int64)),
        TypeError,
        "Quadratic(K) must be float32 or float64; got torch.int64.",
    ),
    (
        "K Inf",
        lambda: fwnet.Quadratic(spoiled(INF, 2, 2)),
        ValueError,
        "Quadratic(K) must be finite; entry (0, 1) is inf.",
    ),
    (
        "c shape",
        lambda: fwnet.Quadratic(EYE, torch.ones(4)),
        ValueError,
        "Quadratic(c) must be (3,) or (batch, 3) for K of shape (3, 3); got (4,).",
    ),
    (
        "c a number",
        lambda: fwnet.Quadratic(EYE, torch.tensor(1.0)),
        ValueError,
        "Quadratic(c) must be (3,) or (batch, 3) for K of shape (3, 3); got ().",
    ),
    (
        "c batch",
        lambda: fwnet.Quadratic(torch.stack([EYE] * 2), torch.ones(4, 3)),
        ValueError,
        "for K of shape (2, 3, 3); got (4, 3).",
    ),
    (
        "c dtype",
        lambda: fwnet.Quadratic(EYE, torch.ones(3).double()),
        TypeError,
        "Quadratic(c) and K must share a dtype; got torch.float64 and torch.float32.",
    ),
    (
        "b shape",
        lambda: fwnet.LeastSquares(torch.ones(3, 2), torch.ones(2)),
        ValueError,
        "b must be (3,) or (batch, 3) for A of shape (3, 2); got (2,).",
    ),
    (
        "b a number",
        lambda: fwnet.LeastSquares(torch.ones(3, 2), torch.tensor(1.0)),
        ValueError,
        "b must be (3,) or (batch, 3) for A of shape (3, 2); got ().",
    ),
    (
        "b dtype",
        lambda: fwnet.LeastSquares(torch.ones(3, 2), torch.ones(3).double()),
        TypeError,
        "LeastSquares(b) and A must share a dtype; got torch.float64 and torch.float32.",
    ),
    (
        "b NaN",
        lambda: fwnet.LeastSquares(torch.ones(3, 2), spoiled(NAN, 3)),
        ValueError,
        "LeastSquares(b) must be finite; entry (1,) is nan.",
    ),
    (
        "ridge negative",
        lambda: fwnet.LeastSquares(EYE, POINT, -1.0),
        ValueError,
        "LeastSquares(ridge=...) must be a finite number of at least 0; got -1.0.",
    ),
    (
        "ridge shape",
        lambda: fwnet.LeastSquares(EYE, POINT, torch.ones(2)),
        ValueError,
        "LeastSquares(ridge=...) must hold 3 numbers of at least 0; got shape (2,), smallest 1.0.",
    ),
    (
        "ridge dtype",
        lambda: fwnet.LeastSquares(EYE, POINT, torch.ones(3).double()),
        TypeError,
        "LeastSquares(ridge=...) and A must share a dtype; got torch.float64 and torch.float32.",
    ),
    (
        "y shape",
        lambda: fwnet.LogisticRegression(EYE, torch.ones(2)),
        ValueError,
        "LogisticRegression(y) must have shape (3,); got (2,).",
    ),
    (
        "y zero and one",
        lambda: fwnet.LogisticRegression(EYE, torch.tensor([0, 1, 1])),
        ValueError,
        "LogisticRegression(y) must hold -1 and +1 only; map 0/1 by 2 * y - 1.",
    ),
    (
        "y a list",
        lambda: fwnet.LogisticRegression(EYE, [1, -1, 1]),
        TypeError,
        "LogisticRegression(y) must be a torch.Tensor; got list.",
    ),
    (
        "labels float",
        lambda: fwnet.SoftmaxRegression(EYE, POINT),
        ValueError,
        "SoftmaxRegression(y) must be integer labels of shape (3,); got torch.float32 (3,).",
    ),
    (
        "labels range",
        lambda: fwnet.SoftmaxRegression(EYE, torch.tensor([0, 5, 1]), classes=3),
        ValueError,
        "SoftmaxRegression(y) must lie in 0..2; got 0..5.",
    ),
    (
        "X a vector",
        lambda: fwnet.SoftmaxRegression(POINT, torch.tensor([0])),
        ValueError,
        "SoftmaxRegression(X) must be (n, d) or (batch, n, d); got (3,).",
    ),
    (
        "SVM twice",
        lambda: fwnet.SVMDual(EYE, features=EYE),
        ValueError,
        "SVMDual: give exactly one of K and features.",
    ),
    (
        "SVM labels",
        lambda: fwnet.SVMDual(EYE, torch.tensor([1, 2, 3])),
        ValueError,
        "SVMDual(y) must hold -1 and +1 only; map 0/1 by 2 * y - 1.",
    ),
    (
        "SVM label shape",
        lambda: fwnet.SVMDual(EYE, torch.tensor([1, -1])),
        ValueError,
        "SVMDual(y) must have shape (3,); got (2,).",
    ),
    (
        "SVM C",
        lambda: fwnet.SVMDual(EYE, C=0.0),
        ValueError,
        "SVMDual(C=...) must be a positive finite number; got 0.0.",
    ),
    (
        "SVM bias",
        lambda: fwnet.SVMDual(EYE, bias=True),
        ValueError,
        "SVMDual(bias=True) needs the labels y.",
    ),
    (
        "hard margin",
        lambda: fwnet.SVMDual(EYE, C=None).hinge_gap(fwnet.SVMDual(EYE, C=None).at(POINT)),
        ValueError,
        "hinge_gap: the hard margin (C=None) has no squared-hinge form.",
    ),
    (
        "completion range",
        lambda: fwnet.MatrixCompletion(torch.tensor([3]), torch.tensor([0]), torch.ones(1), (3, 3)),
        ValueError,
        "MatrixCompletion(rows) must lie in 0..2; got 3..3.",
    ),
    (
        "completion lengths",
        lambda: fwnet.MatrixCompletion(
            torch.tensor([0]), torch.tensor([0, 1]), torch.ones(1), (3, 3)
        ),
        ValueError,
        "rows, cols and values must be vectors of one length; cols has shape (2,), values (1,).",
    ),
    (
        "completion kinds",
        lambda: fwnet.MatrixCompletion(torch.ones(1), torch.tensor([0]), torch.ones(1), (3, 3)),
        TypeError,
        "MatrixCompletion(rows) must be an integer tensor; got torch.float32.",
    ),
    (
        "completion kinds bool",
        lambda: fwnet.MatrixCompletion(EYE[0] > 0, torch.tensor([0] * 3), torch.ones(3), (3, 3)),
        TypeError,
        "MatrixCompletion(rows) must be an integer tensor; got torch.bool.",
    ),
    (
        "completion shape",
        lambda: fwnet.MatrixCompletion(torch.tensor([0]), torch.tensor([0]), torch.ones(1), 3),
        ValueError,
        "MatrixCompletion(shape) must be (d, m); got 3.",
    ),
    (
        "completion sides",
        lambda: fwnet.MatrixCompletion(*[torch.tensor([0])] * 2, torch.ones(1), (3.0, 3)),
        ValueError,
        "MatrixCompletion(shape): d and m must be a whole number of at least 1; got 3.0.",
    ),
    (
        "asymmetric sparse K",
        lambda: fwnet.Quadratic(torch.tensor([[1.0, 2.0], [0.0, 1.0]]).to_sparse()),
        ValueError,
        "Quadratic(K): K must be symmetric; the largest difference |K - Kᵀ| is 2.",
    ),
    (
        "sparse c",
        lambda: fwnet.Quadratic(EYE, POINT.to_sparse()),
        TypeError,
        "Quadratic(c) must be dense; got torch.sparse_coo. Convert with .to_dense().",
    ),
    (
        "blocks",
        lambda: fwnet.LeastSquares(in_blocks(EYE), POINT),
        TypeError,
        "LeastSquares(A) must be dense, COO, CSR or CSC; got torch.sparse_bsr.",
    ),
    (
        "ridge a string",
        lambda: fwnet.LeastSquares(EYE, POINT, "1"),
        TypeError,
        "LeastSquares(ridge=...) must be a number; got '1'.",
    ),
    (
        "SVM not square",
        lambda: fwnet.SVMDual(torch.ones(3, 2), torch.ones(3)),
        ValueError,
        "SVMDual(K) must be square; got shape (3, 2).",
    ),
    (
        "SVM asymmetric",
        lambda: fwnet.SVMDual(torch.tensor([[1.0, 2.0], [0.0, 1.0]])),
        ValueError,
        "SVMDual(K): K must be symmetric",
    ),
    (
        "labels bool",
        lambda: fwnet.SoftmaxRegression(EYE, POINT > 0),
        ValueError,
        "SoftmaxRegression(y) must be integer labels of shape (3,); got torch.bool (3,).",
    ),
    (
        "product of the wrong shape",
        lambda: fwnet.LeastSquares(
            fwnet.MatrixFree(lambda x: x.sum(), lambda z: z, (3, 3)), POINT
        ).at(POINT),
        ValueError,
        "MatrixFree(matvec) must return a tensor (3,), torch.float32; got (), torch.float32.",
    ),
    (
        "product not a function",
        lambda: fwnet.MatrixFree(EYE, EYE, (3, 3)),
        TypeError,
        "MatrixFree(matvec) must be a function; got tensor",
    ),
]


@pytest.mark.parametrize(
    ("make", "kind", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_error_text(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        make()
