"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fwnet.numerics.files import written_whole


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
    told = r"--out file cannot be written: no space is left\. Make room\."
    with (
        pytest.raises(OSError, match=told),
        written_whole(path, "--out file", "Make room.") as file,
    ):
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    where = r"model= cannot be written: No such file.*\. Choose a path in a folder that exists"
    with pytest.raises(OSError, match=where), written_whole(tmp_path / "no" / "file", "model="):
        pass
