"""The optimizers that are compared: the same number of learning rates each, and their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fwnet.optim import ConditionalGradient, FrankWolfe, constrain, sign, spectral

Build = Callable[[nn.Module, float], "list[torch.optim.Optimizer]"]


@dataclass(frozen=True)
class Method:
    """A name, how to build its optimizers, its default rate and the rates that it may try."""

    name: str
    build: Build
    default: float
    rates: tuple[float, ...]
    averaged: bool = False


def adamw(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [torch.optim.AdamW(net.parameters(), lr=lr)]


def averaged_adam(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Without a domain FrankWolfe is torch's AdamW to the bit; no weight decay, as ours."""
    return [FrankWolfe([{"params": net.parameters(), "domain": None}], lr=lr, averaging=8)]


def muon(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices, AdamW for everything else, convolutions included."""
    modules = [m for m in net.modules() if isinstance(m, nn.Linear)][:-1]
    matrices = [m.weight for m in modules]
    rest = [p for p in net.parameters() if all(p is not m for m in matrices)]
    first = (
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
        if matrices
        else None
    )
    others = torch.optim.AdamW(rest, lr=lr)
    return [others] if first is None else [first, others]


def scion(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Spectral balls for hidden layers, a sign ball for the last one, as its authors advise."""
    modules = [m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    last = list(modules[-1].parameters())
    hidden = [p for m in modules[:-1] for p in m.parameters()]
    rest = [p for p in net.parameters() if all(p is not q for q in hidden + last)]
    groups: list[dict[str, Any]] = [
        {"params": hidden, "norm": spectral(3.0)},
        {"params": last, "norm": sign(10.0)},
    ]
    if rest:
        groups.append({"params": rest, "norm": None})
    return [ConditionalGradient(groups, lr=lr)]


def ours(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [FrankWolfe(constrain(net), lr=lr)]


def ours_averaged(net: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [FrankWolfe(constrain(net), lr=lr, averaging=8)]


METHODS = (
    Method("AdamW", adamw, 1e-3, (1e-3, 3e-3, 1e-2, 3e-2)),
    Method("Adam, averaged", averaged_adam, 1e-3, (1e-3, 3e-3, 1e-2, 3e-2), averaged=True),
    Method("Muon", muon, 1e-3, (1e-3, 3e-3, 1e-2, 3e-2)),
    Method("Scion preset", scion, 1e-2, (1e-3, 3e-3, 1e-2, 3e-2)),
    Method("FrankWolfe", ours, 5e-3, (1e-3, 2.5e-3, 5e-3, 1e-2)),
    Method("FrankWolfe, averaged", ours_averaged, 5e-3, (1e-3, 2.5e-3, 5e-3, 1e-2), averaged=True),
)
