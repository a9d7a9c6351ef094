"""Sums that do not depend on their order: fixed point in 64-bit integers.

    total = Σ_b round(part_b · 2^k) / 2^k,   2^k · bound <= 2^62

Floating-point addition rounds, so its result depends on the order of the terms, and with it on
the number of workers. Integer addition does not round: any grouping of the blocks, any ring or
tree inside a collective, gives the same bits. The methods that were weighed:

- gather each block's part and add in one order: blocks · (d + m) numbers on the wire;
- a fixed binary tree over the blocks: d + m numbers, but a collective of our own, and only as
  many workers as the tree has aligned subtrees (1, 2, 4, 8, …);
- integers (chosen): d + m numbers of 8 bytes through the library's own all-reduce, whichever
  algorithm that picks, for any number of workers.

The scale needs a bound of the sum that is known beforehand. The errors P − Y of a row have norm at
most √2, and the logits on a segment of the ball are at most radius · |row|. The losses may be far
below that; their bound is the largest part of any worker, a maximum that is exact as well. The
rounding, 2^-62 of the bound for each block, is below that of float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

_BITS = 62


@final
@dataclass(frozen=True)
class FixedPoint:
    """Numbers whose sum is at most `bound`, as 64-bit integers.

    One more integer counts the numbers that were not finite (or beyond the bound); if there are
    any, the sum is NaN on every worker.

    Arguments:
        bound: no sum of absolute values of the parts exceeds it.

    Example:
        >>> from fwnet.estimators.low_rank.distributed.exact_sums import FixedPoint
        >>> point = FixedPoint(bound=8.0)
        >>> parts = [point.encode(torch.tensor([x], dtype=torch.float64)) for x in (0.1, 2.0)]
        >>> float(point.decode(parts[0] + parts[1]))
        2.1
    """

    bound: float

    @property
    def unit(self) -> float:
        """2^-k, what one of the integers counts."""
        exponent = math.frexp(self.bound)[1] if math.isfinite(self.bound) else 0
        return math.ldexp(1.0, max(exponent - _BITS, -1000))

    def encode(self, part: Tensor) -> Tensor:
        """A part `(k,)` as integers `(k + 1,)`."""
        part = part.to(torch.float64)
        good = part.abs() <= 1.01 * self.bound if math.isfinite(self.bound) else part != part
        units = torch.where(good, part, 0.0).div_(self.unit).round_().to(torch.int64)
        return torch.cat([units, (~good).sum().reshape(1)])

    def decode(self, total: Tensor) -> Tensor:
        """The sum `(k,)` in float64."""
        return torch.where(total[-1] == 0, total[:-1].to(torch.float64) * self.unit, torch.nan)
