"""A race: candidates take turns in one process, CPU time, medians, ratios to ours."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """One ratio: ours over a peer, with the target that it should stay below."""

    case: str
    peer: str
    ratio: float
    target: float | None
    ours_ms: float
    peer_ms: float
    note: str

    def __str__(self) -> str:
        verdict = "" if self.target is None else ("ok" if self.ratio <= self.target else "MISSED")
        target = "" if self.target is None else f"<= {self.target:g}"
        return (
            f"{self.case:34s} {self.peer:28s} {self.ratio:7.3f} {target:8s} {verdict:6s} "
            f"{self.ours_ms:9.1f} {self.peer_ms:9.1f} ms  {self.note}"
        )


def race(
    case: str,
    ours: Callable[[], Any],
    peers: Mapping[str, tuple[Callable[[], Any], float | None]],
    repeats: int,
    note: str = "",
) -> list[Line]:
    """Time `ours` and each peer in turn after one warm-up each; return one line per peer.

    CPU time is the program's and the system's: the system provides fresh memory, which takes
    most of the time on a virtual machine that reclaims it meanwhile. The note gives its share.
    """
    runs = {"ours": ours, **{name: run for name, (run, _) in peers.items()}}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    gc.collect()
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = os.times()
            began = time.process_time()
            run()
            if turn:  # the first turn compiles, and touches memory for the first time
                spent = time.process_time() - began
                times[name].append((spent, os.times().system - start.system))
    median = {name: 1e3 * np.median(values, axis=0) for name, values in times.items()}
    total, system = median["ours"]
    lines = []
    for name, (_, target) in peers.items():
        theirs, share = median[name]
        facts = f"{note}, system {system:.0f} / {share:.0f} ms" if system + share >= 20 else note
        lines.append(Line(case, name, total / theirs, target, total, theirs, facts))
    return lines
