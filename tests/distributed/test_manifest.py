"""The manifest: a lost, cut, swapped or added file is noticed before a step is taken."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from distributed.cases import by_hand, folder, rows, sparse_rows
from fwnet.cli import run as command
from fwnet.distributed import FitConfig, open_shards, write_shards
from fwnet.estimators.low_rank.distributed import matrix_files
from fwnet.estimators.low_rank.distributed.fit import fit

CONFIG = FitConfig(3, 5.0, max_steps=1)


def lose(*names: str) -> Callable[[Path], object]:
    return lambda data: [(data / f"part-{name}.npy").unlink() for name in names]


def swap(data: Path) -> None:
    """Two shards of the same length change places, rows only."""
    first, second = data / "part-00000.X.npy", data / "part-00001.X.npy"
    contents = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(contents)


def flip(data: Path) -> None:
    path = data / "part-00001.X.npy"
    contents = bytearray(path.read_bytes())
    contents[-20] ^= 1  # the last digits of a number: nothing but the hash shows it
    path.write_bytes(contents)


def cut(data: Path) -> None:
    path = data / "part-00001.y.npy"
    path.write_bytes(path.read_bytes()[:-8])


def add(data: Path) -> None:
    for part in ("X", "y"):
        shutil.copy(data / f"part-00000.{part}.npy", data / f"part-00004.{part}.npy")


def note(change: Callable[[dict], object]) -> Callable[[Path], object]:
    def spoil(data: Path) -> None:
        found = json.loads((data / "manifest.json").read_text())
        change(found)
        (data / "manifest.json").write_text(json.dumps(found))

    return spoil


def text(contents: str) -> Callable[[Path], object]:
    return lambda data: (data / "manifest.json").write_text(contents)


CHANGES = {
    "rows": (lose("00001.X"), r"part-00001\.X\.npy is missing: manifest\.json lists 4 shards of"),
    "labels": (lose("00003.y"), r"part-00003\.y\.npy is missing: manifest\.json lists 4 shards of"),
    "a pair": (lose("00003.X", "00003.y"), r"part-00003\.X\.npy is missing: .* of 400 rows"),
    "all": (lambda data: [p.unlink() for p in data.glob("*.npy")], r"part-00000\.X\.npy is missi"),
    "swapped": (swap, r"part-00000\.X\.npy does not match its hash in manifest\.json: .* again"),
    "a bit": (flip, r"part-00001\.X\.npy does not match its hash"),
    "cut": (cut, r"part-00001\.y\.npy has 920 bytes, but 928 were written: it is cut off"),
    "added": (add, r"part-00004\.\* is not in manifest\.json\. Write the shards again; if"),
    "format": (note(lambda found: found.update(format=2)), "has format 2, this fwnet reads 1"),
    "list": (text("[1, 2]"), r"manifest\.json is not the manifest of shards: .*Write the shards"),
    "empty": (text(""), r"manifest\.json is not the manifest of shards"),
    "deep": (text("[" * 100_000), r"manifest\.json is not the manifest of shards"),
    "a folder": (
        lambda data: ((data / "manifest.json").unlink(), (data / "manifest.json").mkdir()),
        r"manifest\.json is not the manifest of shards: .*Is a directory",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_shards_raise(name: str, tmp_path: Path) -> None:
    data = folder(tmp_path, 400, 4, 3)
    spoil, message = CHANGES[name]
    spoil(data)
    with pytest.raises(ValueError, match=message):
        fit(data, tmp_path / "m", CONFIG)
    assert not (tmp_path / "m").exists()


def test_a_lost_part_of_a_csr_matrix_raises(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "a", *sparse_rows(100, 9, 5), rows=50)
    (data / "part-00001.X.indptr.npy").unlink()
    with pytest.raises(ValueError, match=r"part-00001\.X\.indptr\.npy is missing"):
        open_shards(data)
    with pytest.raises(ValueError, match=r"part-00001 has labels and no rows\. Restore"):
        open_shards(by_hand(data))


def test_what_the_manifest_says(tmp_path: Path) -> None:
    X, y = rows(250, 4, 3, np.float32)
    data = write_shards(tmp_path / "parts", X, y, rows=100)
    found = json.loads((data / "manifest.json").read_text())
    assert {k: found[k] for k in ("format", "features", "classes", "dtype")} == {
        "format": 1,
        "features": 4,
        "classes": 3,
        "dtype": "float32",
    }
    assert [(s["name"], s["rows"]) for s in found["shards"]] == [
        ("part-00000", 100),
        ("part-00001", 100),
        ("part-00002", 50),
    ]
    for k, part in enumerate((X[:100], X[100:200], X[200:])):  # the format is NumPy's own
        plain = io.BytesIO()
        np.save(plain, part)
        assert (data / f"part-{k:05d}.X.npy").read_bytes() == plain.getvalue()


def hand_made(path: Path, names: list[str]) -> Path:
    path.mkdir()
    X, y = rows(100, 4, 3)
    for name in names:
        np.save(path / f"{name}.X.npy", X)
        np.save(path / f"{name}.y.npy", y)
    return path


@pytest.mark.parametrize(
    ("names", "lost"),
    [
        (["part-00001", "part-00002"], 0),
        (["part-00000", "part-00002"], 1),
        (["x7", "x8", "x10"], 9),
        (["7", "9"], 8),
    ],
)
def test_a_gap_in_the_numbers_of_hand_made_shards_raises(
    names: list[str], lost: int, tmp_path: Path
) -> None:
    data = hand_made(tmp_path / "parts", names)
    with pytest.raises(ValueError, match=f"number {lost} is missing. Restore it, or number the sh"):
        open_shards(data)


@pytest.mark.parametrize(
    "names", [["x3", "x4"], ["train", "more"], ["a1", "b3"], ["part-00000"], ["tägliche Daten"]]
)
def test_hand_made_shards_of_other_names(names: list[str], tmp_path: Path) -> None:
    assert open_shards(hand_made(tmp_path / "parts", names)).rows == 100 * len(names)


def test_labels_without_rows_and_rows_twice_raise(tmp_path: Path) -> None:
    data = hand_made(tmp_path / "parts", ["a", "b"])
    np.save(data / "a.X.indptr.npy", np.zeros(2, int))
    with pytest.raises(ValueError, match=r"a has dense and CSR rows\. Delete one of them\."):
        open_shards(data)
    (data / "a.X.indptr.npy").unlink()
    (data / "b.X.npy").unlink()
    with pytest.raises(ValueError, match=r"b has labels and no rows\. Restore its rows, or delete"):
        open_shards(data)


def test_a_full_disk_leaves_nothing_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    X, y = rows(100, 4, 3)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    monkeypatch.setattr(matrix_files.os, "fsync", full)
    message = r"part-00000\.X\.npy \([\d,]+ bytes are free\) cannot be written: no space is left\. "
    with pytest.raises(OSError, match=message + "Choose a path in a folder that"):
        write_shards(tmp_path / "parts", X, y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "y.npy"]
    files = [str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]
    assert command(["distributed", "shard", *files, "--out", str(tmp_path / "parts")]) == 1
    assert "no space is left" in capsys.readouterr().err


def test_an_interrupted_writer_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix_files.os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_shards(tmp_path / "parts", *rows(100, 4, 3))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_user_beside_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "parts.part").mkdir()
    (tmp_path / "parts.part" / "thesis.tex").write_text("years of work")
    write_shards(tmp_path / "parts", *rows(100, 4, 3))
    assert (tmp_path / "parts.part" / "thesis.tex").read_text() == "years of work"


def test_a_path_through_a_file_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file/parts \(.* are free\) cannot be written: Not a dir"):
        write_shards(tmp_path / "file" / "parts", *rows(100, 4, 3))


def test_a_mask_is_not_lost_silently(tmp_path: Path) -> None:
    X, y = rows(100, 4, 3)
    with pytest.raises(TypeError, match=r"X must not be a masked array, .* X\.filled\(...\)"):
        write_shards(tmp_path / "parts", np.ma.masked_array(X, X > 1), y)
    assert list(tmp_path.iterdir()) == []


def test_tensors_with_gradients_are_taken_and_bfloat16_is_not(tmp_path: Path) -> None:
    X, y = rows(100, 4, 3)
    tensor = torch.tensor(X, requires_grad=True)
    assert open_shards(write_shards(tmp_path / "a", tensor, y)).dtype == torch.float64
    with pytest.raises(TypeError, match=r"X is torch\.bfloat16\. Convert it with X\.float\(\)"):
        write_shards(tmp_path / "b", tensor.bfloat16(), y)


def test_labels_of_the_other_byte_order(tmp_path: Path) -> None:
    data = hand_made(tmp_path / "parts", ["a"])
    native = fit(data, tmp_path / "m", CONFIG)
    np.save(data / "a.y.npy", np.load(data / "a.y.npy").astype(">i4"))
    assert fit(data, tmp_path / "m", CONFIG).value == native.value


def test_a_damaged_matrix_of_scipy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sparse.save_npz(tmp_path / "X.npz", sparse_rows(100, 9, 5)[0])
    content = bytearray((tmp_path / "X.npz").read_bytes())
    place = content.index(b"data.npy") + 150
    content[place : place + 100] = bytes(100)  # zlib finds it
    (tmp_path / "X.npz").write_bytes(content)
    np.save(tmp_path / "y.npy", rows(100, 4, 3)[1])
    files = [str(tmp_path / "X.npz"), str(tmp_path / "y.npy")]
    assert command(["distributed", "shard", *files, "--out", str(tmp_path / "parts")]) == 1
    expected = "X.npz' cannot be read as a matrix of scipy.sparse.save_npz: "
    assert expected in capsys.readouterr().err
