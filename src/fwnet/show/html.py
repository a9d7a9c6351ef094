"""What a notebook shows of a result: a small table, and a curve."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

_WIDTH, _HEIGHT = 160, 40  # of a curve, in pixels


def facts(title: str, rows: Mapping[str, object], curve: np.ndarray | None = None) -> str:
    """A table of names and values, and the curve of log₁₀ of its positive numbers."""
    lines = [
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    ]
    drawn = "" if curve is None else _curve(curve)
    return f"<b>{html.escape(title)}</b><table>{''.join(lines)}</table>{drawn}"


def trace_html(trace: Any) -> str:
    """Of a `fwnet.Trace`: its last record, and the curve of its gap."""
    last = trace[-1]._asdict() if len(trace) else {}
    rows = {"records": len(trace), **{f"last {name}": last[name] for name in last}}
    return facts("Trace", rows, _gaps(trace))


def result_html(result: Any) -> str:
    """Of a `fwnet.Result`: what was reached, and the curve of its gap."""
    if isinstance(result.status, str):
        rows = {
            "status": f"{result.status}: {result.message}" if result.message else result.status,
            "value": f"{result.value.item():.6g}",
            "gap": f"{result.gap.item():.3g}",
            "steps": result.steps,
            "shape of x": tuple(result.x.shape),
        }
    else:
        rows = {
            "problems": len(result.status),
            "converged": result.status.count("converged"),
            "steps": f"{min(result.steps)} to {max(result.steps)}",
            "largest gap": f"{result.gap.max().item():.3g}",
        }
    return facts("Result", rows, _gaps(result.trace))


def _gaps(trace: Any) -> np.ndarray:
    """The gap of each record, the largest one of a batch."""
    gaps: np.ndarray = trace.column("gap")
    return gaps if gaps.ndim == 1 else gaps.max(1)


def text(content: str) -> str:
    """Plain text, with its lines and columns kept."""
    return f"<pre>{html.escape(content)}</pre>"


def _curve(values: np.ndarray) -> str:
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = np.log10(values)
    known = np.flatnonzero(np.isfinite(heights))
    if len(known) < 2:
        return ""
    known = known[np.unique(np.linspace(0, len(known) - 1, _WIDTH).astype(int))]
    low, high = heights[known].min(), heights[known].max()
    x = (known - known[0]) / (known[-1] - known[0]) * (_WIDTH - 4) + 2
    y = (high - heights[known]) / max(high - low, 1e-12) * (_HEIGHT - 4) + 2
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' role='img' aria-label='log of the gap by step'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor'/></svg>"
    )
