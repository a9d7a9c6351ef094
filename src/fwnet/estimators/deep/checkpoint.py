"""Checkpoints of a fit: written whole or not at all, read without running code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fwnet.numerics.files import FileFormat, flattened, rebuilt

_FORMAT = FileFormat(
    "fwnet DeepSVC checkpoint",
    1,
    "checkpoint of DeepSVC",
    "Delete it to start anew, or choose another path.",
)


def checkpoint_path(checkpoint: Any) -> Path | None:
    """The path that `DeepSVC(checkpoint=...)` names."""
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(
            f"DeepSVC(checkpoint=...) must be the path of a file, or None; got {checkpoint!r}."
        )
    return None if checkpoint is None else Path(checkpoint)


def save(path: Path, facts: dict[str, Any], contents: dict[str, Any]) -> None:
    """Write what a fit goes on from."""
    plain, tensors = flattened(contents)
    _FORMAT.write(path, {"fit": facts, "contents": plain}, tensors, f"checkpoint={str(path)!r}")


def load(path: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Read the checkpoint of the same fit, None if there is none yet."""
    if not path.exists():
        return None
    name = f"checkpoint={str(path)!r}"
    saved, tensors = _FORMAT.read(path, name)
    _FORMAT.check_run(name, saved["fit"], facts)
    return dict(rebuilt(saved["contents"], tensors))
