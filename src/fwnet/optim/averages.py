"""Averages of the weights: they lie in the same convex set as the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fwnet.optim.points import as_point, domain_of, drifts, settle

Group = dict[str, Any]


@torch.no_grad()
def average_in(group: Group, state: Any) -> None:
    """Update the average of every parameter of the group with its new value.

        x̄ <- x̄ + c (w − x̄),   c = (a + 1) / (a + t)

    The k-th iterate gets a weight that grows like kᵃ: the start is forgotten, and the last
    1/(a + 1) of the run counts most, however long it is.
    """
    exponent = float(group["averaging"])
    alike: defaultdict[float, list[Tensor]] = defaultdict(list)  # parameters with the same c
    for parameter in group["params"]:
        own = state[parameter]
        if "average" not in own:
            own["average"], own["averaged"] = parameter.detach().clone(), 0
        own["averaged"] += 1
        share = (exponent + 1) / (exponent + own["averaged"])
        if _loses_digits(parameter, group):
            _average_doubled(own, parameter, share)
        else:
            alike[share].append(parameter)
    for share, parameters in alike.items():
        torch._foreach_lerp_([state[p]["average"] for p in parameters], parameters, share)


def _loses_digits(parameter: Tensor, group: Group) -> bool:
    """Whether rounding would swallow small updates, or its errors would accumulate."""
    domain = domain_of(parameter, group["domain"])
    short = parameter.dtype in (torch.float16, torch.bfloat16)
    return short or (domain is not None and drifts(domain, parameter))


def _average_doubled(own: dict[str, Any], parameter: Tensor, share: float) -> None:
    """The same with a compensation term, which keeps the digits that the average cannot hold."""
    whole = own["average"].double() + own.get("average_rest", 0.0)
    whole.lerp_(parameter.double(), share)
    own["average"].copy_(whole)
    own["average_rest"] = (whole - own["average"]).to(parameter.dtype)


@contextmanager
def averages_in_place(groups: list[Group], state: Any, feasible: bool) -> Iterator[None]:
    """Replace the parameters by their averages within the block, and restore them after it."""
    known = [
        (parameter, parameter.detach().clone(), group)
        for group in groups
        for parameter in group["params"]
        if group["averaging"] is not None and "average" in state[parameter]
    ]
    try:
        with torch.no_grad():
            for parameter, _, group in known:
                _show(parameter, state[parameter]["average"], group, feasible)
        yield
    finally:
        with torch.no_grad():
            for parameter, weights, _ in known:
                parameter.copy_(weights)


def _show(parameter: Tensor, average: Tensor, group: Group, feasible: bool) -> None:
    parameter.copy_(average)
    domain = domain_of(parameter, group["domain"]) if feasible else None
    if domain is None:
        return
    x = as_point(parameter, domain)
    settle(domain, x, 0)  # against rounding, or a radius that has shrunk
    if x.data_ptr() != parameter.data_ptr():  # channels last: the point is a copy
        parameter.copy_(x.view(parameter.shape))
