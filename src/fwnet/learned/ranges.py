"""Random numbers and sizes between two limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.numerics import checks


@final
@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform.

        log x ~ U(log low, log high)

    Example:
        >>> from fwnet import learned
        >>> learned.LogUniform(1.0, 100.0).sample(2, torch.Generator().manual_seed(0))
        tensor([87.1176, 26.0399], dtype=torch.float64)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.positive("LogUniform(low)", self.low)
        checks.positive("LogUniform(high)", self.high)
        if not 1 <= self.high / self.low < math.inf:
            raise ValueError(
                f"LogUniform(low, high) needs low <= high and a finite high / low; got {self}."
            )

    def sample(self, count: int, generator: torch.Generator) -> Tensor:  # (count,)
        """Independent draws, in float64."""
        unit = torch.rand(count, generator=generator, dtype=torch.float64)
        return self.low * (unit * math.log(self.high / self.low)).exp()


def sample_size(
    limits: tuple[int, int] | int, generator: torch.Generator, most: float = math.inf
) -> int:
    """A whole number, log-uniform between the limits; never above `most`."""
    low, high = low_and_high(limits)
    high = int(min(high, most))
    low = min(low, high)
    drawn = LogUniform(low, high + 1).sample(1, generator)
    return min(int(drawn), high)


def check_limits(name: str, limits: tuple[int, int] | int, least: int) -> None:
    """Raise unless `limits` is a whole number, or two in order."""
    low, high = low_and_high(limits)
    checks.at_least(name, low, least)
    if checks.at_least(name, high, least) < low:
        raise ValueError(f"{name} must be (low, high) with low <= high; got {limits!r}.")


def low_and_high(limits: tuple[int, int] | int) -> tuple[int, int]:
    """Two limits as they are, one number as both."""
    two = isinstance(limits, tuple | list) and len(limits) == 2
    return tuple(limits) if two else (limits, limits)  # type: ignore[return-value, arg-type]
