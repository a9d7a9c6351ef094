"""Shards: rows and labels in memory-mapped files, cut into one global list of blocks."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from fwnet import checks

_ROWS, _LABELS = ".X.npy", ".y.npy"
_CHUNK = 1 << 26  # bytes that are copied at once


class Block(NamedTuple):
    """Some rows of one file: the unit of every sum, whoever computes it."""

    shard: int
    start: int
    stop: int
    first_row: int  # of all rows

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


@final
@dataclass(frozen=True, eq=False)
class Shards:
    """The files of a folder, `<name>.X.npy` (n, d) and `<name>.y.npy` (n,), in order of name.

    Opening reads headers only; the rows stay on disk until a block is asked for.
    """

    names: tuple[str, ...]
    X: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(len(part) for part in self.X)

    @property
    def features(self) -> int:
        """d."""
        return int(self.X[0].shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return torch.float32 if self.X[0].dtype == np.float32 else torch.float64

    def blocks(self, size: int) -> list[Block]:
        """The global partition, at most `size` rows each; no block crosses two files."""
        found, first_row = [], 0
        for shard, part in enumerate(self.X):
            for start in range(0, len(part), size):
                stop = min(start + size, len(part))
                found.append(Block(shard, start, stop, first_row + start))
            first_row += len(part)
        return found

    def read(self, block: Block) -> tuple[Tensor, Tensor]:
        """Rows `(k, d)` and labels `(k,)` of a block, views of files that hold row after row."""
        rows = slice(block.start, block.stop)
        X, y = (np.ascontiguousarray(part[block.shard][rows]) for part in (self.X, self.y))
        return torch.from_numpy(X), torch.from_numpy(y)

    def where(self, block: Block, row: int) -> str:
        """A row of a block, in words."""
        file = self.names[block.shard] + _ROWS
        return f"row {block.first_row + row} (row {block.start + row} of {file})"


def open_shards(folder: str | os.PathLike[str]) -> Shards:
    """Memory-map the shards of a folder; raise with a sentence if they do not fit together."""
    folder = Path(folder)
    paths = sorted(folder.glob("*" + _ROWS)) if folder.is_dir() else []
    if not paths:
        raise ValueError(
            f"data={str(folder)!r} must be a folder with files <name>{_ROWS} and <name>{_LABELS}; "
            "none was found. Write it with `python -m fwnet.distributed shard`."
        )
    names = tuple(path.name.removesuffix(_ROWS) for path in paths)
    X = tuple(_open(path) for path in paths)
    y = tuple(_open(folder / (name + _LABELS)) for name in names)
    for name, rows, labels in zip(names, X, y, strict=True):
        _check(name, rows, labels, names[0], X[0])
    return Shards(names, X, y)


def write_shards(
    folder: str | os.PathLike[str],
    X: Any,  # (n, d)
    y: Any,  # (n,)
    rows: int = 250_000,
) -> Path:
    """Write rows and labels as shards of `rows` rows: all of them or, if it fails, none.

    Arguments:
        folder: must not exist yet.
        X: float32 or float64; `np.memmap`s are copied piece by piece.
        y: whole numbers.
        rows: of one shard.

    Example:
        >>> import tempfile
        >>> from fwnet.distributed import write_shards
        >>> path = tempfile.mkdtemp() + "/parts"
        >>> folder = write_shards(path, torch.randn(3, 2), torch.tensor([0, 1, 1]), rows=2)
        >>> sorted(file.name for file in folder.iterdir())
        ['part-00000.X.npy', 'part-00000.y.npy', 'part-00001.X.npy', 'part-00001.y.npy']
    """
    folder, X, y = Path(folder), np.asanyarray(X), np.asanyarray(y)
    checks.at_least("write_shards(rows=...)", rows, 1)
    _check("write_shards", X, y, "write_shards", X)
    if folder.exists():
        raise ValueError(f"folder={str(folder)!r} exists already; choose another, or delete it.")
    beside = folder.with_name(folder.name + ".part")
    if beside.exists():  # of a run that was killed
        shutil.rmtree(beside)
    beside.mkdir(parents=True)
    for index, start in enumerate(range(0, len(X), rows)):
        stop, name = min(start + rows, len(X)), beside / f"part-{index:05d}"
        _copy(Path(f"{name}{_ROWS}"), X[start:stop], X.dtype)
        _copy(Path(f"{name}{_LABELS}"), y[start:stop], np.dtype(np.int64))
    os.replace(beside, folder)
    return folder


def _copy(path: Path, source: np.ndarray, dtype: np.dtype[Any]) -> None:
    target = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=source.shape)
    step = max(1, _CHUNK // max(1, source[:1].nbytes))
    for start in range(0, len(source), step):
        target[start : start + step] = source[start : start + step]
    target.flush()


def _open(path: Path) -> np.ndarray:
    try:
        # Copy on write: torch wants memory that it may write to; the file is never changed.
        array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: every <name>{_ROWS} has a <name>{_LABELS}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{path} cannot be read as a .npy file: {error}. Write the shards again."
        ) from None
    return array


def _check(name: str, X: np.ndarray, y: np.ndarray, first_name: str, first: np.ndarray) -> None:
    if X.ndim != 2 or X.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"{name}: X must be a dense matrix of float32 or float64; got {X.dtype} {X.shape}. "
            "Convert it with X.astype(np.float32)."
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name}: X must not be empty; got shape {X.shape}. Leave the shard out.")
    if y.shape != X.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: y must be {len(X)} whole numbers, one for each row of X; "
            f"got {y.dtype} {y.shape}."
        )
    if X.shape[1] != first.shape[1] or X.dtype != first.dtype:
        raise ValueError(
            f"{name}: all shards must have the same features and dtype; got {X.shape[1]} of "
            f"{X.dtype} here and {first.shape[1]} of {first.dtype} in {first_name}."
        )
