"""Checkpoints: whole, checked, and of the same fit; or refused with a sentence."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fwnet.estimators.low_rank.distributed.model import make_folder
from fwnet.numerics.files import written_whole

_MAGIC = b"fwnet-distributed-1 "
_CONTENTS = {"facts", "t", "u", "v", "weights"}
_KEPT = 2  # one may be damaged
_HEADER = len(_MAGIC) + 64 + 1


def save_checkpoint(folder: Path, t: int, contents: dict[str, Any]) -> None:
    """Write `step-<t>.ckpt`: a line with the SHA-256 of the rest, then tensors and plain values."""
    make_folder(folder)
    body = io.BytesIO()
    torch.save(contents, body)
    digest = hashlib.sha256(body.getvalue()).hexdigest().encode()
    path = folder / f"step-{t:09d}.ckpt"
    with written_whole(path) as file:
        file.write(_MAGIC + digest + b"\n" + body.getvalue())
    # Those of later steps were refused when this run began; they must not push out this one.
    for old in [other for other in _newest_first(folder) if other.name <= path.name][_KEPT:]:
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
            contents = _unpacked(path, body)
            _check_facts(path, contents["facts"], facts)
            _check_state(path, contents, facts)
            return contents
        say(f"checkpoint {path} {fault}: refused, using the one before it.")
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted((p for p in folder.glob("step-*.ckpt") if p.is_file()), reverse=True)


def _read(path: Path) -> tuple[str | None, bytes]:
    """What is wrong with a file, and what it holds after its first line."""
    try:
        contents = path.read_bytes()
    except OSError as error:
        return f"cannot be read ({error.strerror})", b""
    header, body = contents[:_HEADER], contents[_HEADER:]
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return "is not a checkpoint of this version, or cut off in its first line", b""
    if hashlib.sha256(body).hexdigest().encode() != header[len(_MAGIC) : -1]:
        return f"is damaged or truncated (checksum of {len(body)} bytes does not match)", b""
    return None, body


def _unpacked(path: Path, body: bytes) -> dict[str, Any]:
    """The contents of a whole file, read without running code of it."""
    try:
        contents = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        fault = "" if set(contents) == _CONTENTS and isinstance(contents["facts"], dict) else "keys"
    except Exception as error:  # torch raises what it likes at bytes that are not its own
        fault = type(error).__name__
    if fault:
        raise ValueError(
            f"checkpoint {path} holds something else than the tensors and plain values of a fit "
            f"({fault}); no code of it was run. Delete it to go on without it."
        )
    return dict(contents)


def _check_state(path: Path, contents: dict[str, Any], facts: dict[str, Any]) -> None:
    """Raise unless the tensors are those of an iterate of this fit."""
    u, v, weights = (contents[name] for name in ("u", "v", "weights"))
    tensors = all(isinstance(part, torch.Tensor) for part in (u, v, weights))
    fits = (
        tensors
        and isinstance(contents["t"], int)
        and contents["t"] >= 0
        and weights.ndim == 1
        and weights.dtype == torch.float64
        and str(u.dtype) == str(v.dtype) == facts["dtype"]
        and u.shape == (len(weights), facts["features"])
        and v.shape == (len(weights), facts["classes"])
        and all(bool(torch.isfinite(part).all()) for part in (u, v, weights))
        and bool((weights >= 0).all())
        and float(weights.sum()) <= 1 + 1e-6
    )
    if not fits:
        raise ValueError(
            f"checkpoint {path} does not hold an iterate of this fit: its shapes, dtypes or "
            "numbers are others. Delete it to go on without it."
        )


def _check_facts(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    for name, value in here.items():
        if there.get(name) != value:
            raise ValueError(
                f"checkpoint {path} belongs to another fit: {name} was {there.get(name)!r} there "
                f"and is {value!r} here. Delete it to start anew, or choose another folder."
            )
