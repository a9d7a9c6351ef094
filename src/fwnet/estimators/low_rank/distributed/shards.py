"""Shards: rows and labels in memory-mapped files, cut into one global list of blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from fwnet.estimators.low_rank.distributed.manifest import (
    OUR_STEM,
    Manifest,
    ShardNote,
    check_names,
    read_manifest,
)
from fwnet.estimators.low_rank.distributed.matrix_files import (
    DENSE,
    SPARSE,
    MatrixFile,
    open_array,
    open_matrix,
    write_array,
    write_matrix,
)
from fwnet.estimators.low_rank.rows import Block
from fwnet.numerics import checks
from fwnet.numerics.files import folder_written_whole

_LABELS = ".y.npy"


class Span(NamedTuple):
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

    Rows may also be the parts of a CSR matrix, `<name>.X.indptr.npy` and so on. Opening reads
    headers only; the rows stay on disk until a block is asked for.
    """

    X: tuple[MatrixFile, ...]
    y: tuple[np.ndarray, ...]
    folder: Path
    manifest: Manifest | None

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(part.shape[0] for part in self.X)

    @property
    def features(self) -> int:
        """d."""
        return int(self.X[0].shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        return torch.float32 if self.X[0].dtype == np.float32 else torch.float64

    def blocks(self, size: int) -> list[Span]:
        """The global partition, at most `size` rows each; no block crosses two files."""
        found, first_row = [], 0
        for shard, part in enumerate(self.X):
            rows = part.shape[0]
            for start in range(0, rows, size):
                stop = min(start + size, rows)
                found.append(Span(shard, start, stop, first_row + start))
            first_row += rows
        return found

    def read(self, block: Span) -> tuple[Block, Tensor]:
        """Rows `(k, d)` and labels `(k,)` of a block, views of files that hold row after row."""
        y = np.ascontiguousarray(self.y[block.shard][block.start : block.stop], np.int64)
        return self.X[block.shard].read(block.start, block.stop), torch.from_numpy(y)

    def check_hashes(self, shards: Iterable[int]) -> None:
        """Raise unless the files of some shards hold what their manifest says, if there is one."""
        if self.manifest is not None:
            for shard in sorted(shards):
                self.manifest.check_hashes(self.folder, shard)

    def where(self, block: Span, row: int) -> str:
        """A row of a block, in words."""
        file = self.X[block.shard].file
        return f"row {block.first_row + row} (row {block.start + row} of {file})"


def open_shards(folder: str | os.PathLike[str]) -> Shards:
    """Memory-map the shards of a folder; raise if one is missing or they do not fit together.

    Example:
        >>> import os, tempfile
        >>> from fwnet.distributed import open_shards, write_shards
        >>> path = os.path.join(tempfile.mkdtemp(), "parts")
        >>> parts = write_shards(path, torch.eye(6), torch.arange(6) % 3, rows=4)
        >>> open_shards(path).rows
        6
    """
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"data must be the path of a folder; got {folder!r}.")
    folder = Path(folder)
    manifest = read_manifest(folder)
    paths = [path for end in (DENSE, SPARSE) for path in folder.glob("*" + end)]
    paths.sort(key=lambda path: path.name)
    names = [path.name.removesuffix(SPARSE).removesuffix(DENSE) for path in paths]
    if manifest is not None:
        manifest.check_files(folder, names)
    elif not paths:
        raise ValueError(
            f"data={str(folder)!r} must be a folder with files <name>{DENSE} and <name>{_LABELS}; "
            "none was found. Write it with `fwnet distributed shard`."
        )
    with_labels = [path.name.removesuffix(_LABELS) for path in folder.glob("*" + _LABELS)]
    check_names(folder, names, with_labels)
    X = tuple(open_matrix(path) for path in paths)
    y = tuple(open_array(folder / (name + _LABELS)) for name in names)
    _check_all(names, X, y)
    return Shards(X, y, folder, manifest)


def _check_all(names: list[str], X: Sequence[Any], y: Sequence[Any]) -> None:
    """Raise unless every shard is sound and all have the same features and dtype."""
    for name, rows, labels in zip(names, X, y, strict=True):
        _check(name, rows, labels)
        if rows.shape[1] != X[0].shape[1] or rows.dtype != X[0].dtype:
            raise ValueError(
                f"{name}: all shards must have the same features and dtype; got {rows.shape[1]} of "
                f"{rows.dtype} here and {X[0].shape[1]} of {X[0].dtype} in {names[0]}."
            )


def write_shards(
    folder: str | os.PathLike[str],
    X: Any,  # (n, d)
    y: Any,  # (n,)
    rows: int = 250_000,
) -> Path:
    """Write rows and labels as shards of `rows` rows: all of them or, if it fails, none.

    A process that is killed leaves a folder `<name>.<process id>.part`, which may be deleted.

    Arguments:
        folder: must not exist yet.
        X: float32 or float64; `np.memmap`s are copied piece by piece. A SciPy sparse matrix is
            written as CSR.
        y: whole numbers.
        rows: of one shard.

    Example:
        >>> import tempfile
        >>> from fwnet.distributed import write_shards
        >>> path = tempfile.mkdtemp() + "/parts"
        >>> folder = write_shards(path, torch.randn(3, 2), torch.tensor([0, 1, 1]), rows=2)
        >>> sorted(file.name for file in folder.iterdir())[:3]
        ['manifest.json', 'part-00000.X.npy', 'part-00000.y.npy']
    """
    folder, X, y = Path(folder), _as_rows(X), _as_array("y", y)
    checks.at_least("write_shards(rows=...)", rows, 1)
    _check("write_shards", X, y)
    with folder_written_whole(folder) as beside:
        notes = []
        for index, start in enumerate(range(0, len(y), rows)):
            part, name = slice(start, start + rows), f"{OUR_STEM}{index:05d}"
            files = write_matrix(beside / name, X[part])
            label_file = name + _LABELS
            files[label_file] = write_array(beside / label_file, y[part], np.dtype(np.int64))
            notes.append(ShardNote(name, len(y[part]), files))
        notes.sort(key=lambda note: note.name)  # as they are read
        Manifest(int(X.shape[1]), int(y.max()) + 1, str(X.dtype), tuple(notes)).write(beside)
    return folder


def _as_rows(X: Any) -> Any:
    """An array, or a CSR matrix that has every entry once."""
    if not hasattr(X, "tocsr"):
        return _as_array("X", X)
    rows = X.tocsr(copy=not getattr(X, "has_canonical_format", False))
    rows.sum_duplicates()
    return rows


def _as_array(name: str, values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:  # which NumPy does not know
            raise TypeError(
                f"write_shards: {name} is torch.bfloat16. Convert it with {name}.float()."
            )
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"write_shards: {name} must not be a masked array, whose mask would be lost. Fill it "
            f"with {name}.filled(...), or drop its rows."
        )
    return np.asanyarray(values)


def _check(name: str, X: Any, y: np.ndarray) -> None:
    if len(X.shape) != 2 or X.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"{name}: X must be a matrix of float32 or float64, dense or CSR; got {X.dtype} "
            f"{X.shape}. Convert it with X.astype(np.float32)."
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name}: X must not be empty; got shape {X.shape}. Leave the shard out.")
    if y.shape != X.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: y must be {X.shape[0]} whole numbers, one for each row of X; "
            f"got {y.dtype} {y.shape}."
        )
