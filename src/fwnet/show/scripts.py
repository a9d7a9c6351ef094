"""What scripts share, those of examples/ for instance: options, a table, a figure of gaps."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")


class Traced(Protocol):
    """A result with its records, as a `fwnet.Result`."""

    @property
    def trace(self) -> Any:
        """Its records."""


def options(description: str | None) -> argparse.Namespace:
    """The command line of an example. One thread, so that times can be compared."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a figure into FILE (.png, .svg, .pdf)")
    parser.add_argument("--quick", action="store_true", help="fewer steps, to check that it runs")
    torch.set_num_threads(1)
    return parser.parse_args()


def timed(call: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """call(*arguments), and its seconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - start


def costs(runs: Mapping[str, Callable[[], Traced]], rounds: int = 5) -> dict[str, float]:
    """The cost of a step of each run, as a multiple of the first run's.

    Medians of interleaved rounds, in processor time, so that other programs do not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            steps = len(run().trace) - 1
            seconds[name].append((time.process_time() - start) / max(1, steps))
    medians = {name: statistics.median(samples) for name, samples in seconds.items()}
    first = next(iter(medians.values()))
    return {name: median / first for name, median in medians.items()}


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns: text to the left, numbers to the right, NaN as a blank."""
    rows = [list(row) for row in rows]
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    left = [isinstance(cell, str) for cell in rows[0]]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(cells, widths, left, strict=True)
        )
        return "  ".join(aligned).rstrip()

    print(line(columns))
    print("  ".join("-" * width for width in widths))
    for text in texts:
        print(line(text))


def plot_gaps(
    results: Mapping[str, Traced], file: str | None, title: str = "", x_scale: str = "linear"
) -> None:
    """The smallest gap so far of each result by step, into a file; nothing without a file."""
    if file is None:
        return
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for k, (name, result) in enumerate(results.items()):
        gap = result.trace.column("gap")
        known = np.isfinite(gap) & (gap > 0)
        best = np.minimum.accumulate(gap[known])
        shift = 1 if x_scale == "log" else 0  # 0 has no logarithm
        width = max(1.2, 2.8 - 0.4 * k)  # the first curves show beneath later ones
        ax.plot(result.trace.column("t")[known] + shift, best, label=name, linewidth=width)
    label = "step" if x_scale == "linear" else "step, counted from 1"
    ax.set(xlabel=label, ylabel="smallest duality gap so far", title=title)
    ax.set(xscale=x_scale, yscale="log")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    save(ax, file)


def save(ax: Axes, file: str) -> None:
    """Write the figure of these axes, as wide as a page of the site."""
    from matplotlib import pyplot

    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    print(f"\nfigure: {file}")


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    if math.isnan(cell):
        return ""
    if 1000 <= abs(cell) < 1e7:
        return f"{cell:.0f}"
    return f"{cell:.3g}" if cell == 0 or 1e-3 <= abs(cell) < 1000 else f"{cell:.1e}"
