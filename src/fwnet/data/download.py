"""Downloads that can be resumed: `Range` requests into a .part file, verified at the end.

cache/mnist.part/train-images-idx3-ubyte.gz.part   in progress
cache/mnist.part/train-images-idx3-ubyte.gz        complete, its checksum verified
cache/mnist/…                                      all files of the set are complete
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from fwnet.data.checksums import CHECKSUMS
from fwnet.data.sources import DataError, cache_folder
from fwnet.numerics.files import file_hash, reason

TIMEOUT = 8.0  # seconds without a byte

_TORONTO = "https://www.cs.toronto.edu/~kriz"
_SITES: dict[str, tuple[str, tuple[str, ...]]] = {  # site and files of each set
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        tuple(
            f"{part}-{kind}-ubyte.gz"
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        ),
    ),
    "cifar10": (_TORONTO, ("cifar-10-binary.tar.gz",)),
    "cifar100": (_TORONTO, ("cifar-100-binary.tar.gz",)),
}


class Unreachable(DataError):
    """A site sent nothing at all; another one may."""


def download(name: str) -> None:
    """Download the official files of a set to the cache; complete files are not fetched again."""
    site, files = _SITES[name]
    target = cache_folder() / name
    staging = target.with_name(f"{name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(target.with_name(f"{name}.lock")):
            if all((target / file).is_file() for file in files):
                return  # another process was faster
            staging.mkdir(exist_ok=True)
            for file in files:
                if not (staging / file).is_file():
                    fetch(f"{site}/{file}", staging / file, CHECKSUMS[file])
            _move(staging, target)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written: {error.strerror or error}. Set FWNET_CACHE to "
            "another folder."
        ) from None


def fetch(url: str, path: Path, checksum: str) -> None:
    """Download a file; if interrupted, the next call resumes from `path`.part.

    Arguments:
        url: of the file.
        path: where it goes once it is complete and its checksum is right.
        checksum: as "md5:…" or "sha256:…".
    """
    part = path.with_name(f"{path.name}.part")
    resumed = part.is_file()
    _receive(url, part)
    found = _checksum(part, checksum)
    if found != checksum and resumed:  # the file may have changed since: retry from the start
        part.unlink()
        _receive(url, part)
        found = _checksum(part, checksum)
    if found != checksum:
        size = part.stat().st_size
        part.unlink()
        raise DataError(
            f"{url} is not the published file: its checksum must be {checksum}; got {found} "
            f"({size} bytes)."
        )
    os.replace(part, path)


def _receive(url: str, part: Path) -> None:
    """Receive until the file is complete, as long as every attempt makes progress."""
    first = _size(part)
    while True:
        before = _size(part)
        try:
            return _attempt(url, part, before)
        except HTTPError as error:
            error.close()
            raise Unreachable(f"{url} answers {error.code} {error.reason}.") from None
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            now = _size(part)
            if now > before:
                continue
            why = getattr(error, "reason", error)
            if now == first:
                raise Unreachable(f"{url} cannot be reached ({why}).") from None
            raise DataError(
                f"the download of {url} broke off after {now} bytes ({why}). They are kept in "
                f"{part}; the same call resumes from there."
            ) from None
        except OSError as error:
            raise DataError(
                f"{part} cannot be written: {reason(error)}. The {_size(part)} bytes received so "
                "far are kept; free some space and repeat the call to resume, or set FWNET_CACHE "
                "to another folder."
            ) from None


def _attempt(url: str, part: Path, have: int) -> None:
    """Request the missing bytes; a server without `Range` sends the whole file again."""
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416:  # nothing is missing, or the file has shrunk: the checksum decides
            error.close()
            return
        raise
    with answer:
        goes_on = answer.status == 206
        if goes_on and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise ConnectionError(f"the server did not continue at byte {have}")
        length = answer.headers.get("Content-Length")
        left = None if length is None else int(length)
        name = part.name.removesuffix(".part")
        with _shown(answer, left, name) as source, open(part, "ab" if goes_on else "wb") as file:
            shutil.copyfileobj(source, file, 1 << 16)
    whole = None if left is None else left + (have if goes_on else 0)
    if whole is not None and _size(part) < whole:
        raise ConnectionError(f"{whole - _size(part)} of {whole} bytes are missing")


@contextmanager
def _shown(answer: Any, left: int | None, name: str) -> Iterator[Any]:
    """The chunks of the answer, with a progress bar on a terminal if rich is installed."""
    bar: Any = nullcontext(answer)
    if left is not None and sys.stderr.isatty():
        with suppress(ImportError):
            from rich.console import Console
            from rich.progress import wrap_file

            screen = Console(stderr=True)
            bar = wrap_file(answer, left, description=name, console=screen, transient=True)
    with bar as source:
        yield source


def _checksum(path: Path, like: str) -> str:
    kind = like.partition(":")[0]
    return f"{kind}:{file_hash(path, kind)}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _move(staging: Path, target: Path) -> None:
    """Move the folder in one step if the target does not exist, else file by file."""
    if not target.exists():
        os.replace(staging, target)
        return
    for path in list(staging.iterdir()):
        os.replace(path, target / path.name)
    staging.rmdir()


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Only one process downloads a set; the others wait. The lock ends with its process."""
    with open(path, "wb") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
