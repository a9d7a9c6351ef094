"""Shards of CSR rows: the fit of the same rows kept dense, and clear errors for bad ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from distributed.cases import by_hand, sparse_rows
from fwnet.cli import run as command
from fwnet.distributed import FitConfig, Team, open_shards, write_shards
from fwnet.estimators.low_rank.distributed.fit import fit
from fwnet.estimators.low_rank.distributed.rows import WorkerRows

CONFIG = FitConfig(5, 8.0, max_steps=12, checkpoint_every=6, block=16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fit_is_that_of_dense_rows(dtype: type, tmp_path: Path) -> None:
    X, y = sparse_rows(150, 9, 5, dtype)
    model = fit(write_shards(tmp_path / "a", X, y, rows=60), tmp_path / "m", CONFIG)
    dense = fit(write_shards(tmp_path / "b", X.toarray(), y, rows=60), tmp_path / "n", CONFIG)
    assert model.value == pytest.approx(dense.value, rel=1e-4 if dtype is np.float32 else 1e-9)
    W, A = (
        (model.U.double() * model.s) @ model.V.double().mT,
        torch.from_numpy(X.toarray()).double(),
    )
    E = torch.softmax(A @ W, -1) - torch.eye(5, dtype=torch.float64)[y]
    G = A.mT @ E / 150
    gap = float((G * W).sum() + 8.0 * torch.linalg.matrix_norm(G, 2))
    assert model.gap == pytest.approx(gap, rel=1e-3 if dtype is np.float32 else 1e-8)
    torch.testing.assert_close(model.scores(X), model.scores(X.toarray()), rtol=1e-5, atol=1e-5)


def test_dense_and_sparse_shards_in_one_folder(tmp_path: Path) -> None:
    X, y = sparse_rows(120, 9, 5)
    parts = by_hand(write_shards(tmp_path / "a", X, y, rows=60))
    second = list(parts.glob("part-00001.X.*"))
    assert len(second) == 4
    for path in second:
        path.unlink()
    np.save(parts / "part-00001.X.npy", X[60:].toarray())
    mixed = fit(parts, tmp_path / "m", CONFIG)
    scores = mixed.scores(X.toarray())
    loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
    assert mixed.value == pytest.approx(float(loss), rel=1e-9)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    X, y = sparse_rows(100, 9, 5)
    messy = sparse.coo_matrix((np.r_[X.data, X.data], np.tile(X.nonzero(), 2)), X.shape)
    shards = open_shards(write_shards(tmp_path / "a", messy, y, rows=45))
    blocks = shards.blocks(32)
    whole = sparse.vstack([shards.read(block)[0].data for block in blocks])
    assert abs(whole - 2 * X).max() == 0
    rows = WorkerRows(shards, 5, 32, Team())
    assert rows.reach == pytest.approx(2 * np.sqrt(X.power(2).sum(1).max()))


def test_the_command_takes_what_scipy_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = sparse_rows(90, 9, 5)
    sparse.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", y)
    files = [str(tmp_path / "X.npz"), str(tmp_path / "y.npy")]
    assert (
        command(["distributed", "shard", *files, "--out", str(tmp_path / "parts"), "--rows", "40"])
        == 0
    )
    assert "90 rows in 3 shards" in capsys.readouterr().out
    assert open_shards(tmp_path / "parts").rows == 90
    (tmp_path / "X.npz").write_bytes(b"no zip")
    assert command(["distributed", "shard", *files, "--out", str(tmp_path / "more")]) == 1
    wanted = "X.npz' cannot be read as a matrix of scipy.sparse.save_npz: "
    assert wanted in capsys.readouterr().err


def spoil(path: Path, name: str, index: int, value: float) -> None:
    array = np.load(path / f"part-00000.X.{name}.npy")
    array[index] = value
    np.save(path / f"part-00000.X.{name}.npy", array)


@pytest.mark.parametrize(
    ("name", "index", "value", "text"),
    [
        (
            "data",
            0,
            np.nan,
            r"X must be finite; row 0 \(row 0 of part-00000\.X\), column \d, is nan",
        ),
        ("indices", 0, 99, r"not a CSR matrix from row 0 \(row 0 of part-00000\.X\) on: .* Write"),
        ("indices", 0, 8, "an entry comes twice, or columns are unsorted"),
        ("indptr", 1, 50, "not a CSR matrix from row 0"),
        ("indptr", -1, 3, r"part-00000\.X\.\*\.npy are not the parts of one CSR matrix\. Write"),
        ("shape", 0, 7, "are not the parts of one CSR matrix"),
    ],
)
def test_damaged_parts_raise_clear_errors(
    name: str, index: int, value: float, text: str, tmp_path: Path
) -> None:
    parts = by_hand(write_shards(tmp_path / "a", *sparse_rows(100, 9, 5)))
    spoil(parts, name, index, value)
    with pytest.raises(ValueError, match=text):
        fit(parts, tmp_path / "m", CONFIG)


def test_a_part_that_is_missing(tmp_path: Path) -> None:
    parts = by_hand(write_shards(tmp_path / "a", *sparse_rows(100, 9, 5)))
    (parts / "part-00000.X.data.npy").unlink()
    with pytest.raises(ValueError, match=r"part-00000\.X\.data\.npy is missing: a shard is <name>"):
        open_shards(parts)


def test_sparse_rows_stay_on_the_cpu(tmp_path: Path) -> None:
    shards = open_shards(write_shards(tmp_path / "a", *sparse_rows(100, 9, 5)))
    with pytest.raises(
        ValueError, match="sparse shards are computed on the CPU; fit with --device"
    ):
        WorkerRows(shards, 5, 16, Team(device=torch.device("meta")))


def test_without_scipy_a_clear_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = by_hand(write_shards(tmp_path / "a", *sparse_rows(100, 9, 5)))
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(
        ImportError, match=r'a sparse matrix needs SciPy\. .* pip install "fwnet\[lp\]"'
    ):
        open_shards(parts)
