"""Checkpoints of a distributed fit: the newest whole one of the same fit is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.numerics.files import CheckpointSeries, FileError, FileFormat

_FORMAT = FileFormat(
    "fwnet distributed checkpoint",
    1,
    "checkpoint of a distributed fit",
    "Delete it to go on without it, or choose another folder.",
)


def save_checkpoint(
    folder: Path, t: int, facts: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Write `step-<t>.ckpt`; the last two are kept, since one may be damaged.

    Arguments:
        folder: where they are.
        t: steps taken.
        facts: what makes two fits the same one.
        tensors: u, v and weights of the iterate.
    """
    CheckpointSeries(folder, _FORMAT).write(t, {"fit": facts, "t": t}, tensors)


def load_checkpoint(
    folder: Path, facts: dict[str, Any], say: Callable[[str], object]
) -> dict[str, Any] | None:
    """t, u, v and weights of the newest checkpoint that is whole, or None if there is none.

    Arguments:
        folder: where they are.
        facts: what makes two fits the same one; another fit's checkpoint is refused.
        say: called with a message for every damaged checkpoint.
    """
    newest = CheckpointSeries(folder, _FORMAT).read(say)
    if newest is None:
        return None
    path, found, tensors = newest
    name = f"checkpoint {path}"
    if isinstance(found.get("fit"), dict):
        _FORMAT.check_run(name, found["fit"], facts)
    if not _fits(found, tensors, facts):
        raise FileError(
            f"{name} does not hold an iterate of this fit: its shapes, dtypes or numbers are "
            f"others. {_FORMAT.advice}"
        )
    return {"t": found["t"], **tensors}


def _fits(found: dict[str, Any], tensors: dict[str, Tensor], facts: dict[str, Any]) -> bool:
    """Whether a checkpoint holds an iterate of this fit."""
    if set(found) != {"fit", "t"} or set(tensors) != {"u", "v", "weights"}:
        return False
    t = found["t"]
    known = isinstance(found["fit"], dict) and isinstance(t, int) and t >= 0
    return known and _is_iterate(tensors["u"], tensors["v"], tensors["weights"], facts)


def _is_iterate(u: Tensor, v: Tensor, weights: Tensor, facts: dict[str, Any]) -> bool:
    """Whether Σ weightsᵢ uᵢvᵢᵀ has the fit's shape and dtype, and weights that a mixture has."""
    return (
        weights.ndim == 1
        and weights.dtype == torch.float64
        and str(u.dtype) == str(v.dtype) == facts["dtype"]
        and u.shape == (len(weights), facts["features"])
        and v.shape == (len(weights), facts["classes"])
        and all(bool(torch.isfinite(part).all()) for part in (u, v, weights))
        and bool((weights >= 0).all())
        and float(weights.sum()) <= 1 + 1e-6
    )
