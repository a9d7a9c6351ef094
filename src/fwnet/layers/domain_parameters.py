"""Refuse gradients of a domain's parameters in layers that do not compute them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fwnet.domains import Box, ConvexHull, Domain

UNROLLED = (Box, ConvexHull)  # their vertices are torch functions of their parameters


def refuse_gradients(who: str, domain: Domain, learnable: tuple[type[Domain], ...] = ()) -> None:
    """Raise if a parameter of the domain requires a gradient but would not get one.

    Arguments:
        who: the layer.
        learnable: domains whose parameters get one.
    """
    if not torch.is_grad_enabled():
        return
    for owner, name, value in _parameters(domain):
        if value.requires_grad and not isinstance(owner, learnable):
            kind = type(owner).__name__
            unrolled = isinstance(owner, UNROLLED)
            advice = (
                "unroll the steps with FWNet(solver), or detach it" if unrolled else "detach it"
            )
            raise ValueError(
                f"{who} has no gradient for {kind}({name}=...), which requires one: {advice}."
            )


def _parameters(domain: Domain) -> Iterator[tuple[Domain, str, Tensor]]:
    """Every tensor argument of the domain and of the domains it is made of."""
    fields = getattr(domain, "__dataclass_fields__", {})  # a domain need not be a dataclass
    for name, values in vars(domain).items():
        if name.startswith("_") or (name in fields and not fields[name].init):
            continue
        for value in _flat(values):
            if isinstance(value, Domain):
                yield from _parameters(value)
            elif isinstance(value, Tensor):
                yield domain, name, value


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    else:
        yield value
