"""Checks of arguments: each error names the argument, the rule, the value and the remedy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def number(name: str, value: Any) -> float:
    """Return a Python or NumPy number, or a tensor or array without dimensions, as a float."""
    plain = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (plain or getattr(value, "ndim", None) == 0):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if getattr(value, "requires_grad", False):
        raise ValueError(
            f"{name} has no gradient; got {value!r}, which requires one. Pass its .item()."
        )
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number; got {value!r}.") from None
    except OverflowError:
        return math.inf


def positive(name: str, value: float) -> float:
    """Return `value` as a float if it is a finite number above 0."""
    converted = number(name, value)
    if not (math.isfinite(converted) and converted > 0):
        raise ValueError(f"{name} must be a positive finite number; got {value!r}.")
    return converted


def non_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is a finite number of at least 0."""
    converted = number(name, value)
    if not (math.isfinite(converted) and converted >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}.")
    return converted


def at_least(name: str, value: Any, least: int) -> int:
    """Return `value` as an int if it is a whole number, also of NumPy, of at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def switch(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is True or False, also of NumPy, or 1 or 0."""
    plain = isinstance(value, (bool, np.bool_, numbers.Integral))
    if not plain or value not in (0, 1):
        raise ValueError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def verbosity(name: str, value: Any) -> int:
    """Return `value` as an int if it is True, False or a whole number of at least 0."""
    return int(value) if isinstance(value, bool) else at_least(name, value, 0)


def classes(name: str, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes, and the place of each value among them, if they can be sorted."""
    try:
        found, places = np.unique(np.asarray(values), return_inverse=True)
    except TypeError:
        raise TypeError(
            f"{name} must be all numbers or all strings; got a mixture. Convert them."
        ) from None
    return found, places.reshape(-1)


def real_tensor(name: str, value: Any) -> Tensor:
    """Return `value` if it is a dense floating-point tensor without NaN or Inf, and not empty."""
    value = a_tensor(name, value)
    if value.layout is not torch.strided:
        raise TypeError(f"{name} must be dense; got {value.layout}. Convert with .to_dense().")
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{name} must be float32 or float64; got {value.dtype}. "
            "Convert with .float() or .double()."
        )
    return finite(name, not_empty(name, value))


def not_empty(name: str, value: Tensor) -> Tensor:
    """Return `value` if it has at least one entry."""
    if value.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(value.shape)}.")
    return value


def a_tensor(name: str, value: Any) -> Tensor:
    """Return `value` if it is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(value).__name__}. "
            "Convert with torch.as_tensor(...)."
        )
    return value


def finite(name: str, value: Tensor) -> Tensor:
    """Return `value` if all its entries are finite."""
    if torch.compiler.is_compiling():  # a check of values would break the graph
        return value
    entries = value.values() if value.layout is torch.sparse_csr else value
    good = torch.isfinite(entries)
    if not bool(good.all()):
        place = tuple(int(i) for i in (~good).nonzero()[0])
        bad = entries[place].item() if place else entries.item()
        raise ValueError(f"{name} must be finite; entry {place} is {bad}.")
    return value


def holds_integers(value: Tensor) -> bool:
    """Whether the dtype is an integer type; bool does not count."""
    return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)


def same_kind(name: str, value: Tensor, other_name: str, other: Any) -> None:
    """Check that a tensor shares the dtype and the device of another, or of a `LinearMap`."""
    if value.dtype != other.dtype:
        raise TypeError(
            f"{name} and {other_name} must share a dtype; got {value.dtype} and {other.dtype}."
        )
    if value.device != other.device:
        raise ValueError(
            f"{name} and {other_name} must share a device; got {value.device} and {other.device}."
        )


def signs(name: str, value: Any, shape: tuple[int, ...], like: Any) -> Tensor:
    """Return labels −1, +1 of a shape, in the dtype and on the device of the data `like`."""
    value = a_tensor(name, value)
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}; got {tuple(value.shape)}.")
    if not bool(((value == 1) | (value == -1)).all()):
        raise ValueError(f"{name} must hold -1 and +1 only; map 0/1 by 2 * y - 1.")
    return value.to(dtype=like.dtype, device=like.device)


def a_function(name: str, value: Any) -> None:
    """Check that `value` can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function; got {value!r}.")


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices; raise a ValueError otherwise."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return str(value)
