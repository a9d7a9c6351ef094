"""Averages of the weights: they lie in the same convex set as the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor

from fwnet.optim.groups import Group
from fwnet.optim.layouts import place_of
from fwnet.optim.mixing import drifts, margin, settle
from fwnet.optim.weights import gathered, local, precise, write


@final
class Averages:
    """The averages of a group's parameters.

        x̄ <- x̄ + c (w − x̄),   c = (a + 1) / (a + t)

    The k-th iterate gets a weight that grows like kᵃ: the start is forgotten, and the last
    1/(a + 1) of the run counts most, however long it is.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.lossy = [_loses_digits(parameter, group["domain"]) for parameter in group["params"]]

    def update(self, state: Any) -> None:
        """Take the new values in."""
        exponent = float(self.group["averaging"])
        pairs_of: defaultdict[float, list[tuple[Tensor, Tensor]]] = defaultdict(list)  # by c
        for parameter, lossy in zip(self.group["params"], self.lossy, strict=True):
            own = state[parameter]
            now = own.get("master", parameter)  # with all its digits
            if "average" not in own:
                own["average"], own["averaged"] = precise(now.detach()).clone(), 0
            own["averaged"] += 1
            share = (exponent + 1) / (exponent + own["averaged"])
            if lossy:
                _average_doubled(own, parameter, share)
            else:
                pairs_of[share].append((local(own["average"]), precise(local(now))))
        for share, pairs in pairs_of.items():
            means, values = zip(*pairs, strict=True)
            torch._foreach_lerp_(means, values, share)


def _loses_digits(parameter: Tensor, domain: Any) -> bool:
    """Whether the errors of rounding would accumulate."""
    place = place_of(parameter, domain)
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
                _write_average(parameter, state[parameter]["average"], group, feasible)
        yield
    finally:
        with torch.no_grad():
            for parameter, weights, _ in known:
                parameter.copy_(weights)


def _write_average(parameter: Tensor, average: Tensor, group: Group, feasible: bool) -> None:
    place = place_of(parameter, group["domain"]) if feasible else None
    if place is None:
        parameter.copy_(average)
        return
    x = gathered(average).clone()
    points = place.points(x)
    distance = margin(place.domain, parameter, tuple(points.shape))
    settle(place.domain, points, distance)  # against rounding, or a radius that has shrunk
    write(parameter, {"master": x}, place.tensor(points, tuple(x.shape)), place)
