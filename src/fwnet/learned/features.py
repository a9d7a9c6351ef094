"""What a controller sees: numbers without units, detached, bounded.

A change of a feature changes what old weights mean: raise FEATURES with it, and files of the old
version are refused with a sentence instead of being misread.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.problems import Problem
from fwnet.problems.base import inner

FEATURES = 1  # version

COORDINATE_FEATURES, PROBLEM_FEATURES, STEP_FEATURES = 10, 3, 6


class Sight(NamedTuple):
    """What is known of x on the simplex: arrays of torch or NumPy, without gradients."""

    x: Any  # (*batch, n)
    gradient: Any
    last_x: Any  # before the last step; x itself at the first
    last_gradient: Any
    along: Any  # ⟨∇f, x⟩, (*batch, 1), or one number
    gap: Any
    length: Any  # η of the projected gradient step
    last_length: Any


def surplus_of(sight: Sight) -> Any:
    """⟨∇f, x⟩ / Σx − ∇f_i, `(*batch, n)`: positive where a coordinate should grow."""
    return sight.along / sight.x.sum(axis=-1, keepdims=True) - sight.gradient


def coordinate_features(sight: Sight, surplus: Any, xp: ModuleType) -> tuple[Any, Any]:
    """`(*batch, COORDINATE_FEATURES, n)` and `(*batch, PROBLEM_FEATURES)`.

    Five per coordinate, each at two scales: surplus and Δ∇f in units of the surplus' spread over
    x, and n x, n η surplus, n Δx in units of the radius. Three of the problem, as logarithms: gap
    over spread, the share of coordinates in use, the growth of η.

    Arguments:
        xp: the module of the arrays, torch or numpy; one is for batches and training, the other
            five times faster for one small problem.
    """
    x, n = sight.x, sight.x.shape[-1]
    mass = x.sum(axis=-1, keepdims=True)  # the radius
    scale = n / mass
    square = (x * surplus * surplus).sum(axis=-1, keepdims=True) / mass
    spread = square.clip(0) ** 0.5 + 1e-30  # rounding may have left some x_i below 0
    rows = xp.stack(
        (
            surplus / spread,
            x * scale,
            surplus * (sight.length * scale),
            (x - sight.last_x) * scale,
            (sight.gradient - sight.last_gradient) / spread,
        ),
        -2,
    )
    rows = xp.concatenate((rows, 0.125 * rows), -2)
    used = mass * mass / (x * x).sum(axis=-1, keepdims=True)  # effective support
    growth = sight.length / sight.last_length + 0 * spread  # of its shape
    numbers = xp.concatenate((sight.gap / spread, used / n, growth), -1)
    size = abs(rows)
    size += 1
    rows /= size  # bounded, and in place: these are the largest arrays here
    return rows, 0.25 * xp.log(numbers.clip(1e-12, 1e12))


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
