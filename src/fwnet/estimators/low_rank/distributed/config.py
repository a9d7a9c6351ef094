"""FitConfig: the settings of a fit; Report: what it shows at every certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from fwnet.numerics import checks

_WHOLE = (
    "classes",
    "max_steps",
    "power_steps",
    "memory",
    "search_rows",
    "checkpoint_every",
    "block",
)


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
        max_seconds: of this start, None for no limit; checked where a gap is certified.

    Example:
        >>> from fwnet.distributed import FitConfig
        >>> FitConfig(classes=5, radius=20.0, tol=0.1).checkpoint_every
        100
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
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        least = {"classes": 2, "block": 16}
        plain: dict[str, float] = {  # numbers of NumPy would not go into a file
            name: checks.at_least(name, getattr(self, name), least.get(name, 1)) for name in _WHOLE
        }
        plain["radius"] = checks.positive("radius", self.radius)
        plain["tol"] = checks.non_negative("tol", self.tol)
        if self.max_seconds is not None:
            plain["max_seconds"] = checks.positive("max_seconds", self.max_seconds)
        if plain["block"] % 16:
            raise ValueError(f"block must be a multiple of 16; got {self.block!r}.")
        for name, value in plain.items():
            object.__setattr__(self, name, value)


class Report(NamedTuple):
    """What is known at a certificate.

    Example:
        >>> from fwnet.distributed import Report
        >>> Report(t=100, value=0.5, gap=0.01, rank=7, seconds=3.0).gap
        0.01
    """

    t: int
    value: float
    gap: float  # certified
    rank: int
    seconds: float  # since this process began to step
