"""Figures as pictures for papers and for the page: PNG and SVG by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwnet.lab.paper.figures import Curves, Maps, Panel, PlottedLine, thinned
from fwnet.numerics.optional import optional
from fwnet.show.plotting import level_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# As on the page: light and dark, readable side by side, distinct to the colour-blind.
COLOURS = {
    "light": (
        "#2457c5", "#c2410c", "#0f766e", "#a21caf", "#4d7c0f", "#b91c4b", "#334155", "#a16207",
    ),
    "dark": (
        "#8ab4ff", "#fdba74", "#5eead4", "#f0abfc", "#bef264", "#fda4af", "#cbd5e1", "#fde047",
    ),
}  # fmt: skip
_TEXT = {"light": "#1f2430", "dark": "#e6e8ee"}
_DASHES = ("-", "--", ":", "-.")


def draw_curves(figure: Curves, colours: Mapping[str, int]) -> Drawing:
    """A figure of curves, its legend below it; `colours` gives each name its number."""
    drawing = _drawing((5.2, 3.9))
    ax = drawing.add_subplot()
    for series in figure.series:
        _draw_series(ax, series, colours[series.name], figure.log_y)
    ax.set_xscale("log" if figure.log_x else "linear")
    ax.set_yscale("log" if figure.log_y else "linear")
    for axis, logarithmic in ((ax.xaxis, figure.log_x), (ax.yaxis, figure.log_y)):
        if logarithmic:
            _label_short_spans(axis)
    ax.set_xlabel(figure.x_label)
    ax.set_ylabel(figure.y_label)
    ax.grid(alpha=0.3, lw=0.6)
    if figure.series:
        columns = 2 if len(figure.series) > 1 else 1
        drawing.legend(
            loc="outside lower center", ncols=columns, frameon=False, fontsize=8, handlelength=2.6
        )
    return drawing


def _draw_series(ax: Any, series: PlottedLine, number: int, log_y: bool) -> None:
    """One curve, with its band if it has one."""
    colour = COLOURS["light"][number % 8]
    dash = "--" if series.baseline and number < 8 else _DASHES[number // 8 % 4]
    rows = thinned(len(series.x))
    x, y = _floats(series.x)[rows], _floats(series.y)[rows]
    width = 1.2 if series.baseline else 1.8
    marker = "o" if len(x) < 13 else ""
    ax.plot(x, y, dash, color=colour, lw=width, marker=marker, ms=3.5, label=series.name)
    if series.low is not None and series.high is not None:
        low, high = _floats(series.low)[rows], _floats(series.high)[rows]
        low = np.where(low > 0, low, y) if log_y else low
        ax.fill_between(x, low, high, color=colour, alpha=0.16, lw=0)


def _label_short_spans(axis: Any) -> None:
    """1, 2, 5, 10, … on a logarithmic axis of few decades, where powers of ten are too few."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    if low > 0 and high / low < 50:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def draw_maps(figure: Maps) -> Drawing:
    """The panels of a figure in a row."""
    drawing = _drawing((3.2 * len(figure.panels), 3.4))
    for ax, panel in zip(
        np.ravel(drawing.subplots(1, len(figure.panels))), figure.panels, strict=True
    ):
        _draw_panel(ax, panel, "light")
        ax.set_title(panel.title, fontsize=9)
    return drawing


def panel_png(panel: Panel, theme: str) -> bytes:
    """One panel without a title on a clear ground, for a page that is light or dark."""
    drawing = _drawing((3.2, 3.2))
    drawing.patch.set_alpha(0)
    ax = drawing.add_subplot()
    ax.patch.set_alpha(0)
    _draw_panel(ax, panel, theme)
    return picture(drawing, "png", dpi=130)


def picture(drawing: Drawing, kind: str, dpi: int = 160) -> bytes:
    """The bytes of a PNG or an SVG, the same each time."""
    from matplotlib import rc_context

    buffer, about = io.BytesIO(), {"Date": None} if kind == "svg" else {}
    with rc_context({"svg.hashsalt": "fwnet"}):  # names of parts, random without it
        drawing.savefig(buffer, format=kind, dpi=dpi, metadata=about)
    return buffer.getvalue()


def save(drawing: Drawing, folder: Path, name: str) -> None:
    """Write `name`.png and `name`.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_bytes(picture(drawing, "svg"))
    (folder / f"{name}.png").write_bytes(_in_few_colours(picture(drawing, "png")))


def _in_few_colours(png: bytes) -> bytes:
    """The picture with a palette of 256 colours: a third of the size."""
    from PIL import Image  # matplotlib needs it too

    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _draw_panel(ax: Axes, panel: Panel, theme: str) -> None:
    values = _floats(panel.values)
    left, right, bottom, top = panel.extent
    x, y = np.linspace(left, right, values.shape[1]), np.linspace(bottom, top, values.shape[0])
    first, second = COLOURS[theme][1], COLOURS[theme][0]
    text = _TEXT[theme]
    ax.contourf(x, y, values > 0, levels=[-0.5, 0.5, 1.5], colors=[first, second], alpha=0.25)
    for level, style in ((-1.0, "dashed"), (0.0, "solid"), (1.0, "dashed")):
        level_line(ax, x, y, values, level, style, text)
    if len(panel.points):
        points, labels = _floats(panel.points), np.asarray(panel.labels)
        for label, colour in ((0, first), (1, second)):
            mine = points[labels == label]
            ax.scatter(mine[:, 0], mine[:, 1], s=7, color=colour, linewidths=0)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color(text)
        spine.set_alpha(0.3)


def _drawing(size: tuple[float, float]) -> Drawing:
    figure: Drawing = optional("matplotlib.figure", "a figure", "plot").Figure(
        figsize=size, layout="constrained"
    )
    return figure


def _floats(values: Any) -> np.ndarray:
    return np.array(values, dtype=float)  # None becomes NaN
