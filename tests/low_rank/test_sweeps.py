"""One pass over rows and logits: in torch and compiled, it finds what float64 matrices say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fwnet.estimators.low_rank import sweeps
from fwnet.estimators.low_rank.compiled_softmax import exp
from fwnet.estimators.low_rank.losses import SquaredLoss
from fwnet.estimators.low_rank.rank_one import RankOneFrankWolfe
from fwnet.estimators.low_rank.sweeps import LogitMove, Sweep, compiled_sweep, sweep, torch_sweep
from fwnet.low_rank import ArrayRows, Factors, RowProblem, SoftmaxLoss, StreamedRows
from low_rank import cases

CODES = ("compiled", "torch")


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def problem(kind: str = "dense", constant: float | None = None) -> RowProblem:
    X, y = cases.data(torch.float32)
    data: Any = sparse.csr_matrix(X.numpy()) if kind == "sparse" else X
    return RowProblem(ArrayRows(data, constant), SoftmaxLoss(y, cases.M, cases.weights().float()))


def start(f: RowProblem, scale: float) -> tuple[torch.Tensor, LogitMove, torch.Tensor]:
    """Logits, a move and a u, of some size."""
    generator = torch.Generator().manual_seed(5)
    (d, m), n = f.shape, f.n
    Z, left = (scale * torch.randn(n, k, generator=generator) for k in (m, 1))
    right, u = (torch.randn(k, generator=generator) for k in (m, d))
    return Z, LogitMove(0.75, left[:, 0], right), u


def run(code: str, f: RowProblem, Z: torch.Tensor, move: LogitMove, u: torch.Tensor) -> Sweep:
    if code == "torch":
        return torch_sweep(f, Z, move, u)
    assert isinstance(f.rows, ArrayRows)
    assert isinstance(f.loss, SoftmaxLoss)
    return compiled_sweep(f.rows, f.loss, Z, move, u)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("constant", [None, 2.0])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("code", CODES)
def test_a_sweep_is_that_of_dense_matrices(
    code: str, kind: str, constant: float | None, scale: float, threads: int
) -> None:
    f = problem(kind, constant)
    Z, move, u = start(f, scale)
    X, y = cases.data(torch.float32)
    if constant is not None:
        X = torch.cat([X, torch.full((len(X), 1), constant)], 1)
    moved = move.keep * Z.double() + torch.outer(move.left, move.right).double()
    found = run(code, f, Z, move, u)
    torch.testing.assert_close(Z.double(), moved, rtol=1e-6, atol=1e-6 * scale)
    moved = Z.double()  # the errors of the logits that were reached: rounding moves exp by |Z| eps
    weight = f.loss.weight.double()
    errors = weight[:, None] * (torch.softmax(moved, 1) - torch.eye(cases.M).double()[y])
    image, right = X.double() @ u.double(), move.right.double()
    losses = torch.logsumexp(moved, 1) - moved[torch.arange(cases.N), y]
    assert found.value == pytest.approx(float(weight @ losses), rel=1e-6)
    torch.testing.assert_close(found.image.double(), image, rtol=1e-6, atol=1e-5)
    for ours, exact in (
        (found.pulled, errors.mT @ image),
        (found.pushed, X.double().mT @ (errors @ right)),
    ):
        assert float((ours - exact).norm() / exact.norm()) <= 2e-6


def test_the_number_of_threads_leaves_the_bits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_HEIGHT", 32)
    f, before, found = problem(), torch.get_num_threads(), []
    for count in (1, 3):
        torch.set_num_threads(count)
        Z, move, u = start(f, 1.0)
        found.append((*run("compiled", f, Z, move, u), Z))
    torch.set_num_threads(before)
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1:], found[1][1:], strict=True))


def test_the_exponential_is_good_to_rounding() -> None:
    t = np.linspace(-87, 0, 200_001, dtype=np.float32)
    ours = np.array([exp(x) for x in t], dtype=np.float64)
    exact = np.exp(t.astype(np.float64))
    assert np.max(np.abs(ours / exact - 1)) <= 1.2e-7  # a unit in the last place
    assert exp(np.float32(0)) == 1.0
    assert 0 <= exp(np.float32(-1e30)) < 1e-37
    assert np.isnan(exp(np.float32(np.nan)))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_logit_that_is_no_number_is_not_hidden(code: str, bad: float) -> None:
    f = problem()
    Z, move, u = start(f, 1.0)
    Z[17, 3] = bad
    assert np.isnan(run(code, f, Z, move, u).value)


def test_steps_are_the_same_compiled_and_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(sweeps, "_WORTH_COMPILING", least)
        zero = Factors.zero(cases.D, cases.M, torch.float32)
        steps = RankOneFrankWolfe(problem(), 10.0, zero, torch.Generator().manual_seed(0))
        for _ in range(20):
            steps.step()
        values.append(steps.value)
    assert values[0] == pytest.approx(values[1], rel=1e-4)


def test_compiled_code_runs_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(sweeps, "compiled_sweep", lambda *_: ran.append("compiled"))
    monkeypatch.setattr(sweeps, "torch_sweep", lambda *_: ran.append("torch"))
    X, y = cases.data(torch.float32)
    rows, loss = ArrayRows(X), SoftmaxLoss(y, cases.M, torch.ones(cases.N))
    streamed = StreamedRows(lambda: iter([X.numpy()]), (cases.N, cases.D), torch.float32)
    wide = SoftmaxLoss(y, cases.M, torch.ones(cases.N, dtype=torch.float64))
    for f in (
        RowProblem(rows, loss),  # too small
        RowProblem(rows, SquaredLoss(X[:, : cases.M], torch.ones(cases.N))),
        RowProblem(streamed, loss),
        RowProblem(ArrayRows(X.double()), wide),
        RowProblem(ArrayRows(X.mT.contiguous().mT), loss),
        RowProblem(ArrayRows((100 * X.numpy()).astype(np.int16)), loss),
        RowProblem(rows, loss),
        problem("sparse"),
    ):
        sweep(f, *start(f, 1.0))
        monkeypatch.setattr(sweeps, "_WORTH_COMPILING", 0)
    assert ran == ["torch"] * 6 + ["compiled"] * 2


def test_without_numba_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(sweeps, "numba_or_none", lambda: None)
    monkeypatch.setattr(sweeps, "compiled_sweep", None)
    f = problem()
    assert sweep(f, *start(f, 1.0)).value > 0
