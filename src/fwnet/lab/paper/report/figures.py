"""Figures as the page holds them: curves as JSON, maps as images."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from fwnet.lab.paper import plots
from fwnet.lab.paper.figures import Curves, Panel, PlottedLine, thinned
from fwnet.lab.paper.report.section import Section, colours
from fwnet.lab.paper.store import plain


def figures_data(sections: Sequence[Section]) -> dict[str, Any]:
    """What the page's script draws, by the figure's full name."""
    return {
        f"{section.name}-{figure.name}": _curves(figure, colours(section))
        for section in sections
        for figure in section.figures
        if isinstance(figure, Curves)
    }


def panel_source(panel: Panel, theme: str) -> str:
    """A map as the source of an image that is inside the page."""
    return f"data:image/png;base64,{base64.b64encode(plots.panel_png(panel, theme)).decode()}"


def _curves(figure: Curves, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "x_label": figure.x_label,
        "y_label": figure.y_label,
        "log_x": figure.log_x,
        "log_y": figure.log_y,
        "summary": f"{figure.title}: {figure.y_label} against {figure.x_label}. "
        + "; ".join(f"{s.name} ends at {_last(s)}" for s in figure.series),
        "series": [_series(series, numbers[series.name]) for series in figure.series],
    }


def _series(series: PlottedLine, number: int) -> dict[str, Any]:
    rows = thinned(len(series.x))
    columns = {"x": series.x, "y": series.y, "low": series.low, "high": series.high}
    data = {
        label: plain([values[k] for k in rows], digits=5)
        for label, values in columns.items()
        if values is not None
    }
    return {"name": series.name, "colour": number, "baseline": series.baseline, **data}


def _last(series: PlottedLine) -> str:
    known = [y for y in series.y if y is not None and math.isfinite(y)]
    return f"{known[-1]:.3g}" if known else "nothing"
