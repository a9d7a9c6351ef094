"""Averages of the weights: they lie in the same convex set as the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fwnet.optim.layouts import place_of
from fwnet.optim.mixing import drifts, margin, settle
from fwnet.optim.weights import HALF, gathered, local, write

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
            own["average"], own["averaged"] = _now(parameter, own).clone(), 0
        own["averaged"] += 1
        share = (exponent + 1) / (exponent + own["averaged"])
        if _loses_digits(parameter, group, own):
            _average_doubled(own, parameter, share)
        else:
            alike[share].append(parameter)
    for share, parameters in alike.items():
        torch._foreach_lerp_(
            [local(state[p]["average"]) for p in parameters],
            [local(_now(p, state[p])) for p in parameters],
            share,
        )


def _now(parameter: Tensor, own: dict[str, Any]) -> Tensor:
    """The weights with all their digits."""
    now: Tensor = own.get("master", parameter.detach())
    return now


def _loses_digits(parameter: Tensor, group: Group, own: dict[str, Any]) -> bool:
    """Whether rounding would swallow small updates, or its errors would accumulate."""
    if own["average"].dtype in HALF:
        return True
    place = place_of(parameter, group["domain"])
    return place is not None and drifts(place.domain, parameter)


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
    place = place_of(parameter, group["domain"]) if feasible else None
    if place is None:
        parameter.copy_(average)
        return
    x = gathered(average).clone()
    points = place.points(x)
    distance = margin(place.domain, parameter, tuple(points.shape))
    settle(place.domain, points, distance)  # against rounding, or a radius that has shrunk
    write(parameter, {"master": x}, place.tensor(points, tuple(x.shape)), place)
