"""Bytes to arrays: the file formats of MNIST and CIFAR."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fwnet.data.sources import DataError, damaged, read

Batch = tuple[np.ndarray, np.ndarray]  # pixels (n, channels, rows, columns), labels (n,), uint8
_OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}
_BROKEN = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


def unpacked(path: Path) -> bytes:
    """The decompressed bytes of a file; its suffix names the compression."""
    content = read(path)
    opener = _OPENERS.get(path.suffix)
    if opener is None:
        return content
    try:
        return opener(content)
    except _BROKEN as error:
        raise damaged(path, error) from None


def npz_arrays(path: Path, *names: str) -> tuple[np.ndarray, ...]:
    """Arrays of an NPZ file, by name."""
    try:
        with np.load(io.BytesIO(read(path)), allow_pickle=False) as arrays:
            return tuple(arrays[name] for name in names)
    except (*_BROKEN, KeyError, TypeError, zipfile.BadZipFile) as error:  # TypeError: one array
        raise damaged(path, error) from None


def idx(content: bytes, path: Path, rank: int) -> np.ndarray:
    """An IDX file of bytes: 0, 0, 8 (uint8), rank, the sizes big-endian, then the entries."""
    start = 4 + 4 * rank
    if len(content) < start or content[:4] != bytes((0, 0, 8, rank)):
        raise DataError(
            f"{path} is not an IDX file of bytes of rank {rank}: it starts with {content[:4]!r} "
            f"and has {len(content)} bytes. Delete it and download it again."
        )
    shape = struct.unpack_from(f">{rank}I", content, 4)
    if len(content) - start != int(np.prod(shape)):
        raise damaged(path, f"its header says {shape}, and {len(content) - start} bytes follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def binary_batch(content: bytes, path: Path, labels: int = 1) -> Batch:
    """CIFAR's binary form: each record is its labels, of which the last counts, and 3072 pixels."""
    record = labels + 3072
    if len(content) == 0 or len(content) % record:
        raise DataError(f"{path} is damaged: {len(content)} bytes are not records of {record}.")
    rows = np.frombuffer(content, np.uint8).reshape(-1, record)
    return np.ascontiguousarray(rows[:, labels:]).reshape(-1, 3, 32, 32), rows[:, labels - 1].copy()


def residual_batch(content: bytes, path: Path) -> Batch:
    """CIFAR compressed further: labels, then planes G, R − G, B − G differenced along both axes."""
    if len(content) == 0 or len(content) % 3073:
        raise DataError(f"{path} is damaged: {len(content)} bytes are not images of 3073.")
    raw = np.frombuffer(content, np.uint8)
    n = raw.size // 3073
    planes = raw[n:].reshape(3, n, 32, 32)
    planes = np.cumsum(planes, axis=2, dtype=np.uint8)
    green, red, blue = np.cumsum(planes, axis=3, dtype=np.uint8)
    return np.stack([red + green, green, blue + green], axis=1), raw[:n].copy()


def pickled_batch(content: bytes, path: Path, key: str = "labels") -> Batch:
    """CIFAR's Python form: a pickled dictionary with "data" (n, 3072) and a list of labels."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
        pixels = np.asarray(batch["data"], np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(batch[key], np.uint8)
    except Exception as error:  # a damaged pickle can raise almost anything
        raise DataError(
            f"{path} is not a CIFAR batch for Python: {type(error).__name__}: {error}. Delete it "
            "and download it again."
        ) from None
    return pixels, labels


_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),  # how Python 3 writes bytes for Python 2
}


class _ArraysOnly(pickle.Unpickler):
    """An unpickler for NumPy arrays only, since a pickle can call any function."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which no batch needs")
