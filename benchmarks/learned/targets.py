"""Target: what was asked, what was measured, met or missed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.report import aligned


@dataclass(frozen=True)
class Target:
    """One line: our number, theirs, and their ratio with its target.

    `ratio` is theirs / ours for costs (above 1, ours is cheaper), and must be at least `least`;
    without `theirs`, `ours` must be at most `most`. Neither: a figure for the record.
    """

    name: str
    ours: float
    unit: str
    theirs: float | None = None
    rival: str = ""
    ratio: float | None = None
    quartiles: tuple[float, float] | None = None
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.least is not None:
            return self.ratio is not None and self.ratio >= self.least
        if self.most is not None:
            return self.ours <= self.most
        return None


@dataclass(frozen=True)
class Missing:
    """A target that could not be measured, and why."""

    name: str
    note: str


def table(rows: Sequence[Target | Missing]) -> str:
    header = ("target", "ours", "theirs", "", "ratio", "quartiles", "asked", "")
    return aligned(header, [_cells(row) for row in rows], [row.note for row in rows])


def as_json(rows: Sequence[Target | Missing]) -> list[dict[str, Any]]:
    return [
        {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(row).items()}
        | ({"met": row.met} if isinstance(row, Target) else {"met": None})
        for row in rows
    ]


def _cells(row: Target | Missing) -> tuple[str, ...]:
    if isinstance(row, Missing):
        return (row.name, "not measured", "", "", "", "", "", "")
    asked = f">= {row.least:g}" if row.least is not None else ""
    asked = f"<= {row.most:g} {row.unit}" if row.most is not None else asked
    low, high = row.quartiles or (None, None)
    return (
        row.name,
        f"{_short(row.ours)} {row.unit}",
        "" if row.theirs is None else _short(row.theirs),
        row.rival,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if low is None or high is None else f"{low:.2f} to {high:.2f}",
        asked,
        {True: "met", False: "SHORT", None: ""}[row.met],
    )


def _short(value: float) -> str:
    if math.isinf(value):
        return "never"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
