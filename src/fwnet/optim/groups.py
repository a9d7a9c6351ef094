"""Parameter groups: learning rates, names and gradients, and where parameters live."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn.parameter import is_lazy

from fwnet.numerics import checks
from fwnet.optim.layouts import Place, place_of
from fwnet.oracles import CostOracle

Group = dict[str, Any]
State = dict[str, Any]  # of one parameter


class Held(NamedTuple):
    """A parameter, its group, and where it lives."""

    parameter: Tensor
    group: Group
    place: Place
    oracle: CostOracle


def name_of(parameter: Tensor, group: Group) -> str:
    """What to call a parameter in an error."""
    place = next(k for k, other in enumerate(group["params"]) if other is parameter)
    names = group.get("param_names")
    shape = "unknown shape" if is_lazy(parameter) else f"shape {tuple(parameter.shape)}"
    return names[place] if names else f"parameter {place} of {shape}"


def constrained(group: Group) -> Iterator[tuple[str, Tensor, Place]]:
    """The parameters that live in a domain: what to call them, and their places."""
    for parameter in group["params"]:
        place = place_of(parameter, group["domain"])
        if place is not None:
            yield name_of(parameter, group), parameter, place


def warn(text: str) -> None:
    """Warn at the user's line, however many calls of fwnet and torch are in between."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].partition(".")[0] in ("fwnet", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def gradient_of(parameter: Tensor) -> Tensor:
    """The gradient of a parameter that has one."""
    assert parameter.grad is not None
    return parameter.grad


def rate_of(group: Group) -> float | Tensor:
    """The learning rate: a number, or a tensor that lives on an accelerator."""
    lr = group["lr"]
    if type(lr) is float:
        return lr
    if isinstance(lr, Tensor):
        lr = lr.detach().reshape(())
        return float(lr) if lr.device.type == "cpu" else lr
    return float(lr)


def check_rate(group: Group) -> None:
    """Raise unless the learning rate is a number of at least 0; one on a device is not read."""
    lr = group["lr"]
    if type(lr) is float and 0 <= lr < math.inf:
        return
    if isinstance(lr, Tensor) and lr.numel() == 1:
        lr = lr.detach().reshape(()) if not lr.requires_grad else lr
        if lr.device.type != "cpu":  # a check of its value would wait for the device
            return
    checks.non_negative("lr", lr)
