"""FitConfig: what a fit is asked; Report: what it tells on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from fwnet import checks


@final
@dataclass(frozen=True)
class FitConfig:
    """What to fit, and how.

    Arguments:
        classes: m; labels are 0, …, m − 1.
        radius: of the trace-norm ball.
        max_steps: budget; checked where a gap is certified, every `checkpoint_every` steps.
        tol: stop when the certified gap is at most this fraction of the loss.
        power_steps: power iterations of a step, each d + m numbers.
        memory: how many of the last vertices a step may mix, p²/2 numbers.
        search_rows: rows that the mixture and the line search look at, about.
        checkpoint_every: N: steps between certificates and checkpoints.
        block: rows of a block, the unit of every sum; a multiple of 16.
    """

    classes: int
    radius: float
    max_steps: int = 1000
    tol: float = 1e-2
    power_steps: int = 2
    memory: int = 8
    search_rows: int = 65_536
    checkpoint_every: int = 100
    block: int = 1024

    def __post_init__(self) -> None:
        checks.at_least("classes", self.classes, 2)
        checks.positive("radius", self.radius)
        checks.non_negative("tol", self.tol)
        for name in ("max_steps", "power_steps", "memory", "search_rows", "checkpoint_every"):
            checks.at_least(name, getattr(self, name), 1)
        if checks.at_least("block", self.block, 16) % 16:
            raise ValueError(f"block must be a multiple of 16; got {self.block!r}.")


class Report(NamedTuple):
    """What a pause knows."""

    t: int
    value: float
    gap: float  # certified
    rank: int
    seconds: float  # since this process began to step
