"""Figures as the page holds them: curves as JSON, maps as images, tables as HTML."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from fwnet.lab.paper import plots
from fwnet.lab.paper.figures import Curves, Figure, Maps, PlottedLine, Table, thinned
from fwnet.lab.paper.report.section import Section, colours
from fwnet.lab.paper.report.text import safe
from fwnet.lab.paper.store import plain


def figures_data(sections: Sequence[Section]) -> dict[str, Any]:
    """What the page's script draws, by the figure's full name."""
    data = {}
    for section in sections:
        numbers = colours(section)
        for figure in section.figures:
            if isinstance(figure, Curves):
                data[f"{section.name}-{figure.name}"] = _curves(figure, numbers)
    return data


def figure_html(section: Section, figure: Figure, wide: bool) -> str:
    """A figure with its title, caption and files; `wide` if it takes a whole row."""
    name = f"{section.name}-{figure.name}"
    if isinstance(figure, Curves):
        body = f'<div class="plot" data-figure="{name}"></div>'
    else:
        body = _maps(figure) if isinstance(figure, Maps) else _table(figure)
    kind = ' class="wide"' if wide else ""
    files = "" if isinstance(figure, Table) else _files(name)
    return (
        f'<figure id="{name}"{kind}><h3>{safe(figure.title)}</h3>{body}'
        f"<figcaption>{safe(figure.caption)}</figcaption>{_origin(section, files)}</figure>"
    )


def _origin(section: Section, files: str) -> str:
    """One line under each figure: where its numbers are from."""
    results = section.results
    last = results.seeds[-1]
    many = "seed " if len(results.seeds) == 1 else "seeds "
    seeds = many + ", ".join(str(each.seed) for each in results.seeds)
    version = last.environment.get("fwnet", "?")
    seconds = sum(each.seconds for each in results.seeds)
    return (
        f'<div class="links soft"><span>{results.profile.value} profile, {seeds}, '
        f"fwnet {safe(version)}, {seconds:.0f} s</span>{files}"
        f'<a href="results/{section.name}.json" download>JSON</a></div>'
    )


def _files(name: str) -> str:
    return "".join(
        f'<a href="figures/{name}.{kind}" download>{kind.upper()}</a>' for kind in ("png", "svg")
    )


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
        label: plain([_digits(values[k]) for k in rows])
        for label, values in columns.items()
        if values is not None
    }
    return {"name": series.name, "colour": number, "baseline": series.baseline, **data}


def _digits(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def _last(series: PlottedLine) -> str:
    known = [y for y in series.y if y is not None and math.isfinite(y)]
    return f"{known[-1]:.3g}" if known else "nothing"


def _maps(figure: Maps) -> str:
    panels = []
    for panel in figure.panels:
        images = "".join(
            f'<img class="{theme}-only" alt="{safe(panel.title)}" '
            f'src="data:image/png;base64,{_encoded(plots.panel_png(panel, theme))}">'
            for theme in ("light", "dark")
        )
        panels.append(f"<div><p>{safe(panel.title)}</p>{images}</div>")
    return f'<div class="maps">{"".join(panels)}</div>'


def _table(table: Table) -> str:
    numeric = [
        any(isinstance(row[j], int | float) for row in table.rows)
        for j in range(len(table.columns))
    ]
    kind = [' class="number"' if number else "" for number in numeric]
    head = "".join(f"<th{k}>{safe(c)}</th>" for k, c in zip(kind, table.columns, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{_cell(cell)}</td>" for k, cell in zip(kind, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _cell(value: str | float | int | None) -> str:
    if isinstance(value, str):
        return safe(value)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
