"""Checkpoints: whole, checked, and of the same fit; or refused with a sentence."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fwnet.distributed.model import make_folder
from fwnet.files import written_whole

_MAGIC = b"fwnet-distributed-1 "
_KEPT = 2  # one may be damaged
_HEADER = len(_MAGIC) + 64 + 1


def save_checkpoint(folder: Path, t: int, contents: dict[str, Any]) -> None:
    """Write `step-<t>.ckpt`: a line with the SHA-256 of the rest, then tensors and plain values."""
    make_folder(folder)
    body = io.BytesIO()
    torch.save(contents, body)
    digest = hashlib.sha256(body.getvalue()).hexdigest().encode()
    with written_whole(folder / f"step-{t:09d}.ckpt") as file:
        file.write(_MAGIC + digest + b"\n" + body.getvalue())
    for old in _newest_first(folder)[_KEPT:]:
        os.remove(old)


def load_checkpoint(
    folder: Path, facts: dict[str, Any], say: Callable[[str], object]
) -> dict[str, Any] | None:
    """The newest checkpoint that is whole, or None if there is none.

    Arguments:
        folder: where they are.
        facts: what makes two fits the same one; another fit's checkpoint is refused.
        say: told of every damaged checkpoint, and what is done about it.
    """
    for path in _newest_first(folder):
        fault, body = _read(path)
        if fault is None:
            contents: dict[str, Any] = torch.load(
                io.BytesIO(body), map_location="cpu", weights_only=True
            )
            _check_facts(path, contents["facts"], facts)
            return contents
        say(f"checkpoint {path} {fault}: refused, using the one before it.")
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.ckpt"), reverse=True)


def _read(path: Path) -> tuple[str | None, bytes]:
    """What is wrong with a file, and what it holds after its first line."""
    contents = path.read_bytes()
    header, body = contents[:_HEADER], contents[_HEADER:]
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return "is not a checkpoint of this version, or cut off in its first line", b""
    if hashlib.sha256(body).hexdigest().encode() != header[len(_MAGIC) : -1]:
        return f"is damaged or truncated (checksum of {len(body)} bytes does not match)", b""
    return None, body


def _check_facts(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    for name, value in here.items():
        if there.get(name) != value:
            raise ValueError(
                f"checkpoint {path} belongs to another fit: {name} was {there.get(name)!r} there "
                f"and is {value!r} here. Delete it to start anew, or choose another folder."
            )
