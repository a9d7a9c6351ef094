"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
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
        reason = "no space is left" if error.errno == errno.ENOSPC else error.strerror or error
        message = f"{name or repr(str(path))} cannot be written: {reason}. {advice}"
        raise OSError(message) from None
    finally:
        with suppress(OSError):  # it is gone, or never was
            beside.unlink()
