"""OpenML through scikit-learn's client, if the official files are unavailable; kept as arrays."""

from __future__ import annotations

import errno
import hashlib
import socket
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError

import numpy as np

from fwnet.data.checksums import CONTENTS
from fwnet.data.download import TIMEOUT, Unreachable
from fwnet.data.formats import Batch, npz_arrays
from fwnet.data.images import Parts
from fwnet.data.sources import DataError, cache_folder, shown
from fwnet.numerics.files import written_whole

_SETS = {  # OpenML's number, training points, shape of a point
    "mnist": (554, 60_000, (1, 28, 28)),
    "cifar10": (40927, 50_000, (3, 32, 32)),
    "cifar100": (41983, 50_000, (3, 32, 32)),
}


def content_checksum(batch: Batch) -> str:
    """sha256 of all labels followed by all pixels."""
    pixels, labels = batch
    digest = hashlib.sha256(labels.astype(np.uint8).tobytes())
    digest.update(pixels.astype(np.uint8).tobytes())
    return digest.hexdigest()


def cached_file(name: str) -> Path | None:
    """The file of an earlier download, if there is one."""
    path = cache_folder() / f"{name}.npz"
    return path if path.is_file() else None


def read_cached(name: str) -> tuple[Parts, str] | None:
    """The set that an earlier download left in the cache, and its source."""
    path = cached_file(name)
    return None if path is None else (_unpack(name, path), shown(path))


def download(name: str) -> tuple[Parts, str]:
    """Download a set from OpenML, verify it, and keep it in the cache."""
    from sklearn.datasets import fetch_openml

    number, n, shape = _SETS[name]
    try:  # the client verifies OpenML's own checksum
        with _impatient():
            bunch = fetch_openml(
                data_id=number,
                as_frame=False,
                parser="liac-arff",
                data_home=cache_folder() / "openml",
                n_retries=1,  # the smallest value allowed
                delay=0.1,
            )
    except HTTPError as error:
        error.close()
        raise Unreachable(f"OpenML answers {error.code} {error.reason}.") from None
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"OpenML cannot be reached ({reason}).") from None
    except (OSError, ValueError, EOFError, zlib.error) as error:
        why = "no space is left" if getattr(error, "errno", 0) == errno.ENOSPC else error
        raise DataError(
            f"{name} cannot be downloaded from OpenML: {why}. Put the official files of {name} "
            "in a folder and set FWNET_DATA to it."
        ) from None
    pixels = np.asarray(bunch.data).astype(np.uint8).reshape(-1, *shape)
    labels = np.asarray(bunch.target).astype(np.int64).astype(np.uint8)
    train, test = (pixels[:n], labels[:n]), (pixels[n:], labels[n:])
    _check(name, train, test, f"OpenML's set {number}")
    path = cache_folder() / f"{name}.npz"
    _write(path, train, test)
    return (train, test), f"OpenML {number}"


@contextmanager
def _impatient() -> Iterator[None]:
    """Set a timeout, which the client does not have, and hide its warning about every retry."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        socket.setdefaulttimeout(before)


def _write(path: Path, train: Batch, test: Batch) -> None:
    advice = "Free some space, or set FWNET_CACHE to another folder."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path, str(path), advice) as file:
            np.savez(file, x=train[0], y=train[1], x_test=test[0], y_test=test[1])
    except OSError as error:
        raise DataError(str(error)) from None


def _unpack(name: str, path: Path) -> Parts:
    x, y, x_test, y_test = npz_arrays(path, "x", "y", "x_test", "y_test")
    train, test = (x, y), (x_test, y_test)
    _check(name, train, test, str(path))
    return train, test


def _check(name: str, train: Batch, test: Batch, where: str) -> None:
    for part, batch, expected in zip(
        ("train", "test"), (train, test), CONTENTS.get(name, (None, None)), strict=True
    ):
        found = content_checksum(batch)
        if expected is not None and found != expected:
            raise DataError(
                f"the {part} part of {name} from {where} is not the published one: the sha256 of "
                f"its labels and pixels must be {expected}; got {found}."
            )
