"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

ADVICE = "Choose a path in a folder that exists and has room."


@contextmanager
def written_whole(path: Path, name: str | None = None, advice: str = ADVICE) -> Iterator[BinaryIO]:
    """A file beside `path` that replaces it at the end: a killed run leaves the old one or the new.

    Arguments:
        path: of the file.
        name: what to call it in an error; the path by default.
        advice: what to do about an error, a sentence.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        message = f"{name or repr(str(path))} cannot be written: {_reason(error)}. {advice}"
        raise OSError(message) from None
    finally:
        with suppress(OSError):  # it is gone, or never was
            beside.unlink()


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its name at the end; a failure leaves nothing.

    Arguments:
        folder: must not exist.
    """
    beside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    made = False
    try:
        if folder.exists():
            raise ValueError(
                f"folder={str(folder)!r} exists already; choose another, or delete it."
            )
        beside.mkdir(parents=True)
        made = True
        yield beside
        os.replace(beside, folder)
        made = False
    except OSError as error:
        file = Path(error.filename or beside)
        where = str(folder / file.relative_to(beside) if beside in file.parents else folder)
        with suppress(OSError):
            where += f" ({shutil.disk_usage(_existing(folder)).free:,} bytes are free)"
        raise OSError(f"{where} cannot be written: {_reason(error)}. {ADVICE}") from None
    finally:
        if made:
            shutil.rmtree(beside, ignore_errors=True)


def _reason(error: OSError) -> str:
    return "no space is left" if error.errno == errno.ENOSPC else error.strerror or str(error)


def _existing(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
