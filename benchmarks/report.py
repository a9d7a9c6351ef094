"""Rows as a table and as JSON, with versions, processor and threads."""

import json
import platform
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks import peers
from benchmarks.harness import Row, Spread

HEADER = ("quantity / peer", "figure", "ratio", "(quartiles)", "target", "")
INDENT = "    "  # of a note


def environment() -> dict[str, Any]:
    """Versions, processor, threads."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": peers.versions(),
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
    }


def describe(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return f"{facts['cpu']}, {facts['threads']} thread, Python {facts['python']}\n{versions}"


def table(rows: Sequence[Row]) -> str:
    """A line for each quantity, with our figure; below it, indented, one for each of its peers.

    Columns without an entry are left out, and notes have lines of their own.
    """
    lines: list[tuple[str, ...]] = []
    notes: list[str] = []
    quantity: tuple[str, ...] = ()
    for row in rows:
        first = (row.what, _figure(row.ours, row.unit) or _absent(row))
        if row.peer and first != quantity:
            lines.append((*first, "", "", "", ""))
            notes.append(row.note)
        quantity = first if row.peer else ()
        lines.append(_of_peer(row) if row.peer else (*first, "", "", *_judgement(row)))
        notes.append(row.note)
    used = [i for i in range(len(HEADER)) if any(line[i] for line in lines)]
    header, *kept = ([line[i] for i in used] for line in (HEADER, *lines))
    return aligned(header, kept, notes)


def aligned(header: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Cells in columns; below a line its note, once for a run of equal notes."""
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    out = []
    for line, note, following in zip((header, *lines), ("", *notes), (*notes, ""), strict=True):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        out.append("  ".join(cells).rstrip())
        if note and note != following:
            out += textwrap.wrap(note, 96, initial_indent=INDENT, subsequent_indent=INDENT)
    return "\n".join(out)


def summary(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.passed is not None]
    missed = [row for row in judged if not row.passed]
    skipped = [row for row in rows if row.target is not None and row.passed is None]
    text = f"{len(judged) - len(missed)} of {len(judged)} targets met"
    return text + (f", {len(skipped)} not measured" if skipped else "")


def write(path: Path, facts: Mapping[str, Any], results: Mapping[str, Sequence[Row]]) -> None:
    cases = {
        name: [{**asdict(row), "passed": row.passed} for row in rows]
        for name, rows in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**facts, "cases": cases}, indent=2) + "\n", encoding="utf-8")


def _of_peer(row: Row) -> tuple[str, ...]:
    return (
        f"  {row.peer}",
        _figure(row.theirs, row.unit) or _absent(row),
        _ratio(row.ratio.median) if row.ratio else "",
        f"({_ratio(row.ratio.low)} .. {_ratio(row.ratio.high)})" if row.ratio else "",
        *_judgement(row),
    )


def _judgement(row: Row) -> tuple[str, str]:
    target = f"<= {row.target:g}" if row.target is not None else ""
    return target, {None: "", True: "pass", False: "MISS"}[row.passed]


def _absent(row: Row) -> str:
    return "not measured" if row.peer or row.target is not None else ""


def _figure(spread: Spread | None, unit: str) -> str:
    return f"{spread.median:.3g} {unit}".rstrip() if spread else ""


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"  # targets may be as low as 1/40


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
