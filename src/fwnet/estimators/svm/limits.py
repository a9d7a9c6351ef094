"""When an SVM solver stops: gap, steps, seconds, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from fwnet.trace import Clock, Status

BY_PRECISION = ("converged", "stalled", "non_finite")  # where rounding may have decided


@final
class OutOfTime(Exception):
    """The time was over inside a computation; what it would have returned is not known."""


@final
@dataclass(frozen=True, eq=False)
class Limits:
    """When to stop: relative duality gap, steps, seconds on the clock, megabytes."""

    tol: float
    max_steps: int
    clock: Clock
    megabytes: float

    def status(
        self, gap: float, steps: int, stalled: bool = False, reserve: float = 0.0
    ) -> Status | None:
        """Return why to stop, None to go on; `reserve` seconds are kept for a certificate."""
        if gap <= self.tol:
            return "converged"
        if not math.isfinite(gap):
            return "non_finite"
        if steps >= self.max_steps:
            return "max_steps"
        if self.clock.left <= reserve:
            return "max_seconds"
        return "stalled" if stalled else None

    def share(self, among: int) -> Limits:
        """Return the limits of one of so many solves that follow each other."""
        return replace(self, clock=Clock(self.clock.left / among))


def check_time(clock: Clock) -> None:
    """Raise OutOfTime if the limit is reached."""
    if clock.is_over:
        raise OutOfTime
