"""The rows of a shard on disk, dense or CSR, mapped into memory and read block by block."""

from __future__ import annotations

import hashlib
import io
import os
from itertools import chain
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from fwnet.estimators.low_rank.distributed.manifest import FileNote
from fwnet.estimators.low_rank.rows import Block
from fwnet.numerics.optional import optional

DENSE = ".X.npy"
SPARSE = ".X.indptr.npy"  # and those of _PARTS
_PARTS = ("indptr", "indices", "data", "shape")
_CHUNK = 1 << 26  # bytes that are copied at once


@final
class DenseFile:
    """`<name>.X.npy`, (n, d); `file` is its name, for errors."""

    def __init__(self, path: Path) -> None:
        self.file, self.array = path.name, open_array(path)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def read(self, start: int, stop: int) -> Block:
        """Some rows; views of a file that holds row after row."""
        return Block(torch.from_numpy(np.ascontiguousarray(self.array[start:stop])), None)


@final
class SparseFile:
    """`<name>.X.indptr.npy`, `.indices.npy`, `.data.npy` and `.shape.npy`: a CSR matrix (n, d)."""

    def __init__(self, path: Path) -> None:
        scipy_sparse()
        self.file = path.name.removesuffix(".indptr.npy")
        parts = {name: open_array(path.with_name(f"{self.file}.{name}.npy")) for name in _PARTS}
        self.indptr, self.indices, self.data = parts["indptr"], parts["indices"], parts["data"]
        self.shape = tuple(int(size) for size in parts["shape"])
        self.dtype = self.data.dtype
        whole = (
            all(part.ndim == 1 and part.dtype.kind == "i" for part in (self.indptr, self.indices))
            and len(self.shape) == 2
            and self.indptr.shape == (self.shape[0] + 1,)
            and self.indices.shape == self.data.shape == (int(self.indptr[-1]),)
        )
        if not whole:
            raise ValueError(
                f"{self.file}.*.npy are not the parts of one CSR matrix. Write the shards again."
            )

    def read(self, start: int, stop: int) -> Block:
        """Some rows."""
        indptr = self.indptr[start : stop + 1]
        entries = slice(int(indptr[0]), int(indptr[-1]))
        indices = self.indices[entries]
        parts = (self.data[entries], indices, (indptr - indptr[0]).astype(indices.dtype))
        shape = (stop - start, self.shape[1])
        return Block(scipy_sparse().csr_matrix(parts, shape=shape, copy=False), None)


MatrixFile = DenseFile | SparseFile


def open_matrix(path: Path) -> MatrixFile:
    """The matrix whose file ends in `DENSE` or `SPARSE`."""
    return DenseFile(path) if path.name.endswith(DENSE) else SparseFile(path)


def write_matrix(stem: Path, X: Any) -> dict[str, FileNote]:
    """Write `<stem>.X.npy`, or the parts of a SciPy CSR matrix, each column once in a row."""
    if isinstance(X, np.ndarray):
        path = Path(f"{stem}{DENSE}")
        return {path.name: write_array(path, X, X.dtype)}
    index = np.dtype(np.int32 if X.shape[1] < 1 << 31 else np.int64)
    whole = np.dtype(np.int64)
    parts = ((X.indptr, whole), (X.indices, index), (X.data, X.dtype), (np.array(X.shape), whole))
    notes = {}
    for name, (part, dtype) in zip(_PARTS, parts, strict=True):
        path = Path(f"{stem}.X.{name}.npy")
        notes[path.name] = write_array(path, part, dtype)
    return notes


def write_array(path: Path, source: np.ndarray, dtype: np.dtype[Any]) -> FileNote:
    """Write a .npy file piece by piece: the source may be a map that does not fit into memory.

    Not through a map of the target: a full disk would kill the process instead of raising.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header,
        {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": source.shape,
        },
    )
    digest, size = hashlib.sha256(), 0
    step = max(1, _CHUNK // max(1, source[:1].nbytes))
    with open(path, "wb") as file:
        pieces = (
            np.ascontiguousarray(source[start : start + step], dtype).tobytes()
            for start in range(0, len(source), step)
        )
        try:
            for piece in chain([header.getvalue()], pieces):
                file.write(piece)
                digest.update(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            error.filename = str(path)
            raise
    return FileNote(size, digest.hexdigest())


def open_array(path: Path) -> np.ndarray:
    """Map a .npy file into memory."""
    try:
        # Copy on write: torch wants memory that it may write to; the file is never changed.
        array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: a shard is <name>{DENSE} and <name>.y.npy, or instead of the "
            "former the parts of a CSR matrix. Write the shards again."
        ) from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{path} cannot be read as a .npy file: {error}. Write the shards again."
        ) from None
    return array


def scipy_sparse() -> Any:
    """`scipy.sparse`, which computes with CSR rows."""
    return optional("scipy.sparse", "a sparse matrix", "lp")
