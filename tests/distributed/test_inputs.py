"""Shards, sums and bad input."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from distributed.cases import by_hand, folder, rows
from fwnet.cli import run as command
from fwnet.distributed import FitConfig, open_shards, write_shards
from fwnet.estimators.low_rank.distributed.exact_sums import FixedPoint
from fwnet.estimators.low_rank.distributed.fit import fit


def test_shards_hold_the_rows_in_order(tmp_path: Path) -> None:
    X, y = rows(250, 4, 3, np.float32)
    shards = open_shards(write_shards(tmp_path / "parts", X, y, rows=100))
    assert (shards.rows, shards.features, shards.dtype) == (250, 4, torch.float32)
    blocks = shards.blocks(64)
    assert [b.rows for b in blocks] == [64, 36, 64, 36, 50]
    assert [b.first_row for b in blocks] == [0, 64, 100, 164, 200]
    parts = [shards.read(b) for b in blocks]
    assert np.array_equal(torch.cat([p[0].data for p in parts]).numpy(), X)
    assert np.array_equal(torch.cat([p[1] for p in parts]).numpy(), y)


def test_the_command_shards_and_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = rows(120, 4, 3)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    files, parts = [str(tmp_path / "X.npy"), str(tmp_path / "y.npy")], str(tmp_path / "parts")
    assert command(["distributed", "shard", *files, "--out", parts, "--rows", "50"]) == 0
    assert "120 rows in 3 shards" in capsys.readouterr().out
    given = ["--data", parts, "--classes", "3", "--radius", "5", "--max-steps", "2"]
    assert command(["distributed", "fit", *given, "--out", str(tmp_path / "model")]) == 0
    assert "step      2  loss" in capsys.readouterr().out
    assert command(["distributed", "shard", *files, "--out", parts]) == 1
    assert "exists already; choose another, or delete it." in capsys.readouterr().err
    given[5] = "-1"
    assert command(["distributed", "fit", *given, "--out", str(tmp_path / "model")]) == 1
    wanted = "fwnet: radius must be a positive finite number; got -1.0."
    assert wanted in capsys.readouterr().err


def save(data: Path, name: str, array: np.ndarray) -> None:
    np.save(data / f"{name}.npy", array)


BAD = {
    "label": (
        lambda data: save(data, "part-00001.y", np.full(100, 3)),
        r"labels must lie in 0\.\.2; row 100 \(row 0 of part-00001\.X\.npy\) has label 3\. Pass a "
        r"larger number of classes, or number the labels from 0\.",
    ),
    "infinite": (
        lambda data: save(data, "part-00000.X", np.full((100, 4), np.inf)),
        r"X must be finite; row 0 .* is inf\. Repair or drop that row\.",
    ),
    "empty shard": (
        lambda data: (
            save(data, "part-00002.X", np.zeros((0, 4))),
            save(data, "part-00002.y", np.zeros(0, int)),
        ),
        r"part-00002: X must not be empty; got shape \(0, 4\)\. Leave the shard out\.",
    ),
    "other d": (
        lambda data: save(data, "part-00001.X", np.zeros((100, 5))),
        "part-00001: all shards must have the same features and dtype; got 5 of float64 here and 4 "
        "of float64 in part-00000",
    ),
    "other dtype": (
        lambda data: save(data, "part-00001.X", np.zeros((100, 4), np.float32)),
        "got 4 of float32 here and 4 of float64 in part-00000",
    ),
    "integers": (
        lambda data: save(data, "part-00000.X", np.zeros((100, 4), int)),
        "part-00000: X must be a matrix of float32 or float64, dense or CSR; got int64 "
        r"\(100, 4\)\. Convert it",
    ),
    "float labels": (
        lambda data: save(data, "part-00000.y", np.zeros(100)),
        r"part-00000: y must be 100 whole numbers, one for each row of X; got float64 \(100,\)",
    ),
    "no labels": (
        lambda data: (data / "part-00000.y.npy").unlink(),
        "is missing: a shard is <name>",
    ),
    "cut off": (
        lambda data: (data / "part-00001.X.npy").write_bytes(
            (data / "part-00001.X.npy").read_bytes()[:1000]
        ),
        "part-00001.X.npy cannot be read as a .npy file: .* Write the shards again",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_shards_raise_clear_errors(name: str, tmp_path: Path) -> None:
    data = by_hand(folder(tmp_path, 200, 4, 3))
    spoil, text = BAD[name]
    spoil(data)
    with pytest.raises(ValueError, match=text):
        fit(data, tmp_path / "m", FitConfig(3, 5.0, max_steps=1))


def test_no_shards_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none was found\. Write it with `fwnet distributed"):
        fit(tmp_path / "nowhere", tmp_path / "m", FitConfig(3, 5.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6, 1e11])
def test_the_value_is_that_of_the_model_and_no_worse_than_zero(
    scale: float, dtype: type, tmp_path: Path
) -> None:
    X, y = rows(200, 4, 3)
    X = (X * scale).astype(dtype)
    data = write_shards(tmp_path / "parts", X, y, rows=100)
    model = fit(data, tmp_path / "m", FitConfig(3, 5.0, max_steps=4, tol=0.0, block=112))
    logits = X.astype(float) @ (model.U.double() * model.s).numpy() @ model.V.double().numpy().T
    largest = logits.max(-1, keepdims=True)
    norms = np.log(np.exp(logits - largest).sum(-1)) + largest[:, 0]
    loss = (norms - logits[np.arange(200), y]).mean()
    assert model.value == pytest.approx(loss, rel=1e-12 if dtype is np.float64 else 1e-6)
    assert loss <= np.log(3) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("size", "dtype", "radius", "text"),
    [
        (1e16, np.float64, 5.0, r"at most 4\.4e\+12, .* 5\.0e\+00 · 1\.4e\+16 = 7\.1e\+16\. Scale"),
        (1e30, np.float32, 5.0, r"at most 4\.4e\+12, .* 5\.0e\+00 · 1\.4e\+30 = 7\.1e\+30\. Scale"),
        (1e33, np.float32, 1e-33, r"norm of a row of X must be at most 3e\+32 in torch\.float32"),
        (1.0, np.float32, 1e35, r"radius must be at most 3e\+32 in torch\.float32; got 1\.0e\+35"),
        (1e200, np.float64, 5.0, r"norm is finite in float64; row 0 .* is 1e\+200\. Scale"),
        (1e-200, np.float64, 5.0, r"at least 1e-150, or its square underflows; .* Scale"),
    ],
)
def test_features_beyond_the_range_of_their_dtype_raise(
    size: float, dtype: type, radius: float, text: str, tmp_path: Path
) -> None:
    data = write_shards(tmp_path / "parts", np.full((20, 2), size, dtype), np.arange(20) % 2)
    with pytest.raises(ValueError, match=text):
        fit(data, tmp_path / "m", FitConfig(2, radius))


def test_features_of_zero_have_nothing_to_learn(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "parts", np.zeros((20, 2)), np.arange(20) % 2)
    model = fit(data, tmp_path / "m", FitConfig(2, 3.0))
    assert (model.gap, model.steps) == (0.0, 0)
    assert model.value == pytest.approx(np.log(2))
    assert model.predict(torch.ones(3, 2)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"radius": 0.0}, "radius must be a positive finite number; got 0.0."),
        ({"radius": float("nan")}, "radius must be a positive finite number; got nan."),
        ({"classes": 1}, "classes must be a whole number of at least 2; got 1."),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1; got 0."),
        ({"tol": -1.0}, "tol must be a finite number of at least 0; got -1.0."),
        ({"block": 100}, "block must be a multiple of 16; got 100."),
        ({"max_seconds": 0.0}, "max_seconds must be a positive finite number; got 0.0."),
    ],
)
def test_bad_settings_raise_clear_errors(change: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        FitConfig(**{"classes": 3, "radius": 5.0, **change})


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    config = FitConfig(np.int64(3), np.float32(5.0), max_steps=np.int64(2), block=np.int64(16))
    assert config == FitConfig(3, 5.0, max_steps=2, block=16)
    assert fit(folder(tmp_path, 200, 4, 3), tmp_path / "m", config).steps == 2  # and is written


def test_rows_that_are_written_column_by_column(tmp_path: Path) -> None:
    X, y = rows(100, 4, 3)
    (tmp_path / "turned").mkdir()
    save(tmp_path / "turned", "a.X", np.asfortranarray(X))
    save(tmp_path / "turned", "a.y", y)
    config = FitConfig(3, 5.0, max_steps=5, block=16)
    turned = fit(tmp_path / "turned", tmp_path / "m", config)
    plain = fit(folder(tmp_path, 100, 4, 3), tmp_path / "n", config)
    assert turned.value == pytest.approx(plain.value, rel=1e-9)


def test_a_folder_that_cannot_be_made_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seen: list[object] = []
    with pytest.raises(
        ValueError, match=r"file/checkpoints cannot be a folder: .* another folder\."
    ):
        fit(
            folder(tmp_path, 200, 4, 3), tmp_path / "file", FitConfig(3, 5.0), on_report=seen.append
        )
    assert seen == []


def test_settings_that_are_no_config_raise_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"config must be a FitConfig\(...\); got dict\."):
        fit(folder(tmp_path, 200, 4, 3), tmp_path / "m", {"classes": 3})


def test_no_cuda_and_no_threads_raise_clear_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    given = ["fit", "--data", "x", "--out", "y", "--classes", "3", "--radius", "5"]
    assert command(["distributed", *given, "--device", "cuda"]) == 1
    assert "device='cuda' needs a CUDA device; none was found." in capsys.readouterr().err
    assert command(["distributed", *given, "--threads", "0"]) == 1
    assert "threads must be a whole number of at least 1; got 0." in capsys.readouterr().err


def test_sums_do_not_depend_on_their_order_and_are_exact_to_float64() -> None:
    generator = torch.Generator().manual_seed(1)
    parts = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    parts = parts * 10.0 ** torch.arange(-12, 13, 0.05, dtype=torch.float64)[:500, None]
    bound = float(parts.abs().sum(0).max())
    point = FixedPoint(bound)
    orders = [torch.randperm(500, generator=generator) for _ in range(5)]
    totals = [point.decode(sum(point.encode(parts[k]) for k in order)) for order in orders]
    assert all(torch.equal(total, totals[0]) for total in totals)
    for k in range(3):
        exact = sum((Fraction(float(p)) for p in parts[:, k]), Fraction(0))
        assert abs(float(totals[0][k]) - float(exact)) <= 500 * point.unit + 1e-15 * bound


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e9])
def test_a_part_that_is_not_finite_or_beyond_the_bound_spoils_the_sum(bad: float) -> None:
    point = FixedPoint(8.0)
    total = point.encode(torch.tensor([1.0, bad])) + point.encode(torch.tensor([1.0, 2.0]))
    assert bool(point.decode(total).isnan().all())


def test_a_bound_of_zero_has_the_sum_zero() -> None:
    point = FixedPoint(0.0)
    assert point.decode(point.encode(torch.zeros(2))).tolist() == [0.0, 0.0]
