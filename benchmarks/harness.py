"""Time several callables in turn, and compare each peer's time with ours.

    ratio = median over rounds of (our time / the peer's time in the same round)

The machine's speed drifts; two calls in one round see nearly the same machine, so the ratio of a
round is steadier than the ratio of two medians.
"""

import gc
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks import THREADS

torch.set_num_threads(THREADS)

OURS, COMPILED = "fwnet", "fwnet, compiled=True"


@dataclass(frozen=True)
class Missing:
    """A contender that cannot run, and why; it keeps its row in the table."""

    reason: str


Contender = Callable[[], object] | Missing


@dataclass(frozen=True)
class Spread:
    """The median and the quartiles of the samples."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, samples: Iterable[float]) -> "Spread":
        values = np.asarray(list(samples), dtype=float)
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(low), float(high), values.size)


@dataclass(frozen=True)
class Row:
    """Our number, a peer's, their ratio and its target: a row of the JSON.

    `target` applies to the ratio, or to our number in a row without a peer.
    """

    what: str
    unit: str
    ours: Spread | None
    peer: str = ""
    theirs: Spread | None = None
    ratio: Spread | None = None
    target: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None where there is no target or nothing was measured."""
        measured = self.ratio if self.peer else self.ours
        if self.target is None or measured is None:
            return None
        return measured.median <= self.target


@dataclass(frozen=True)
class Case:
    """A named measurement: `run(repeats)` returns the rows of its table.

    `if_named`: it takes so long that it runs only if it is named.
    """

    name: str
    title: str
    run: Callable[[int], list[Row]]
    if_named: bool = False


Samples = Mapping[str, "list[float] | Missing"]


def interleave(
    contenders: Mapping[str, Contender], repeats: int, units: float = 1.0
) -> dict[str, list[float] | Missing]:
    """Seconds per unit of work of each contender, one sample per round, after one untimed call.

    The order rotates by one place per round, so that no contender always follows the same one.
    """
    able = {name: call for name, call in contenders.items() if not isinstance(call, Missing)}
    samples: dict[str, list[float]] = {name: [] for name in able}
    for call in able.values():
        call()
    names = list(able)
    for turn in range(repeats):
        gc.collect()
        gc.disable()
        try:
            for k in range(len(names)):
                name = names[(turn + k) % len(names)]
                samples[name].append(seconds(able[name]) / units)
        finally:
            gc.enable()
    return {
        name: call if isinstance(call, Missing) else samples[name]
        for name, call in contenders.items()
    }


def compare(
    what: str,
    samples: Samples,
    targets: Mapping[str, float | None],
    scale: float,
    unit: str,
    name: str = OURS,
) -> list[Row]:
    """One row per peer, in the order of `targets`: medians times `scale`, and their ratio.

    `name` says which of the samples are ours.
    """
    ours = samples[name]
    rows = []
    for peer, target in targets.items():
        theirs = samples[peer]
        lacking = [s.reason for s in (ours, theirs) if isinstance(s, Missing)]
        ratio = None
        if not isinstance(ours, Missing) and not isinstance(theirs, Missing):
            ratio = Spread.of(a / b for a, b in zip(ours, theirs, strict=True))
        rows.append(
            Row(
                what,
                unit,
                ours=_scaled(ours, scale),
                peer=peer,
                theirs=_scaled(theirs, scale),
                ratio=ratio,
                target=target,
                note="; ".join(lacking),
            )
        )
    return rows


def figure(
    what: str, values: Sequence[float], unit: str, target: float | None = None, note: str = ""
) -> Row:
    """A row without a peer: our number, at most `target`."""
    return Row(what, unit, ours=Spread.of(values) if values else None, target=target, note=note)


def require(condition: bool, message: str) -> None:
    """Stop the case: times mean nothing if the contenders solved different problems."""
    if not condition:
        raise AssertionError(message)


def power_of_growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The p of seconds ~ sizes^p, by least squares on the logarithms."""
    slope, _ = np.polyfit([math.log(n) for n in sizes], [math.log(s) for s in seconds], 1)
    return float(slope)


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call: what other programs take does not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _scaled(samples: "list[float] | Missing", scale: float) -> Spread | None:
    return None if isinstance(samples, Missing) else Spread.of(scale * s for s in samples)
