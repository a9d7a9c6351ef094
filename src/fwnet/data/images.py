"""MNIST, CIFAR-10 and CIFAR-100 in all their common file layouts."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import numpy as np

from fwnet.data.checksums import CHECKSUMS
from fwnet.data.formats import Batch, binary_batch, idx, pickled_batch, residual_batch, unpacked
from fwnet.data.sources import DataError, damaged, find, read, shown

Reader = Callable[[bytes, Path], Batch]
Parts = tuple[Batch, Batch]  # train, test

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST", ""),
    "cifar10": ("cifar-10", "cifar10", "cifar-10-batches-py", "cifar-10-batches-bin", ""),
    "cifar100": ("cifar-100", "cifar100", "cifar-100-python", "cifar-100-binary", ""),
}


@final
@dataclass(frozen=True)
class Form:
    """One of the layouts in which a set is distributed: its files, and how to read them."""

    names: tuple[str, ...]
    read: Callable[[Sequence[Path]], Parts]


def locate(dataset: str) -> tuple[Form, list[Path]] | None:
    """The first form that has files, and its files; an incomplete form is an error."""
    for form in _FORMS[dataset]:
        paths = {name: _find(dataset, name) for name in form.names}
        there = [path for path in paths.values() if path is not None]
        if len(there) == len(paths):
            return form, there
        for name, path in paths.items():
            if there and path is None:
                known = CHECKSUMS.get(name)
                raise DataError(
                    f"{there[0].parent / name} is missing, although {there[0].name} is there"
                    + (f"; its checksum is {known}." if known else ".")
                )
    return None


def read_images(dataset: str) -> tuple[Parts, str] | None:
    """Train and test part, and their source; None if there is no file of the set."""
    found = locate(dataset)
    if found is None:
        return None
    form, paths = found
    return form.read(paths), shown(paths[0] if len(paths) == 1 else paths[0].parent)


def _find(dataset: str, name: str) -> Path | None:
    return find(f"{folder}/{name}" if folder else name for folder in _FOLDERS[dataset])


def _read_idx(paths: Sequence[Path]) -> Parts:
    """Images and labels for training, images and labels for testing."""
    ranks = (3, 1, 3, 1)
    x, y, x_test, y_test = (
        idx(unpacked(path), path, rank) for path, rank in zip(paths, ranks, strict=True)
    )
    return (x[:, None], y), (x_test[:, None], y_test)


def _read_batches(paths: Sequence[Path], reader: Reader) -> Parts:
    """The last file is for testing."""
    with ThreadPoolExecutor() as pool:  # decompression releases the GIL
        batches = list(pool.map(lambda path: reader(unpacked(path), path), paths))
    return _joined(batches[:-1]), batches[-1]


def _read_archive(paths: Sequence[Path], names: Sequence[str], reader: Reader) -> Parts:
    """The last of the names is for testing; nothing is written to disk."""
    (path,) = paths
    found: dict[str, Batch] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read(path)), mode="r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name in names else None
                if file is not None:
                    found[name] = reader(file.read(), path / name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise damaged(path, error) from None
    for name in names:
        if name not in found:
            raise DataError(f"{path} has no file {name}. Delete it and download it again.")
    return _joined([found[name] for name in names[:-1]]), found[names[-1]]


def _joined(batches: Sequence[Batch]) -> Batch:
    pixels, labels = zip(*batches, strict=True)
    return np.concatenate(pixels), np.concatenate(labels)


def _mnist_form(suffix: str) -> Form:
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    names = tuple(f"{part}-{kind}{suffix}" for part in ("train", "t10k") for kind in kinds)
    return Form(names, _read_idx)


def _cifar_forms(archive: str, names: Sequence[str], reader: Reader) -> list[Form]:
    """Extracted, and in the archive."""
    return [
        Form(tuple(names), partial(_read_batches, reader=reader)),
        Form((archive,), partial(_read_archive, names=names, reader=reader)),
    ]


_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
_TWO_LABELS = partial(binary_batch, labels=2)  # coarse and fine
_FINE = partial(pickled_batch, key="fine_labels")
_FORMS: dict[str, list[Form]] = {
    "mnist": [_mnist_form(".gz"), _mnist_form("")],
    "cifar10": [
        Form(tuple(f"{n}.xz" for n in _BATCHES), partial(_read_batches, reader=residual_batch)),
        *_cifar_forms("cifar-10-binary.tar.gz", [f"{n}.bin" for n in _BATCHES], binary_batch),
        *_cifar_forms("cifar-10-python.tar.gz", _BATCHES, pickled_batch),
    ],
    "cifar100": [
        *_cifar_forms("cifar-100-binary.tar.gz", ["train.bin", "test.bin"], _TWO_LABELS),
        *_cifar_forms("cifar-100-python.tar.gz", ["train", "test"], _FINE),
    ],
}
