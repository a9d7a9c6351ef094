"""The observers that show a run: a bar and a table."""

from __future__ import annotations

import math
from contextlib import ExitStack

from torch import Tensor

from fwnet.numerics import checks
from fwnet.show.progress import progress_bar
from fwnet.trace import Observer, StepRecord


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
