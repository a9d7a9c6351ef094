"""Row problems: every storage of the rows gives the f and the gradient of a dense autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

import fwnet
from fwnet.estimators.low_rank import problems as module
from fwnet.low_rank import ArrayRows, Factors, RowProblem, SoftmaxLoss, StreamedRows
from low_rank import cases


def dense_value(kind: str, W: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """f by autograd's own losses."""
    weight = cases.weights() / cases.weights().sum()
    loss = cases.losses()[kind]
    if kind == "softmax":
        each = torch.nn.functional.cross_entropy(X @ W, loss.y, reduction="none")
    else:
        each = 0.5 * (X @ W - loss.Y).square().sum(-1)
    return weight @ each


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("kind", ["softmax", "squared"])
@pytest.mark.parametrize("storage", list(cases.all_rows()))
def test_value_and_gradient(
    storage: str, kind: str, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ENTRIES", 64 * cases.D)  # several blocks
    if not cached:
        monkeypatch.setattr(module, "_CACHED", 0)
    X, _ = cases.data()
    L, V = cases.factors()
    W = (L @ V.mT).requires_grad_()
    loss = dense_value(kind, W, X)
    (gradient,) = torch.autograd.grad(loss, W)
    value = loss.item()
    problem = RowProblem(cases.all_rows()[storage], cases.losses()[kind])
    scores = problem.scores(L)
    probe, other = torch.eye(cases.M, 3).double(), torch.eye(cases.D, 2).double()
    look = problem.look(scores, V, probe)
    assert look.value == pytest.approx(value)
    assert problem.value(scores, V) == pytest.approx(value)
    torch.testing.assert_close(scores, X @ L)
    torch.testing.assert_close(look.product, gradient @ probe)
    torch.testing.assert_close(look.pull(X @ other), gradient.mT @ other)
    torch.testing.assert_close(look.gradient.dense(), gradient)
    torch.testing.assert_close(look.gradient.matvec(V[:, 0]), gradient @ V[:, 0])
    torch.testing.assert_close(look.gradient.rmatvec(L[:, 0]), gradient.mT @ L[:, 0])


@pytest.mark.parametrize("kind", ["softmax", "squared"])
@pytest.mark.parametrize("storage", list(cases.all_rows()))
def test_a_batch_of_all_rows_has_the_gradients_of_the_factors(storage: str, kind: str) -> None:
    X, _ = cases.data()
    L, R = (factor.requires_grad_() for factor in cases.factors())
    left, right = torch.autograd.grad(dense_value(kind, L @ R.mT, X), (L, R))
    rows = cases.all_rows()[storage]
    problem = RowProblem(rows, cases.losses()[kind])
    total = [torch.zeros_like(left), torch.zeros_like(right)]
    weight = cases.weights() / cases.weights().sum()
    with torch.no_grad():
        seen = []
        for index, block in rows.batches(77, torch.Generator().manual_seed(0)):
            seen.append(index)
            for whole, part in zip(total, problem._batch(index, block, L, R), strict=True):
                whole += part * weight[index].sum()
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(cases.N))
    torch.testing.assert_close(total[0], left)
    torch.testing.assert_close(total[1], right)


@pytest.mark.parametrize("storage", list(cases.all_rows()))
def test_a_column_of_ones(storage: str) -> None:
    X, y = cases.data()
    rows = cases.all_rows()[storage]
    rows.constant, rows.d = 0.5, cases.D + 1
    wide = torch.cat([X, torch.full((cases.N, 1), 0.5).double()], 1)
    U = torch.randn(cases.D + 1, 3, dtype=torch.float64)
    torch.testing.assert_close(rows.times(U), wide @ U)
    problem = RowProblem(rows, SoftmaxLoss(y, cases.M, torch.ones(cases.N).double()))
    V = torch.randn(cases.M, 3, dtype=torch.float64)
    whole = fwnet.SoftmaxRegression(wide, y, cases.M)
    expected = whole.gradient(whole.at(U @ V.mT)).dense()
    torch.testing.assert_close(problem.look(rows.times(U), V, V).gradient.dense(), expected)


def test_rows_in_any_order() -> None:
    X, _ = cases.data()
    index = torch.tensor([299, 3, 3, 250, 0, 1])
    for rows in cases.all_rows().values():
        block = rows.some(index)
        torch.testing.assert_close(block.times(torch.eye(cases.D).double()), X[index])


def test_some_rows_of_sparse_blocks_stay_sparse() -> None:
    X = sparse.csr_matrix((np.arange(1.0, 61), (np.arange(60), 10**4 * np.arange(60))), (60, 10**6))
    rows = StreamedRows(lambda: [X[:20], X[20:]], X.shape, torch.float64)
    picked = rows.some(torch.tensor([50, 3, 3])).data
    assert sparse.issparse(picked)
    assert (picked != X[[50, 3, 3]]).nnz == 0


def test_blocks_that_change_are_noticed() -> None:
    X, _ = cases.data()
    whole = X.numpy()
    for now in (whole[:290], np.concatenate([whole, whole[:5]]), whole[:, :7], whole[:0]):
        rows = StreamedRows(lambda now=now: [now], (300, cases.D), torch.float64)
        text = f"300 rows of {cases.D} columns at first and {len(now)} of {now.shape[1]} now"
        for walk in (
            rows.blocks(),
            rows.batches(64, torch.Generator()),
            iter(lambda rows=rows: rows.some(torch.arange(9)), None),
        ):
            with pytest.raises(ValueError, match=text):
                list(walk)


def test_whole_numbers_on_disk_are_read_as_float32() -> None:
    X = torch.randint(0, 255, (50, 4)).to(torch.uint8).numpy()
    rows = ArrayRows(X)
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows.times(torch.eye(4)), torch.from_numpy(X).float())


def test_softmax_of_huge_logits_is_finite() -> None:
    loss = SoftmaxLoss(torch.tensor([0, 1]), 2, torch.ones(2))
    Z = torch.tensor([[1e4, -1e4], [1e4, -1e4]])
    assert loss.errors_(Z, slice(0, 2)) == pytest.approx(1e4)
    assert Z.tolist() == [[0.0, 0.0], [0.5, -0.5]]


def test_factors() -> None:
    L, R = cases.factors(5)
    W = L @ R.mT
    total = float(torch.linalg.svdvals(W).sum())
    whole = Factors.of_product(L, R, 2 * total)
    torch.testing.assert_close(whole.dense(), W)
    torch.testing.assert_close(whole.s, torch.linalg.svdvals(W)[:5])
    torch.testing.assert_close(whole.U.mT @ whole.U, torch.eye(5).double())
    half = Factors.of_product(L, R, total / 2)
    assert total / 2 * (1 - 1e-6) <= float(torch.linalg.svdvals(half.dense()).sum()) <= total / 2
    assert Factors.zero(4, 3, torch.float32).rank == 0
