"""A race: candidates take turns in one process, CPU time, medians, ratios to ours."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """One ratio: ours over a peer, with the bar that it should stay below."""

    case: str
    peer: str
    ratio: float
    bar: float | None
    ours_ms: float
    peer_ms: float
    note: str

    def __str__(self) -> str:
        verdict = "" if self.bar is None else ("ok" if self.ratio <= self.bar else "MISSED")
        bar = "" if self.bar is None else f"<= {self.bar:g}"
        return (
            f"{self.case:34s} {self.peer:28s} {self.ratio:7.3f} {bar:8s} {verdict:6s} "
            f"{self.ours_ms:9.1f} {self.peer_ms:9.1f} ms  {self.note}"
        )


def race(
    case: str,
    ours: Callable[[], Any],
    peers: dict[str, tuple[Callable[[], Any], float | None]],
    repeats: int,
    note: str = "",
) -> list[Line]:
    """Time `ours` and each peer in turn after one warm-up each; return one line a peer."""
    runs = {"ours": ours, **{name: run for name, (run, _) in peers.items()}}
    times: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if turn:  # the first turn compiles, and touches memory for the first time
                times[name].append(time.process_time() - start)
    median = {name: 1e3 * float(np.median(values)) for name, values in times.items()}
    return [
        Line(case, name, median["ours"] / median[name], bar, median["ours"], median[name], note)
        for name, (_, bar) in peers.items()
    ]
