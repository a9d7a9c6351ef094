"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path, name: str | None = None) -> Iterator[BinaryIO]:
    """A file beside `path` that replaces it at the end: a killed run leaves the old one or the new.

    Arguments:
        path: of the file.
        name: what to call it in an error; the path by default.
    """
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise OSError(
            f"{name or repr(str(path))} cannot be written ({error}). Choose a path in a folder "
            "that exists and has room."
        ) from None
