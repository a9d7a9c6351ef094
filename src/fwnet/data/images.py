"""MNIST, CIFAR-10 and CIFAR-100 from the files that people have of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fwnet.data.checksums import CHECKSUMS
from fwnet.data.formats import (
    Batch,
    binary_batch,
    idx,
    pickled_batch,
    residual_batch,
    unpacked,
)
from fwnet.data.sources import DataError, find, read, shown

Reader = Callable[[bytes, Path], Batch]
Parts = tuple[Batch, Batch, str]  # train, test, source

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST", ""),
    "cifar10": ("cifar-10", "cifar10", "cifar-10-batches-py", "cifar-10-batches-bin", ""),
    "cifar100": ("cifar-100", "cifar100", "cifar-100-python", "cifar-100-binary", ""),
}


def mnist() -> Parts | None:
    """The four IDX files, gzipped or not."""
    names = [
        f"{part}-{kind}"
        for part in ("train", "t10k")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    paths = _all_of("mnist", names, ("", ".gz"))
    if paths is None:
        return None
    arrays = [idx(unpacked(path), path) for path in paths]
    batches = [(arrays[i][:, None], arrays[i + 1]) for i in (0, 2)]
    return batches[0], batches[1], shown(paths[0].parent)


def cifar10() -> Parts | None:
    """Six batches packed smaller, extracted or in one of the two official archives."""
    forms: list[tuple[str, Reader]] = [
        (".xz", residual_batch),
        (".bin", binary_batch),
        ("", pickled_batch),
    ]
    for suffix, reader in forms:
        paths = _all_of("cifar10", _BATCHES, (suffix,))
        if paths is not None:
            batches = [reader(unpacked(path), path) for path in paths]
            return _joined(batches[:-1]), batches[-1], shown(paths[0].parent)
    archives: list[tuple[str, str, Reader]] = [
        ("cifar-10-binary.tar.gz", ".bin", binary_batch),
        ("cifar-10-python.tar.gz", "", pickled_batch),
    ]
    for archive, suffix, reader in archives:
        path = _one_of("cifar10", archive)
        if path is not None:
            batches = _from_archive(path, [name + suffix for name in _BATCHES], reader)
            return _joined(batches[:-1]), batches[-1], shown(path)
    return None


def cifar100() -> Parts | None:
    """Fine labels, from the extracted files or one of the two official archives."""
    forms: list[tuple[str, str, Reader]] = [
        ("cifar-100-binary", ".bin", partial(binary_batch, labels=2)),
        ("cifar-100-python", "", partial(pickled_batch, key="fine_labels")),
    ]
    for name, suffix, reader in forms:
        paths = _all_of("cifar100", ["train", "test"], (suffix,))
        if paths is not None:
            train, test = (reader(read(path), path) for path in paths)
            return train, test, shown(paths[0].parent)
        archive = _one_of("cifar100", f"{name}.tar.gz")
        if archive is not None:
            train, test = _from_archive(archive, [f"train{suffix}", f"test{suffix}"], reader)
            return train, test, shown(archive)
    return None


def _one_of(dataset: str, name: str, suffixes: Sequence[str] = ("",)) -> Path | None:
    return find(
        f"{folder}/{name}{suffix}" if folder else name + suffix
        for folder in _FOLDERS[dataset]
        for suffix in suffixes
    )


def _all_of(dataset: str, names: Sequence[str], suffixes: Sequence[str]) -> list[Path] | None:
    """The files, or None if there is none of them; some of them are an error."""
    paths = {name: _one_of(dataset, name, suffixes) for name in names}
    there = [path for path in paths.values() if path is not None]
    if not there:
        return None
    for name, path in paths.items():
        if path is None:
            wanted = name + suffixes[-1]
            known = CHECKSUMS.get(wanted)
            raise DataError(
                f"{there[0].parent / wanted} is missing, though {there[0].name} is there"
                + (f"; its checksum is {known}." if known else ".")
            )
    return there


def _from_archive(path: Path, names: Sequence[str], reader: Reader) -> list[Batch]:
    """Batches by name from an archive, in the order of the names, without writing files."""
    found: dict[str, Batch] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read(path)), mode="r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name in names else None
                if file is not None:
                    found[name] = reader(file.read(), path / name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"{path} is damaged: {error}. Delete it and get it again.") from None
    for name in names:
        if name not in found:
            raise DataError(f"{path} has no file {name}. Delete it and get it again.")
    return [found[name] for name in names]


def _joined(batches: Sequence[Batch]) -> Batch:
    pixels, labels = zip(*batches, strict=True)
    return np.concatenate(pixels), np.concatenate(labels)
