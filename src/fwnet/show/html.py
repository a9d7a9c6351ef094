"""What a notebook shows of a result: a small table, and a curve."""

from __future__ import annotations

import html
from collections.abc import Mapping

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
