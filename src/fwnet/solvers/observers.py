"""Recorder: clock, trace and observers of a run; observers that show it: a bar and a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.show.progress import progress_bar
from fwnet.trace import Clock, StepRecord, Trace

Observer = Callable[[StepRecord], object]


@final
class Recorder:
    """The clock, the trace and the observers of one run.

    Arguments:
        observers: called with every record; one that returns True asks to stop.
        max_seconds: the limit of the clock; None for none.
        every: of the trace.
    """

    def __init__(
        self, observers: Sequence[Observer], max_seconds: float | None = None, every: int = 1
    ) -> None:
        self.observers, self.trace, self.clock = observers, Trace(every), Clock(max_seconds)

    def __call__(self, record: StepRecord) -> bool:
        """Keep a record and show it to every observer; return whether one asks to stop."""
        self.trace.append(record)
        if self.observers and isinstance(record.value, Tensor) and record.value.ndim == 0:
            record = self.trace[-1]  # of one problem, as numbers
        stop = False
        for observer in self.observers:
            stop = _is_true(observer(record)) or stop
        return stop


def observers(
    stack: ExitStack,
    on_step: Observer | None,
    progress: bool,
    verbose: bool,
    max_steps: int,
    tol: float,
) -> list[Observer]:
    """The requested observers; the stack closes what they open."""
    wanted: list[Observer] = []
    if verbose:
        wanted.append(table())
    if progress:
        wanted.append(bar(stack, max_steps, tol))
    if on_step is not None:
        checks.a_function("on_step", on_step)
        wanted.append(on_step)  # last, so that the step it stops at has been shown
    return wanted


def table() -> Observer:
    """Print a row at steps 0, 1, 2, …, 10, 20, …, 100, 200, … and for the last iterate."""

    def show(record: StepRecord) -> None:
        if record.t == 0:
            print(f"{'step':>8} {'value':>14} {'gap':>10} {'step size':>10} {'seconds':>9}")
        spacing = 10 ** int(math.log10(max(record.t, 1)))
        last = _largest(record.step_size) == 0
        if record.t % spacing == 0 or last:
            print(
                f"{record.t:>8} {_largest(record.value):>14.6e} {_largest(record.gap):>10.2e} "
                f"{_largest(record.step_size):>10.2e} {record.seconds:>9.2f}"
            )

    return show


def bar(stack: ExitStack, max_steps: int, tol: float) -> Observer:
    """A rich progress bar with the gap and its target."""
    advance = progress_bar(stack, max_steps)

    def show(record: StepRecord) -> None:
        gap = _largest(record.gap)
        advance(record.t, None if math.isnan(gap) else f"gap {gap:.1e} (target {tol:.0e})")

    return show


def _largest(value: float | Tensor) -> float:
    return float(value.max()) if isinstance(value, Tensor) else value


def _is_true(answer: object) -> bool:
    """Whether an observer returned True, of Python, NumPy or torch, and not None or a number."""
    if isinstance(answer, Tensor):
        return answer.dtype == torch.bool and bool(answer.all())
    return isinstance(answer, (bool, np.bool_)) and bool(answer)
