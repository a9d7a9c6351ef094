"""Checkpoints of a fit: written whole or not at all, read without running code."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.numerics.files import written_whole

_VERSION = 1


def checkpoint_path(checkpoint: Any) -> Path | None:
    """The path that `DeepSVC(checkpoint=...)` names."""
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(
            f"DeepSVC(checkpoint=...) must be the path of a file, or None; got {checkpoint!r}."
        )
    return None if checkpoint is None else Path(checkpoint)


def fingerprint(*parts: Any) -> str:
    """A short name for tensors and plain values, the same for the same contents."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(str((part.dtype, tuple(part.shape))).encode())
            plain = part.detach().cpu().contiguous()
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()[:16]


def save(path: Path, facts: dict[str, Any], contents: dict[str, Any]) -> None:
    """Write what a fit goes on from."""
    with written_whole(path, f"checkpoint={str(path)!r}") as file:
        torch.save({"fwnet_deep_svc": _VERSION, "facts": facts, **contents}, file)


def load(path: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Read the checkpoint of the same fit, None if there is none yet."""
    if not path.exists():
        return None
    way_out = "Delete it to start anew, or choose another path."
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be read: {reason[:120]} {way_out}"
        ) from None
    if not isinstance(contents, dict) or contents.get("fwnet_deep_svc") != _VERSION:
        raise ValueError(
            f"checkpoint={str(path)!r} is not a checkpoint of DeepSVC's version {_VERSION}. "
            f"{way_out}"
        )
    for name, here in facts.items():
        there = contents["facts"].get(name)
        if there != here:
            raise ValueError(
                f"checkpoint={str(path)!r} belongs to another fit: {name} was {there!r} there and "
                f"is {here!r} here. {way_out}"
            )
    return contents
