"""When an SVM solver stops: gap, steps, seconds, memory; and how many threads it may take."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from fwnet.trace import Clock, Observer, Status

CACHE_SHARE = 0.25  # of the free memory, for kernel values by default: four fits at once have room
_LEAST = 16.0  # megabytes for kernel values, however little is free
_UNKNOWN = 800.0  # megabytes that count as free where the system does not say
BY_PRECISION = ("converged", "stalled", "non_finite")  # where rounding may have decided


@final
class OutOfTime(Exception):
    """The time was over inside a computation; what it would have returned is not known."""


@final
@dataclass(frozen=True, eq=False)
class Limits:
    """When to stop: relative duality gap, steps, seconds on the clock; room for kernel values."""

    tol: float
    max_steps: int
    clock: Clock
    cache_size: float | None  # megabytes for kernel values; None for a share of the free memory
    observers: tuple[Observer, ...] = ()  # called with the record of each round
    threads: int = 1  # that evaluate kernel values

    def room(self, wanted: float) -> float:
        """Return the megabytes for kernel values of which `wanted` hold all.

        Only where they are many is the system asked for its free memory, which takes a while.
        """
        if self.cache_size is not None:
            return self.cache_size
        return _LEAST if 2.0 * wanted <= _LEAST else default_megabytes()

    def status(self, gap: float, steps: int, stalled: bool = False) -> Status | None:
        """Return why to stop, None to go on."""
        if gap <= self.tol:
            return "converged"
        if not math.isfinite(gap):
            return "non_finite"
        if steps >= self.max_steps:
            return "max_steps"
        if self.clock.is_over:
            return "max_seconds"
        return "stalled" if stalled else None

    def share(self, among: int) -> Limits:
        """Return the limits of one of so many solves that follow each other."""
        return replace(self, clock=Clock(self.clock.left / among))


def check_time(clock: Clock) -> None:
    """Raise OutOfTime if the limit is reached."""
    if clock.is_over:
        raise OutOfTime


def default_megabytes(root: str = "/") -> float:
    """Return a quarter of the free memory in megabytes, for `cache_size="auto"`.

    Free is what the kernel of Linux calls available, or what the limit of a container leaves, if
    that is less; elsewhere the unused pages; 800 MB if the system reports neither.

    Arguments:
        root: folder with `proc` and `sys`.
    """
    folder = Path(root)
    cgroup = folder / "sys/fs/cgroup"
    try:
        lines = (folder / "proc/meminfo").read_text().splitlines()
        free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        free = []
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:  # "max" for no limit
            left = int((cgroup / most).read_text()) - int((cgroup / used).read_text())
        except (OSError, ValueError):
            continue
        free.append(left)
    if not free:
        names = getattr(os, "sysconf_names", {})
        if "SC_AVPHYS_PAGES" in names:
            free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    megabytes = min(free) / 2**20 if free else _UNKNOWN
    return max(CACHE_SHARE * megabytes, _LEAST)
