"""Averages of the weights: where points of a convex set lie, their weighted mean lies too."""

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
    """The average of every parameter of the group takes its share of the new weights.

        x̄ <- x̄ + c (w − x̄),   c = (a + 1) / (a + t)

    After t steps the weight of the k-th iterate grows like kᵃ: the start is forgotten, and the
    last 1/(a + 1) of the run counts most, however long it was.
    """
    alike: defaultdict[int, list[Tensor]] = defaultdict(list)  # by how many steps they have seen
    for parameter in group["params"]:
        own = state[parameter]
        if "average" not in own:
            own["average"], own["averaged"] = parameter.detach().clone(), 0
        own["averaged"] += 1
        alike[own["averaged"]].append(parameter)
    exponent = float(group["averaging"])
    for t, parameters in alike.items():
        share = (exponent + 1) / (exponent + t)
        exact = [p for p in parameters if _drifts(p, group)]
        plain = [p for p in parameters if not _drifts(p, group)] if exact else parameters
        if plain:
            torch._foreach_lerp_([state[p]["average"] for p in plain], plain, share)
        for parameter in exact:
            own = state[parameter]
            whole = own["average"].double() + own.get("average_rest", 0.0)
            whole.lerp_(parameter.double(), share)
            own["average"].copy_(whole)
            own["average_rest"] = (whole - own["average"]).to(parameter.dtype)


@contextmanager
def averages_in_place(groups: list[Group], state: Any, feasible: bool) -> Iterator[None]:
    """The parameters are their averages within the block, and themselves after it."""
    kept = {p: p.detach().clone() for g in groups for p in g["params"] if "average" in state[p]}
    try:
        with torch.no_grad():
            for group in groups:
                for parameter in group["params"]:
                    if parameter in kept:
                        _show(parameter, state[parameter]["average"], group, feasible)
        yield
    finally:
        with torch.no_grad():
            for parameter, weights in kept.items():
                parameter.copy_(weights)


def _show(parameter: Tensor, average: Tensor, group: Group, feasible: bool) -> None:
    parameter.copy_(average)
    domain = domain_of(parameter, group["domain"]) if feasible else None
    if domain is None:
        return
    x = as_point(parameter, domain)
    settle(domain, x, 0)  # rounding, and a radius that was larger before
    if x.data_ptr() != parameter.data_ptr():  # channels last: the point is a copy
        parameter.copy_(x.view(parameter.shape))


def _drifts(parameter: Tensor, group: Group) -> bool:
    domain = domain_of(parameter, group["domain"])
    return domain is not None and drifts(domain, parameter)
