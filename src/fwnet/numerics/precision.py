"""Solves under autocast run in float32, like the operations of torch that need it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

_Call = TypeVar("_Call", bound=Callable[..., Any])


def without_autocast(device: torch.device | None) -> AbstractContextManager[Any]:
    """Operations keep the dtype of their arguments inside; None is the CPU."""
    kind = "cpu" if device is None else device.type
    if torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def in_full_precision(forward: _Call) -> _Call:
    """Under autocast, float16 and bfloat16 tensors become float32, and so does what comes out."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, **options: Any) -> Any:
        given = next((v for v in (*args, *options.values()) if isinstance(v, Tensor)), None)
        if given is None or not torch.is_autocast_enabled(given.device.type):
            return forward(self, *args, **options)
        with without_autocast(given.device):
            wide = {name: _widened(value) for name, value in options.items()}
            return forward(self, *map(_widened, args), **wide)

    return wrapped  # type: ignore[return-value]


def _widened(value: Any) -> Any:
    half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if half else value
