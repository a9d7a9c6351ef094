"""Runs as one self-contained HTML page: a summary table, then a section with figures for each."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fwnet import Result

# Text, grid, then one colour for each run.
_LIGHT = ("#1f2430", "#c9cdd6", "#2457c5", "#c2410c", "#0f766e", "#a21caf")
_DARK = ("#e6e8ee", "#4a5060", "#8ab4ff", "#fdba74", "#5eead4", "#f0abfc")
_DASHES = ("-", "--", "-.", ":")  # a second cue beside the colour
_POINTS = 300  # of a curve: more cannot be seen

_CSS = """
:root { color-scheme: light dark; --text: #1f2430; --soft: #5b6272; --line: #d9dce3;
  --ground: #ffffff; --panel: #f6f7f9; --good: #0b6b3a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ee; --soft: #a3a9b8; --line: #363b47;
  --ground: #15171c; --panel: #1d2027; --good: #6ee7a8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--ground);
  color: var(--text); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .3rem; }
p { margin: .5rem 0; } .soft { color: var(--soft); }
.formula { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9rem;
  background: var(--panel); padding: .6rem .8rem; border-radius: .4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
thead th { color: var(--soft); font-weight: 600; font-size: .85rem; }
tbody th { padding-top: 1.1rem; } tbody th a { color: inherit; }
.converged { color: var(--good); font-weight: 600; } .number { white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
.figures img { width: 100%; height: auto; display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 30rem) { th, td { padding: .35rem .25rem; font-size: .84rem; }
  .figures { grid-template-columns: 1fr; } }
"""


@dataclass(frozen=True, eq=False)
class Run:
    """One solve: what the table shows of it, and its curve."""

    solver: str
    result: Result
    seconds: float

    @property
    def steps(self) -> int:
        steps = self.result.steps
        return max(steps) if isinstance(steps, tuple) else steps

    @property
    def gap(self) -> float:
        """The largest, where the run is a batch."""
        return float(self.result.gap.detach().max())

    @property
    def status(self) -> str:
        status = self.result.status
        if isinstance(status, str):
            return status
        return ", ".join(f"{status.count(name)} {name}" for name in dict.fromkeys(status))

    def curve(self, against: str) -> tuple[np.ndarray, np.ndarray]:
        """Where the gap is known: position and gap, the largest of a batch."""
        gap = self.result.trace.column("gap")
        gap = gap if gap.ndim == 1 else gap.max(axis=1)
        known = np.flatnonzero(np.isfinite(gap) & (gap > 0))
        if len(known) > _POINTS:  # evenly on a logarithmic axis, always with both ends
            places = np.geomspace(1, len(known), _POINTS).astype(int) - 1
            known = known[np.unique(places)]
        return self.result.trace.column(against)[known], gap[known]


@dataclass(frozen=True, eq=False)
class Story:
    """One problem: what is asked, how it is written, who solved it, what came out."""

    title: str
    question: str
    formula: str
    runs: Sequence[Run]
    findings: Sequence[str]


def page(title: str, lead: str, stories: Sequence[Story], facts: Mapping[str, str]) -> str:
    """The whole page; opens from disk, without a network."""
    sections = "\n".join(_section(i, story) for i, story in enumerate(stories))
    details = "".join(f"<dt>{_safe(k)}</dt><dd>{_safe(v)}</dd>" for k, v in facts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_safe(title)}</title>
<style>{_CSS}</style>
</head>
<body>
<h1>{_safe(title)}</h1>
<p class="soft">{_safe(lead)}</p>
{_summary(stories)}
{sections}
<h2>How this page was made</h2>
<dl>{details}</dl>
</body>
</html>
"""


def _summary(stories: Sequence[Story]) -> str:
    groups = []
    for i, story in enumerate(stories):
        head = f'<tr><th colspan="5"><a href="#s{i}">{_safe(story.title)}</a></th></tr>'
        groups.append(f"<tbody>{head}{''.join(map(_row, story.runs))}</tbody>")
    columns = "".join(
        f"<th>{name}</th>" for name in ("Solver", "Steps", "Gap", "Seconds", "Status")
    )
    body = "".join(groups)
    return (
        f'<div class="scroll"><table><thead><tr>{columns}</tr></thead>{body}</table></div>'
        '<p class="soft">Converged: the gap fell to the tolerance. Max steps: the budget of steps '
        "was used up first.</p>"
    )


def _row(run: Run) -> str:
    kind = ' class="converged"' if run.status.endswith("converged") else ""
    return (
        f'<tr><td>{_safe(run.solver)}</td><td class="number">{run.steps}</td>'
        f'<td class="number">{run.gap:.1e}</td><td class="number">{run.seconds:.2f}</td>'
        f"<td{kind}>{_safe(run.status.replace('_', ' '))}</td></tr>"
    )


def _section(index: int, story: Story) -> str:
    figures = "".join(_picture(story, against) for against in ("t", "seconds"))
    findings = "".join(f"<p>{_safe(line)}</p>" for line in story.findings)
    return (
        f'<section id="s{index}"><h2>{_safe(story.title)}</h2><p>{_safe(story.question)}</p>'
        f'<p class="formula">{_safe(story.formula)}</p>{findings}'
        f'<div class="figures">{figures}</div></section>'
    )


def _picture(story: Story, against: str) -> str:
    light = _draw(story, against)
    dark = light
    for mine, theirs in zip(_LIGHT, _DARK, strict=True):  # half the time of drawing twice
        dark = dark.replace(mine, theirs)
    unit = {"t": "steps", "seconds": "seconds"}[against]
    alt = f"{story.title}: duality gap against {unit}, " + "; ".join(
        f"{run.solver} ends at {run.gap:.1e}" for run in story.runs
    )
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{_embedded(dark)}">'
        f'<img src="{_embedded(light)}" alt="{_safe(alt)}"></picture>'
    )


def _draw(story: Story, against: str) -> str:
    from matplotlib.figure import Figure

    text, grid, *colours = _LIGHT
    figure = Figure(figsize=(5, 4), layout="constrained")
    figure.patch.set_alpha(0)
    ax = figure.add_subplot()
    ax.patch.set_alpha(0)
    for run, colour, dash in zip(story.runs, colours, _DASHES, strict=False):
        where, gap = run.curve(against)
        # Steps count from 1, so that the first one has a place on the logarithmic axis.
        ax.plot(where + (against == "t"), gap, dash, color=colour, lw=2, label=run.solver)
    ax.set_yscale("log")
    ax.set_xscale("log")
    ax.set_xlabel({"t": "step", "seconds": "seconds"}[against], color=text, fontsize=12)
    ax.set_ylabel("duality gap", color=text, fontsize=12)
    ax.tick_params(which="both", colors=text, labelsize=11)
    ax.grid(color=grid, lw=0.6)
    for spine in ax.spines.values():
        spine.set_color(grid)
    figure.legend(
        loc="outside upper center",
        ncols=2,
        labelcolor=text,
        frameon=False,
        fontsize=11,
        handlelength=2.6,
    )
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _embedded(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _safe(text: str) -> str:
    return html.escape(text.replace(" %", "\u00a0%"), quote=True)
