"""Checkpoints: what is damaged or foreign is refused, and what is left is used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from distributed.cases import by_hand, folder
from fwnet.distributed import FitConfig, load_model
from fwnet.estimators.low_rank.distributed.fit import fit

CONFIG = FitConfig(classes=5, radius=6.0, max_steps=9, checkpoint_every=3, tol=0.0, block=64)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards in `parts`, and in `m` the fit of nine steps to them."""
    path = tmp_path_factory.mktemp("finished")
    fit(folder(path, 200, 8, 5), path / "m", CONFIG)
    return path


@pytest.fixture
def data(finished: Path, tmp_path: Path) -> Path:
    """The shards, with the finished fit beside them."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path / "parts"


def files(out: Path) -> list[Path]:
    return sorted((out / "checkpoints").iterdir())


def test_the_last_two_are_kept(data: Path, tmp_path: Path) -> None:
    names = [path.name for path in files(tmp_path / "m")]
    assert names == ["step-000000006.ckpt", "step-000000009.ckpt"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_one_is_refused_and_the_one_before_is_used(
    damage: str, data: Path, tmp_path: Path
) -> None:
    model = (tmp_path / "m" / "model.safetensors").read_bytes()
    newest = files(tmp_path / "m")[-1]
    contents = bytearray(newest.read_bytes())
    if damage == "flipped":
        contents[len(contents) // 2] ^= 1
    newest.write_bytes({"truncated": contents[:-100], "flipped": contents, "empty": b""}[damage])
    said: list[str] = []
    fit(data, tmp_path / "m", CONFIG, say=said.append)
    assert len(said) == 2
    assert f"'{newest}' is not a whole checkpoint of a distributed fit: " in said[0]
    assert "It is refused; the one before it is used" in said[0]
    assert said[1] == "going on from the checkpoint of step 6."
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == model


def test_all_damaged_starts_anew(data: Path, tmp_path: Path) -> None:
    model = (tmp_path / "m" / "model.safetensors").read_bytes()
    for path in files(tmp_path / "m"):
        path.write_bytes(b"noise")
    said: list[str] = []
    fit(data, tmp_path / "m", CONFIG, say=said.append)
    assert len(said) == 2
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == model


def test_damaged_ones_do_not_push_out_a_new_one(data: Path, tmp_path: Path) -> None:
    for path in files(tmp_path / "m"):
        path.write_bytes(b"noise")
    fit(data, tmp_path / "m", replace(CONFIG, max_steps=3))
    said: list[str] = []
    fit(data, tmp_path / "m", CONFIG, say=said.append)
    assert said[-1] == "going on from the checkpoint of step 3."


def test_one_of_another_fit_is_refused(data: Path, tmp_path: Path) -> None:
    other = FitConfig(classes=5, radius=7.0, max_steps=9, checkpoint_every=3, block=64)
    with pytest.raises(
        ValueError, match=r"another fit: radius was 6\.0 there and is 7\.0 here\. Delete it"
    ):
        fit(data, tmp_path / "m", other)


def test_one_of_other_data_is_refused(data: Path, tmp_path: Path) -> None:
    label = by_hand(data) / "part-00001.y.npy"
    contents = bytearray(label.read_bytes())
    contents[-8] ^= 1  # another label
    label.write_bytes(contents)
    with pytest.raises(ValueError, match="another fit: checksum of the data was"):
        fit(data, tmp_path / "m", CONFIG)


class Touch:
    """A pickle that makes a file where it is loaded as code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_is_refused_and_not_run(data: Path, tmp_path: Path) -> None:
    torch.save({"t": Touch(tmp_path / "executed")}, files(tmp_path / "m")[-1])
    said: list[str] = []
    assert fit(data, tmp_path / "m", CONFIG, say=said.append).steps == 9
    assert "is not a whole checkpoint of a distributed fit" in said[0]
    assert not (tmp_path / "executed").exists()


def test_a_folder_in_place_of_one_is_passed_over(data: Path, tmp_path: Path) -> None:
    (tmp_path / "m" / "checkpoints" / "step-000000999.ckpt").mkdir()
    assert fit(data, tmp_path / "m", CONFIG).steps == 9


def test_a_limit_of_time_ends_certified_and_more_may_be_asked_later(
    data: Path, tmp_path: Path
) -> None:
    late = fit(data, tmp_path / "late", replace(CONFIG, max_seconds=1e-9))
    assert late.steps == 0
    assert late.gap > CONFIG.tol * late.value
    more = fit(data, tmp_path / "late", replace(CONFIG, max_seconds=1e9))
    assert torch.equal(more.s, load_model(tmp_path / "m").s)


def test_more_steps_may_be_asked_later(data: Path, tmp_path: Path) -> None:
    more = replace(CONFIG, max_steps=15)
    fit(data, tmp_path / "m", more)
    fit(data, tmp_path / "whole", more)
    two = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("m", "whole")]
    assert two[0] == two[1]
