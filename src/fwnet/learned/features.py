"""What a controller sees: numbers without units, detached, bounded.

A change of a feature changes what old weights mean: raise FEATURES with it, and files of the old
version are refused with a sentence instead of being misread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import mul
from types import ModuleType
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.problems import Problem
from fwnet.problems.base import inner

FEATURES = 1  # version

COORDINATE_FEATURES, PROBLEM_FEATURES = 10, 3


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


class StepSight(NamedTuple):
    """What is known of a step: tensors `(*batch,)`, or plain numbers."""

    gap: Any  # −slope
    exact: Any  # γ of the line search, at most 1; 1 where the problem knows no curvature
    square: Any  # ⟨d, d⟩
    along: Any  # ⟨d, the last d⟩, 0 at the first step


@final
@dataclass(frozen=True, eq=False)
class StepMemory:
    """What the features of the next step compare with."""

    t: int
    gap: Any  # of the first step
    last: StepSight
    last_size: Any  # γ of the last step
    direction: Tensor


class Arithmetic(NamedTuple):
    """The functions that a policy of few weights needs, for tensors or for plain numbers.

    Python's arithmetic costs a tenth of a torch scalar's: that decides the cost of a step.
    """

    log: Callable[[Any], Any]
    log10: Callable[[Any], Any]
    clip: Callable[[Any, float, float], Any]
    sigmoid: Callable[[Any], Any]
    dot: Callable[[list[Any], Tensor], Any]  # Σ features · weights


TENSORS = Arithmetic(
    torch.log,
    torch.log10,
    torch.clip,
    torch.sigmoid,
    lambda features, weights: torch.stack(features, -1) @ weights.to(features[0].dtype),
)
NUMBERS = Arithmetic(
    lambda x: math.log(x) if x > 0 else -math.inf,
    lambda x: math.log10(x) if x > 0 else -math.inf,
    lambda x, low, high: min(max(x, low), high),
    lambda x: 0.5 + 0.5 * math.tanh(0.5 * x),  # cannot overflow
    lambda features, weights: sum(map(mul, features, weights.tolist())),
)


def see_step(
    problem: Problem, it: Iterate, move: Move, memory: StepMemory | None, xp: Arithmetic
) -> StepSight:
    """What the features are made of, without gradients."""
    b, d = problem.batch_dims, move.direction.detach()
    bend = problem.curvature(it, move)
    square = inner(d, d, b)
    along = 0 * square if memory is None else inner(d, memory.direction, b)
    seen = [-move.slope.detach(), square if bend is None else bend.detach(), square, along]
    numbers: Any = [v.item() for v in seen] if xp is NUMBERS else seen
    tiny = torch.finfo(it.x.dtype).tiny
    gap, curve, size = (xp.clip(number, tiny, math.inf) for number in numbers[:3])
    exact = 1 + 0 * gap if bend is None else xp.clip(gap / curve, 0.0, 1.0)
    return StepSight(gap, exact, size, numbers[3])


def step_features(seen: StepSight, memory: StepMemory | None, xp: Arithmetic) -> list[Any]:
    """Six tensors `(*batch,)`, or numbers.

    log gap/gap₀, Δ log gap, log γ_LS, log γ_LS (t+2)/2, log γ_prev (t+2)/2, cos(d_t, d_{t−1}): no
    raw t, n or f among them.
    """
    if memory is None:
        zero, exact = 0 * seen.gap, xp.log(seen.exact)
        numbers = [zero, zero, exact, exact, zero, zero]
    else:
        clock = (memory.t + 2) / 2
        numbers = [
            xp.log(seen.gap / memory.gap),
            xp.log(seen.gap / memory.last.gap),
            xp.log(seen.exact),
            xp.log(seen.exact * clock),
            xp.log(xp.clip(memory.last_size, 1e-12, 1.0) * clock),
            seen.along / (seen.square**0.5 * memory.last.square**0.5),
        ]
    return [k * xp.clip(x, -40.0, 40.0) for k, x in zip(_STEP_SCALES, numbers, strict=True)]


_STEP_SCALES = (0.25, 1.0, 0.25, 0.5, 0.5, 1.0)
