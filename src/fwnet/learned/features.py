"""What a controller sees: numbers without units, detached, bounded.

A change of a feature changes what old weights mean: raise FEATURES with it, and files of the old
version are refused with a sentence instead of being misread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.directions.proposals import LastStep
from fwnet.iterates import Iterate, Move
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import inner

FEATURES = 1  # version

COORDINATE_FEATURES, PROBLEM_FEATURES, STEP_FEATURES = 10, 3, 6


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|): bounded as tanh, a third of its cost, and slower to forget large values."""
    return x / (1 + x.abs())


@final
@dataclass(frozen=True, eq=False)
class CoordinateView:
    """What the coordinates of x on the simplex look like, in units of the problem itself.

    Arguments:
        surplus: ⟨∇f, x⟩ − ∇f_i, `(*batch, n)`: positive where a coordinate should grow.
        ahead: η · surplus, what a projected gradient step adds before the projection.
        step: the last Δx.
        coordinates: COORDINATE_FEATURES rows, `(*batch, features, n)`.
        problem: PROBLEM_FEATURES numbers, `(*batch, features)`.
    """

    surplus: Tensor
    ahead: Tensor
    step: Tensor
    coordinates: Tensor
    problem: Tensor


@torch.no_grad()
def coordinate_view(
    it: Iterate, lin: Linearization, gradient: Tensor, last: LastStep | None, length: Tensor
) -> CoordinateView:
    """The features of x and its gradient on a simplex.

    Five per coordinate, each at two scales: surplus and Δ∇f in units of the surplus' spread over
    x, and n x, n η surplus, n Δx.

    Arguments:
        last: the step before, None at the first.
        length: η of the projected gradient step, `(*batch,)`.
    """
    x, n = it.x, it.x.shape[-1]
    tiny = torch.finfo(x.dtype).tiny
    mass = x.sum(-1, keepdim=True)  # the radius
    scale = n / mass
    level = (lin.along.unsqueeze(-1)) / mass
    surplus = level - gradient
    spread = (x * surplus.square()).sum(-1, keepdim=True).div_(mass).sqrt_().clamp_min_(tiny)
    ahead = length.unsqueeze(-1) * surplus
    rows = x.new_empty(*x.shape[:-1], COORDINATE_FEATURES, n)
    step = torch.zeros_like(x) if last is None else x - last.x
    torch.div(surplus, spread, out=rows[..., 0, :])
    torch.mul(x, scale, out=rows[..., 1, :])
    torch.mul(ahead, scale, out=rows[..., 2, :])
    torch.mul(step, scale, out=rows[..., 3, :])
    if last is None:
        rows[..., 4, :] = 0.0
    else:
        torch.sub(gradient, last.gradient, out=rows[..., 4, :]).div_(spread)
    torch.mul(rows[..., :5, :], 0.125, out=rows[..., 5:, :])
    rows.div_(rows.abs().add_(1.0))
    gap = lin.decrease.unsqueeze(-1) / mass
    used = mass.square() / x.square().sum(-1, keepdim=True)  # effective support
    before = length if last is None else last.length
    changes = (length / before.clamp_min(tiny)).unsqueeze(-1)
    numbers = torch.cat([gap / spread, used / n, changes], -1)
    return CoordinateView(surplus, ahead, step, rows, numbers.clamp(1e-12, 1e12).log_() / 4)


@final
@dataclass(frozen=True, eq=False)
class StepMemory:
    """What the features of the next step compare with."""

    t: int
    gap: Tensor  # of the first step, (*batch,)
    last_gap: Tensor
    last_size: Tensor  # γ of the last step
    direction: Tensor


@torch.no_grad()
def step_features(problem: Problem, it: Iterate, move: Move, memory: StepMemory | None) -> Tensor:
    """STEP_FEATURES numbers of a step, `(*batch, features)`.

    log gap/gap₀, Δ log gap, log γ_LS, log γ_LS (t+2)/2, log γ_prev (t+2)/2, cos(d_t, d_{t−1}): no
    raw t, n or f among them.
    """
    tiny = torch.finfo(it.x.dtype).tiny
    gap = (-move.slope).clamp_min(tiny)
    bend = problem.curvature(it, move)
    exact = torch.ones_like(gap) if bend is None else gap / bend.clamp_min(tiny)
    exact = exact.clamp_max(1.0)
    t = 0 if memory is None else memory.t
    clock = (t + 2) / 2
    if memory is None:
        zero = torch.zeros_like(gap)
        numbers = [zero, zero, exact.log(), exact.log(), zero, zero]
    else:
        b = problem.batch_dims
        d, before = move.direction, memory.direction
        lengths = inner(d, d, b).sqrt() * inner(before, before, b).sqrt()
        numbers = [
            (gap / memory.gap).log(),
            (gap / memory.last_gap).log(),
            exact.log(),
            (exact * clock).log(),
            (memory.last_size.clamp_min(1e-12) * clock).log(),
            inner(d, before, b) / lengths.clamp_min(tiny),
        ]
    return torch.stack(numbers, -1).clamp(-40, 40) * _STEP_SCALES.to(it.x)


_STEP_SCALES = torch.tensor([0.25, 1.0, 0.25, 0.5, 0.5, 1.0])
