"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fwnet.numerics.files import (
    CheckpointSeries,
    DamagedFile,
    FileFormat,
    ForeignFile,
    OtherRun,
    flattened,
    make_folder,
    rebuilt,
    written_whole,
)

FORMAT = FileFormat("thing", 2, "file of things", "Make it again.")
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("reason", [KeyboardInterrupt, RuntimeError])
def test_what_breaks_off_leaves_the_old(tmp_path: Path, reason: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken() -> None:
        with written_whole(path) as file:
            file.write(b"half")
            raise reason

    with pytest.raises(reason):
        broken()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]  # and no half beside it


def test_a_full_disk_is_told_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    (tmp_path / f"file.{os.getpid()}.part").symlink_to("/dev/full")  # every write finds no space
    wanted = r"--out file cannot be written: no space is left\. Make room\."
    with (
        pytest.raises(OSError, match=wanted),
        written_whole(path, "--out file", "Make room.") as file,
    ):
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    where = r"model= cannot be written: No such file.*\. Choose a path in a folder that exists"
    with pytest.raises(OSError, match=where), written_whole(tmp_path / "no" / "file", "model="):
        pass


def contents() -> tuple[dict[str, Any], dict[str, Tensor]]:
    facts = {"a": 0.1 + 0.2, "b": [1, None, True, "β"], "c": {"d": float("inf")}}
    return facts, {"x": torch.randn(3, 4), "empty": torch.empty(0, 2), "scalar": torch.tensor(7)}


def written(folder: Path) -> Path:
    FORMAT.write(folder / "file", *contents())
    return folder / "file"


def test_facts_and_tensors_come_back(tmp_path: Path) -> None:
    facts, tensors = contents()
    tensors |= {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES}
    FORMAT.write(tmp_path / "file", facts, tensors)
    there, back = FORMAT.read(tmp_path / "file")
    assert there == facts
    assert set(back) == set(tensors)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert all(back[name].dtype == tensors[name].dtype for name in tensors)


def test_tensors_may_share_memory_and_be_views(tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    tensors = {"x": x, "turned": x.mT, "part": x[:, 1], "again": x}
    FORMAT.write(tmp_path / "file", {}, tensors)
    back = FORMAT.read(tmp_path / "file")[1]
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)


def test_numbers_as_names_come_back_as_texts(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "file", {"by size": {9: "a", 10: "b"}}, {})
    assert FORMAT.read(tmp_path / "file")[0] == {"by size": {"9": "a", "10": "b"}}


@pytest.mark.parametrize("facts", [{"x": torch.ones(1)}, {"x": {1, 2}}, {"x": {3: 1, "y": 2}}])
def test_facts_that_json_cannot_express(tmp_path: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"JSON serializable|not supported between"):
        FORMAT.write(tmp_path / "file", facts, {})
    assert list(tmp_path.iterdir()) == []


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole, facts = path.read_bytes(), contents()[0]
    x = FORMAT.read(path)[1]["x"]
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x41
        path.write_bytes(spoilt)
        try:
            there, tensors = FORMAT.read(path, "it")
        except (DamagedFile, ForeignFile):
            pass
        else:  # a blank of the header
            assert (there, tensors["x"].tolist()) == (facts, x.tolist())


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 50, 0.5, -1])
def test_a_file_that_is_cut_off(tmp_path: Path, keep: float) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(DamagedFile, match=r"file' is not a whole file of things: .*Make it again"):
        FORMAT.read(path)


OTHERS: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "kind": (
        lambda path: replace(FORMAT, kind="stone").write(path, {}, {}),
        ForeignFile,
        r"it holds a stone, not a file of things\. Make it again\.",
    ),
    "version": (
        lambda path: replace(FORMAT, version=3).write(path, {}, {}),
        ForeignFile,
        r"it has format 3, this fwnet reads 2\. Use the fwnet that wrote it\. Make it again\.",
    ),
    "pickle": (
        lambda path: torch.save({"x": torch.ones(2)}, path),
        DamagedFile,
        "it is not a whole file of things: it is truncated, or something else",
    ),
    "folder": (lambda path: path.mkdir(), OSError, "it cannot be read: Is a directory"),
    "nothing": (lambda path: None, FileNotFoundError, r"it does not exist\."),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_thing_in_its_place(tmp_path: Path, name: str) -> None:
    make, kind, text = OTHERS[name]
    make(tmp_path / "file")
    with pytest.raises(kind, match=text):
        FORMAT.read(tmp_path / "file", "it")


def test_a_file_of_another_run() -> None:
    FORMAT.check_run("it", {"C": 1.0, "shape": [2, 3]}, {"shape": (2, 3), "C": 1.0})
    wanted = r"it belongs to another fit: C was 1\.0 there and is 2 here; n was None there and is"
    with pytest.raises(OtherRun, match=wanted):
        FORMAT.check_run("it", {"C": 1.0}, {"C": 2, "n": 3})


def test_a_series_keeps_the_last_and_skips_the_damaged(tmp_path: Path) -> None:
    series = CheckpointSeries(tmp_path / "new", FORMAT, "round", 3)
    said: list[str] = []
    assert series.read(said.append) is None
    for number in (1, 5, 20, 100):
        series.write(number, {"number": number}, {"x": torch.tensor(number)})
    names = sorted(path.name for path in series.folder.iterdir())
    assert names == [f"round-{number:09d}.ckpt" for number in (5, 20, 100)]
    (series.folder / names[-1]).write_bytes(b"")
    (series.folder / "round-000000999.ckpt").mkdir()
    newest = series.read(said.append)
    assert newest is not None
    path, facts, tensors = newest
    assert (path.name, facts, int(tensors["x"])) == (names[1], {"number": 20}, 20)
    assert len(said) == 1
    assert names[-1] in said[0]
    assert said[0].endswith("It is refused; the one before it is used.")
    series.write(21, {}, {})  # files of larger numbers, which were refused, do not push it out
    newest = series.read(said.append)
    assert newest is not None
    assert newest[0].name == "round-000000021.ckpt"


def test_nested_containers_come_back() -> None:
    x = torch.randn(2)
    state = {0: {"step": x, "betas": (0.9, 0.999)}}
    tree: dict[str, Any] = {"state": state, "groups": [{"lr": 1e-3}, None, []]}
    back = rebuilt(*flattened(tree))
    assert torch.equal(back["state"][0].pop("step"), tree["state"][0].pop("step"))
    assert back == tree
    assert isinstance(back["state"][0]["betas"], tuple)


@pytest.mark.parametrize("name", ["file/below", "zero\0byte"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"out= cannot be a folder: .*\. Choose another folder"):
        make_folder(tmp_path / name, "out=")
