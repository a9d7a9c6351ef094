"""What a controller sees: numbers without units, detached, bounded.

A change of a feature changes what old weights mean: raise FEATURES with it, and files of the old
version are refused with a sentence instead of being misread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
