"""What a controller sees: dimensionless numbers, detached, bounded.

A change of a feature changes what old weights mean: raise FEATURES with it, and files of the old
version are refused instead of being misread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul
from typing import Any, NamedTuple

import torch
from torch import Tensor

FEATURES = 1  # version

COORDINATE_FEATURES, PROBLEM_FEATURES = 10, 3


class SimplexPoint(NamedTuple):
    """What is known of x on the simplex, without gradients."""

    x: Tensor  # (*batch, n)
    gradient: Tensor
    last_x: Tensor  # before the last step; x itself at the first
    last_gradient: Tensor
    along: Tensor  # ⟨∇f, x⟩, (*batch, 1), as are the others
    gap: Tensor
    length: Tensor  # η of the projected gradient step
    last_length: Tensor


def surplus_of(point: SimplexPoint) -> Tensor:
    """⟨∇f, x⟩ / Σx − ∇f_i, `(*batch, n)`: positive where a coordinate should grow."""
    return point.along / point.x.sum(-1, keepdim=True) - point.gradient


def coordinate_features(point: SimplexPoint, surplus: Tensor) -> tuple[Tensor, Tensor]:
    """`(*batch, COORDINATE_FEATURES, n)` and `(*batch, PROBLEM_FEATURES)`.

    Five per coordinate, each at two scales: surplus and Δ∇f in units of the surplus' spread over
    x, and n x, n η surplus, n Δx in units of the radius. Three of the problem, as logarithms: gap
    over spread, the share of coordinates in use, the growth of η.
    """
    x, n = point.x, point.x.shape[-1]
    mass = x.sum(-1, keepdim=True)  # the radius
    scale = n / mass
    square = (x * surplus * surplus).sum(-1, keepdim=True) / mass
    spread = square.clip(0) ** 0.5 + 1e-30  # rounding may have left some x_i below 0
    rows = torch.stack(
        (
            surplus / spread,
            x * scale,
            surplus * (point.length * scale),
            (x - point.last_x) * scale,
            (point.gradient - point.last_gradient) / spread,
        ),
        -2,
    )
    rows = torch.cat((rows, 0.125 * rows), -2)
    used = mass * mass / (x * x).sum(-1, keepdim=True)  # effective support
    growth = point.length / point.last_length
    numbers = torch.cat((point.gap / spread, used / n, growth), -1)
    rows = rows / (1 + rows.abs())
    return rows, 0.25 * numbers.clip(1e-12, 1e12).log()


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
