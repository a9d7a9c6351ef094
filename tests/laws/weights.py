"""Weights of an optimizer: in their domains after every step, in every precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fwnet
from fwnet.optim import FrankWolfe, columns, constrain, rows, stack, whole
from fwnet.optim.layouts import place_of

BALLS: list[Callable[[float], Any]] = [
    fwnet.SpectralBall,
    fwnet.TraceNormBall,
    fwnet.RowBall,
    fwnet.LInfBall,
    lambda radius: whole(fwnet.L1Ball(radius)),
    lambda radius: whole(fwnet.L2Ball(radius)),
    lambda radius: whole(fwnet.LpBall(3.0, radius)),
    lambda radius: whole(fwnet.KSparseBall(5, radius)),
    lambda radius: rows(fwnet.L1Ball(radius)),
    lambda radius: columns(fwnet.L2Ball(radius)),
    lambda radius: stack(fwnet.SpectralBall(radius)),
    lambda radius: stack(fwnet.TraceNormBall(radius)),
]
OTHERS: list[Callable[[float], Any]] = [
    lambda radius: whole(fwnet.Simplex(radius)),
    lambda radius: rows(fwnet.Simplex(radius)),
    lambda radius: fwnet.Box(-radius, 2 * radius),
]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
STEPS = 200


def outside(weight: Tensor, domain: Any) -> float:
    """How far a weight is outside, relative to the radius; at most 0 inside."""
    place = place_of(weight, domain)
    assert place is not None
    points, inner = place.points(weight.detach()).double(), place.domain
    if isinstance(inner, fwnet.domains.NormBall):
        return float(inner.norm(points).max()) / inner.radius - 1
    if isinstance(inner, fwnet.Box):
        size = float(inner.upper)
        return float(torch.maximum(points - inner.upper, inner.lower - points).max()) / size
    radius: float = inner.radius  # type: ignore[attr-defined]
    return max(float((points.sum(-1) - radius).abs().max()), float(-points.min())) / radius


def attack(generator: np.random.Generator) -> str | None:
    """Random and steady gradients of any size, rates that change, from any start."""
    dtype = DTYPES[generator.integers(len(DTYPES))]
    kinds = BALLS if dtype in (torch.bfloat16, torch.float16) else BALLS + OTHERS
    radius = float(10 ** generator.uniform(-2, 1))
    domain = kinds[generator.integers(len(kinds))](radius)
    shape = tuple(int(n) for n in generator.integers(3, 25, 3 if "stack" in str(domain) else 2))
    noise = torch.Generator().manual_seed(int(generator.integers(2**31)))
    net = nn.ParameterDict(
        {"w": torch.randn(shape, generator=noise) * 10 ** generator.uniform(-3, 1)}
    )
    net.to(dtype)
    rescale = (None, "vertex", "diameter", "gradient")[generator.integers(4)]
    oracle = None
    if isinstance(domain, fwnet.TraceNormBall):
        oracle = (None, fwnet.PowerIteration(1), fwnet.SoftTraceNorm(3.0))[generator.integers(3)]
    opt = FrankWolfe(constrain(net, {"w": domain}), rescale=rescale, oracle=oracle, averaging=8)
    limit = 0.0 if dtype in (torch.bfloat16, torch.float16) else 1e-6
    weight, steady = net["w"], generator.random() < 0.5
    size = 10 ** generator.uniform(-3, 3)
    for t in range(STEPS):
        opt.param_groups[0]["lr"] = float(10 ** generator.uniform(-6, 0))
        drawn = size * torch.randn(shape, generator=noise)
        weight.grad = (-weight.detach() if steady and t % 20 else drawn).to(dtype)
        opt.step()
        far = outside(weight, domain)
        if not far <= limit:
            return (
                f"infeasible: {domain}, {dtype}, {shape}, {rescale}: {far:.2e} after {t + 1} steps"
            )
    with opt.averaged():
        far = outside(weight, domain)
    return None if far <= limit else f"infeasible: average in {domain}, {dtype}, {shape}: {far:.2e}"
