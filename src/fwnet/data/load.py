"""`load(name)`: a data set, from wherever it is available."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fwnet.data import download as official
from fwnet.data import images, openml
from fwnet.data.dataset import Dataset
from fwnet.data.formats import npz_arrays, unpacked
from fwnet.data.images import CIFAR10_CLASSES
from fwnet.data.sources import DataError, find, folders, shown
from fwnet.data.splits import splits
from fwnet.numerics.optional import optional

NAMES = ("circles", "digits", "mnist", "cifar10", "cifar100", "cifar10-inception", "a9a")
_TEN = tuple(map(str, range(10)))
_IMAGES = {"mnist": _TEN, "cifar10": CIFAR10_CLASSES, "cifar100": tuple(map(str, range(100)))}
_INCEPTION = "cifar10-inception"
_SUFFIXES = ("", ".bz2", ".gz", ".xz", ".libsvm", ".txt")


def load(name: str, *, seed: int = 0, download: bool = True) -> Dataset:
    """A data set by name: from FWNET_DATA, then the cache, then a download.

        circles            two noisy rings in [−1, 1]², generated from the seed
        digits             1,797 images of 8 × 8, part of scikit-learn
        mnist              70,000 images of 28 × 28
        cifar10, cifar100  60,000 images of 3 × 32 × 32
        cifar10-inception  2,048 features of 12,000 images of CIFAR-10
        a9a, any other     svm/<name> and svm/<name>.t in LIBSVM format, compressed or not

    Arguments:
        name: of the set.
        seed: of circles; other sets do not depend on it.
        download: download missing images to the cache: the official files, resuming an earlier
            download, or else OpenML's copy.

    Example:
        >>> load("digits").classes[:3]
        ('0', '1', '2')
    """
    if not isinstance(name, str):
        raise TypeError(f"load(name) must be a string such as 'digits'; got {name!r}.")
    seed = seed if name == "circles" else 0
    own = [] if name in (*_MADE, *_IMAGES) else _files(name)  # files that users write themselves
    changed = tuple(path.stat().st_mtime_ns for path in own)
    dataset = _load(name, seed, download, tuple(folders()), changed)
    noted, source = _NOTED.get(), f"{name}: {dataset.source}"
    if noted is not None and source not in noted:
        noted[source] = dataset.fingerprint()
    return dataset


_NOTED: ContextVar[dict[str, str] | None] = ContextVar("noted", default=None)


@contextmanager
def note_sources() -> Iterator[dict[str, str]]:
    """Collect the sets loaded within the block: their sources and fingerprints.

    Example:
        >>> with note_sources() as noted:
        ...     _ = load("circles", seed=3)
        >>> list(noted)
        ['circles: made, seed 3']
    """
    noted: dict[str, str] = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


@cache
def _load(
    name: str, seed: int, download: bool, where: tuple[Path, ...], changed: tuple[int, ...]
) -> Dataset:
    """Cached, because CIFAR takes seconds to decompress; the arguments are all it depends on."""
    if name in _MADE:
        dataset = _MADE[name](seed)
    elif name in _IMAGES:
        dataset = _images(name, download)
    else:
        dataset = _inception() if name == _INCEPTION else _libsvm(name)
    for array in (dataset.x, dataset.y, dataset.x_test, dataset.y_test):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False  # the cache shares it
    return dataset


def available() -> dict[str, str | None]:
    """Where each set of `NAMES` would come from; None if it is not complete on this machine.

    Example:
        >>> from fwnet import data
        >>> data.available()["digits"]
        'scikit-learn'
    """
    folders()  # a wrong FWNET_DATA is an error
    return {name: None if missing_file(name) else _where(name) for name in NAMES}


def missing_file(name: str) -> str | None:
    """A message that names the missing file of an incomplete set; None if none or all are there."""
    try:
        _where(name)
    except DataError as error:
        return str(error)
    return None


def _where(name: str) -> str | None:
    """The source of a set, found without reading its files."""
    if name in _MADE:
        return "scikit-learn"
    files = _files(name)
    return shown(files[0]) if files else None


def _files(name: str) -> list[Path]:
    """The files of a set that is read from files; none if they are not here."""
    if name in _IMAGES:
        found = images.locate(name)
        paths = found[1] if found else [openml.cached_file(name)]
    elif name == _INCEPTION:  # the published file, or the user's own, which has no checksum
        file = "inception_v3_pool3.npz"
        paths = [find((f"{name}/{file}", file, f"{name}/features.npz"))]
    else:
        paths = [
            find(f"{folder}{part}{suffix}" for folder in ("svm/", "") for suffix in _SUFFIXES)
            for part in (name, f"{name}.t")
        ]
    return [] if paths[0] is None else [path for path in paths if path is not None]


def _circles(seed: int) -> Dataset:
    make_circles = optional("sklearn.datasets", 'load("circles")', "svm").make_circles
    parts = []
    for state in np.random.SeedSequence(seed).generate_state(2):
        x, y = make_circles(2000, factor=0.2, noise=0.1, random_state=int(state))
        parts.append((x.astype(np.float32), y.astype(np.int64)))
    scale = np.abs(parts[0][0]).max()
    (x, y), (x_test, y_test) = parts
    return Dataset(
        "circles", x / scale, y, x_test / scale, y_test, ("outer", "inner"), f"made, seed {seed}"
    )


def _digits(seed: int) -> Dataset:
    datasets = optional("sklearn.datasets", 'load("digits")', "svm")
    pixels, y = datasets.load_digits(return_X_y=True)
    x = pixels.astype(np.uint8).reshape(-1, 1, 8, 8)
    parts = splits(y, (2 / 3, 0.0, 1 / 3), seed=0)
    train, test = parts.optimizee, parts.test
    return Dataset("digits", x[train], y[train], x[test], y[test], _TEN, "scikit-learn", 16.0)


def _images(name: str, download: bool) -> Dataset:
    found = images.read_images(name) or openml.read_cached(name)
    if found is None and not download:
        raise _missing(name)
    ((x, y), (x_test, y_test)), source = found or _downloaded(name)
    labels, labels_test = y.astype(np.int64), y_test.astype(np.int64)
    return Dataset(name, x, labels, x_test, labels_test, _IMAGES[name], source, 255.0)


def _downloaded(name: str) -> tuple[images.Parts, str]:
    """The official files, or OpenML's copy if their site is unreachable."""
    try:
        official.download(name)
    except official.Unreachable as error:
        try:
            return openml.download(name)
        except official.Unreachable as other:
            raise DataError(
                f"{name} is not here and cannot be downloaded: {error} {other} Check the "
                f"connection, or put the official files of {name} in a folder and set FWNET_DATA "
                "to it."
            ) from None
    found = images.read_images(name)
    assert found is not None
    return found


def _inception() -> Dataset:
    paths = _files(_INCEPTION)
    if not paths:
        raise DataError(
            "cifar10-inception is not here: no inception_v3_pool3.npz in "
            f"{_searched()}. Get it, or make features of your own: fwnet features cifar10 --model "
            "... --out cifar10-inception/features.npz, in that folder."
        )
    (path,) = paths
    x, y, x_test, y_test = npz_arrays(path, "train_x", "train_y", "test_x", "test_y")
    for points in (x, x_test):
        if not (np.issubdtype(points.dtype, np.number) and np.isfinite(points).all()):
            raise DataError(f"{path} holds features that are not finite numbers.")
    for classes in (y, y_test):
        if not np.issubdtype(classes.dtype, np.integer):
            raise DataError(f"{path} holds classes of type {classes.dtype}; they must be integers.")
    labels, labels_test = y.astype(np.int64), y_test.astype(np.int64)
    return Dataset(_INCEPTION, x, labels, x_test, labels_test, CIFAR10_CLASSES, shown(path))


def _libsvm(name: str) -> Dataset:
    paths = _files(name)
    if not paths:
        raise _missing(name)
    blocks = [svmlight(path) for path in paths]
    width = max(x.shape[1] for x, _ in blocks)
    classes, flat = np.unique(np.concatenate([y for _, y in blocks]), return_inverse=True)
    x, *rest = (_widened(block, width) for block, _ in blocks)
    n = x.shape[0]
    x_test = rest[0] if rest else x[:0]
    names = tuple(f"{label:g}" for label in classes)
    return Dataset(name, x, flat[:n], x_test, flat[n:], names, shown(paths[0]))


def svmlight(path: Path, width: int | None = None) -> tuple[Any, np.ndarray]:
    """The points of a file in LIBSVM format, a CSR matrix, and their labels.

    Arguments:
        path: of the file; its suffix names the compression.
        width: number of columns; as many as are used if left out.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(io.BytesIO(unpacked(path)), n_features=width)
    except (ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is not a file in LIBSVM format: {reason}.") from None
    if len(y) == 0:
        raise DataError(f"{path} has no rows.")
    if not (np.isfinite(x.data).all() and np.isfinite(y).all()):
        raise DataError(f"{path} holds NaN or infinite numbers. Drop or fill in these rows.")
    return x, y


def _widened(x: Any, width: int) -> Any:
    """Both parts with the same number of columns, and 32-bit indices, which solvers expect."""
    x.resize((x.shape[0], width))
    x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)
    return x


_MADE: dict[str, Callable[[int], Dataset]] = {"circles": _circles, "digits": _digits}


def _missing(name: str) -> DataError:
    if name in NAMES:
        return DataError(
            f"{name} is not here: no file of it in {_searched()}. Put the official files in a "
            "folder and set FWNET_DATA to it."
        )
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return DataError(
        f"there is no data set {name!r}. {hint}Known: {', '.join(NAMES)}; others are read from "
        f"svm/{name} in {_searched()}."
    )


def _searched() -> str:
    return " or ".join(str(folder) for folder in folders())
