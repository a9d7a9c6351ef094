"""A race on one data set: candidates take turns, and their notes say what they reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.harness import OURS, Contender, Row, compare, interleave

Fit = Callable[[], Any]


def race(
    case: str,
    ours: Fit,
    peers: Mapping[str, tuple[Fit, float | None]],
    repeats: int,
    note: str = "",
) -> list[Row]:
    """Time `ours` and each peer, which has its target; one row per peer."""
    contenders: dict[str, Contender] = {
        OURS: ours,
        **{name: fit for name, (fit, _) in peers.items()},
    }
    targets = {name: target for name, (_, target) in peers.items()}
    rows = compare(case, interleave(contenders, repeats), targets, 1e3, "ms")
    return [replace(row, note=note) for row in rows]
