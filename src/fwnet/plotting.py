"""Traces as pictures; the one module that draws with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fwnet.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"t": "step", "seconds": "seconds"}


def plot_trace(trace: Trace, against: str = "t", ax: Axes | None = None, label: str = "") -> Axes:
    """Duality gap, and the value's distance from the best one seen, on a logarithmic axis.

    A batch is drawn as its median with a band from the smallest to the largest.

    Arguments:
        trace: of one solve.
        against: `"t"` or `"seconds"`.
        ax: where to draw; a new figure if left out.
        label: in front of the legend's entries.
    """
    if against not in _LABELS:
        raise ValueError(f'against must be "t" or "seconds"; got {against!r}.')
    if len(trace) == 0:
        raise ValueError("the trace is empty: there is nothing to plot.")
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('plotting needs matplotlib: pip install "fwnet[plot]".') from None
    if ax is None:
        _, ax = pyplot.subplots(figsize=(6, 4), layout="constrained")
    where = trace.column(against)
    value, gap = trace.column("value"), trace.column("gap")
    excess = value - np.nanmin(value, axis=0)
    prefix = f"{label} " if label else ""
    for data, name, style in ((gap, "gap", "-"), (excess, "value − best value", "--")):
        data = np.where(data > 0, data, np.nan).reshape(len(trace), -1)
        known = ~np.isnan(data).all(axis=1)
        if not known.any():
            continue
        middle = np.nanmedian(data[known], axis=1)
        (line,) = ax.plot(where[known], middle, style, label=prefix + name)
        if data.shape[1] > 1:
            low, high = np.nanmin(data[known], axis=1), np.nanmax(data[known], axis=1)
            ax.fill_between(where[known], low, high, color=line.get_color(), alpha=0.2, lw=0)
    ax.set_yscale("log")
    ax.set_xlabel(_LABELS[against])
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
