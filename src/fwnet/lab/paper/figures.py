"""What an experiment shows, as plain data: curves, maps of a classifier, tables.

The page draws curves in the browser and `plots` draws everything for papers; both read these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

_POINTS = 240  # of a curve: more cannot be seen


@final
@dataclass(frozen=True, eq=False)
class PlottedLine:
    """A curve, with a band from `low` to `high` where there is one.

    Arguments:
        name: in the legend. One name has one colour throughout an experiment.
        x, y: of one length. Where y is not finite the curve is broken.
        low, high: the spread over seeds or problems, as long as y.
        baseline: drawn thin and dashed, so that the paper's methods stand out.
    """

    name: str
    x: Sequence[float]  # (n,)
    y: Sequence[float]  # (n,)
    low: Sequence[float] | None = None  # (n,)
    high: Sequence[float] | None = None  # (n,)
    baseline: bool = False

    def __post_init__(self) -> None:
        for label in ("y", "low", "high"):
            values = getattr(self, label)
            if values is not None and len(values) != len(self.x):
                raise ValueError(
                    f"PlottedLine {self.name!r}: {label} must be as long as x, {len(self.x)}; "
                    f"got {len(values)}."
                )


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """Curves over one pair of axes.

    Arguments:
        name: short, for file names.
        title, caption: what is seen, and what to see in it.
        x_label, y_label: with units.
        series: the curves.
        log_x, log_y: how the axes start; the reader can switch.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    series: Sequence[PlottedLine]
    log_x: bool = False
    log_y: bool = False


@final
@dataclass(frozen=True, eq=False)
class Panel:
    """A classifier of the plane: its values on a grid, and the points.

    Arguments:
        title: above the panel, such as "FWNet, 500 iterations".
        values: f on a grid, rows from low to high y; the boundary is f = 0, the margin f = ±1.
        extent: (x low, x high, y low, y high) of the grid.
        points, labels: a few hundred points and their classes, 0 or 1.
    """

    title: str
    values: Sequence[Sequence[float]]  # (rows, columns)
    extent: tuple[float, float, float, float]
    points: Sequence[Sequence[float]] = ()  # (n, 2)
    labels: Sequence[int] = ()  # (n,)


@final
@dataclass(frozen=True, eq=False)
class Maps:
    """Classifiers of the plane side by side."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]


Row = Sequence[str | float | int | None]


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows of texts and numbers; numbers are shown with three significant digits."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]


Figure = Curves | Maps | Table


def band(
    name: str,
    x: Sequence[float],  # (n,)
    runs: Any,  # (seeds, n)
    baseline: bool = False,
) -> PlottedLine:
    """Mean over runs, with the standard deviation around it as a band.

        y = mean,   low, high = mean ∓ std, but never beyond the smallest and largest run

    Example:
        >>> band("FWNet", [1, 2], [[1.0, 2.0], [3.0, 4.0]]).y
        [2.0, 3.0]
    """
    values = np.atleast_2d(np.asarray(runs, dtype=float))
    mean, spread = values.mean(axis=0), values.std(axis=0)
    low = np.maximum(mean - spread, values.min(axis=0))
    high = np.minimum(mean + spread, values.max(axis=0))
    many = len(values) > 1
    return PlottedLine(
        name,
        list(x),
        mean.tolist(),
        low.tolist() if many else None,
        high.tolist() if many else None,
        baseline,
    )


def bands(
    runs: Mapping[str, np.ndarray],  # (seeds, n) of each name
    baselines: Collection[str] = (),
    every: int = 1,
) -> list[PlottedLine]:
    """`band` of every name, over the iterations 0, every, 2·every, …"""
    return [
        band(name, [every * k for k in range(values.shape[1])], values, name in baselines)
        for name, values in runs.items()
    ]


def thinned(n: int) -> list[int]:
    """Rows that look the same on a linear and on a logarithmic axis, always with both ends."""
    if n <= _POINTS:
        return list(range(n))
    even = np.linspace(0, n - 1, _POINTS // 2).astype(int)
    early = np.geomspace(1, n, _POINTS // 2).astype(int) - 1
    return [int(k) for k in np.unique(np.concatenate([even, early]))]
