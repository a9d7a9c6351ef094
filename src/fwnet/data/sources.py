"""Where data is found: the folder FWNET_DATA, then the cache; known files have checksums."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from fwnet.data.checksums import CHECKSUMS


class DataError(RuntimeError):
    """Data is missing, damaged or out of reach; the message says which file and what to do.

    Example:
        >>> from fwnet import data
        >>> try:
        ...     data.load("no-such-set")
        ... except data.DataError as error:
        ...     print(type(error).__name__)
        ...
        DataError
    """


def damaged(path: Path, why: object) -> DataError:
    """The error for a file that cannot be read as what it should be."""
    return DataError(f"{path} is damaged: {why}. Delete it and download it again.")


def cache_folder() -> Path:
    """FWNET_CACHE, or the platform's folder for caches."""
    named = os.environ.get("FWNET_CACHE")
    if named:
        return Path(named)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fwnet"


def folders() -> list[Path]:
    """The folders that are searched, in order."""
    named = os.environ.get("FWNET_DATA")
    if named and not Path(named).is_dir():
        raise DataError(f"FWNET_DATA is {named!r}, which is not a folder. Unset or correct it.")
    return [*([Path(named)] if named else []), cache_folder()]


def find(places: Iterable[str]) -> Path | None:
    """The first of the relative paths at which a folder has a file."""
    places = list(places)
    for folder in folders():
        for place in places:
            if (folder / place).is_file():
                return folder / place
    return None


def shown(path: Path) -> str:
    """A path for reports, without the part that depends on the machine."""
    named = os.environ.get("FWNET_DATA")
    for label, folder in (("FWNET_DATA", named), ("cache", cache_folder())):
        if folder and path.is_relative_to(folder):
            return (Path(label) / path.relative_to(folder)).as_posix()
    return path.name


def read(path: Path) -> bytes:
    """The bytes of a file; if its name has a known checksum, it must match."""
    expected = CHECKSUMS.get(path.name)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} is missing; {_known(expected)}Put it there again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if expected is not None:
        kind = expected.partition(":")[0]
        found = f"{kind}:{hashlib.new(kind, content, usedforsecurity=False).hexdigest()}"
        if found != expected:
            size = f"{len(content)} bytes"
            raise damaged(path, f"its checksum must be {expected}; got {found} ({size})")
    return content


def _known(expected: str | None) -> str:
    return f"its checksum is {expected}. " if expected else ""
