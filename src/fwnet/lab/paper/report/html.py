"""The page as text: `page.html` filled with verdicts, promises and a section an experiment."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from fwnet.lab.paper.claims import Verdict
from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.figures import Curves, Figure, Table
from fwnet.lab.paper.report.figures import figures_data, panel_source
from fwnet.lab.paper.report.section import Section

_MEANINGS = {
    Verdict.HOLDS: "by every criterion and reading, against tuned baselines too",
    Verdict.READING: "by one criterion, or for one of several readings of the text, not for all",
    Verdict.UNTUNED: "the paper's own baseline is beaten, a tuned one is not",
    Verdict.FAILS: "for no reading",
    Verdict.UNTRAINED: "training never improved on the initial weights, so nothing is judged",
}
_MANY = 6  # a figure with more curves than this takes a whole row


def page(
    sections: Sequence[Section], missing: Sequence[str], command: str, older: str | None = None
) -> str:
    """The whole page; opens from disk, without a network. `older` links to an earlier one."""
    claims = [(section, claim) for section in sections for claim in section.claims]
    counts = {v: sum(claim.verdict is v for _, claim in claims) for v in Verdict}
    promises = [promise for section in sections for promise in section.promises]
    return _template().render(
        sections=sections,
        contents=_contents(sections, bool(promises)),
        quick=any(section.results.profile is Profile.QUICK for section in sections),
        claims=claims,
        tally={verdict: count for verdict, count in counts.items() if count},
        promises=promises,
        meanings={verdict.value: text for verdict, text in _MEANINGS.items()},
        made=_made(sections, missing, command),
        missing=missing,
        older=older,
        data=_json(figures_data(sections)),
        style=Markup(_asset("page.css")),
        script=Markup(_asset("page.js")),
    )


def _contents(sections: Sequence[Section], promises: bool) -> dict[str, str]:
    """Headings by the names of their anchors."""
    return (
        {"verdicts": "Verdicts"}
        | ({"promises": "Promises"} if promises else {})
        | {"read": "How to read", "words": "Words"}
        | {section.name: section.experiment.title for section in sections}
        | {"made": "How it was made"}
    )


def _made(sections: Sequence[Section], missing: Sequence[str], command: str) -> dict[str, str]:
    """How the page was made, line by line."""
    seconds = sum(each.seconds for section in sections for each in section.results.seeds)
    return (
        {"Command": command, "Training": f"{seconds:.0f} s in all, over every seed"}
        | ({"Not run": ", ".join(missing)} if missing else {})
        | {"Rebuild": "fwnet report runs (reads results, trains nothing)"}
    )


def _template() -> Any:
    environment = Environment(
        autoescape=True,
        finalize=_safe,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cell": _cell,
        "indented": lambda config: json.dumps(config, indent=1, ensure_ascii=False),
        "numeric": _numeric,
        "origin": _origin,
        "png": panel_source,
        "provenance": _provenance,
        "times": _times,
        "widths": lambda section: zip(section.figures, _widths(section.figures), strict=True),
    }
    return environment.from_string(_asset("page.html"))


def _safe(value: object) -> Markup:
    """Text for HTML; signs such as % and ± stay with their number."""
    if isinstance(value, Markup):
        return value
    text = str(value).replace(" %", "\u00a0%").replace("± ", "±\u00a0")
    return Markup(html.escape(text))


def _json(data: object) -> Markup:
    """JSON inside a script element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _asset(name: str) -> str:
    return resources.files("fwnet.lab.paper.report").joinpath(name).read_text(encoding="utf-8")


def _times(factor: float) -> str:
    if factor != factor or factor == 0:
        return "never"
    return f"{factor:.3g}×" if factor < 1e6 else "only this one arrives"


def _cell(value: str | float | int | None) -> str:
    if isinstance(value, str):
        return value
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _numeric(table: Table, column: int) -> Markup:
    """The class of a column with numbers."""
    numbers = any(isinstance(row[column], int | float) for row in table.rows)
    return Markup(' class="number"' if numbers else "")


def _widths(figures: Sequence[Figure]) -> list[bool]:
    """Whether a figure takes a whole row: a large one, or a small one without a partner."""
    wide = [not isinstance(f, Curves) or len(f.series) > _MANY for f in figures]
    start = 0
    for end in range(len(figures) + 1):
        if end == len(figures) or wide[end]:
            if (end - start) % 2:
                wide[end - 1] = True
            start = end + 1
    return wide


def _origin(section: Section) -> str:
    """One line under each figure: where its numbers are from."""
    facts = _provenance(section)
    many = "seed" if len(section.results.seeds) == 1 else "seeds"
    version = section.results.seeds[-1].environment.get("fwnet", "?")
    time = facts["Time"].partition(" for ")[0]
    return f"{facts['Profile']} profile, {many} {facts['Seeds']}, fwnet {version}, {time}"


def _provenance(section: Section) -> dict[str, str]:
    """What is shown with a result: profile, seeds, time, versions, machine, data."""
    results, about = section.results, section.results.seeds[-1].environment
    count = len(results.seeds)
    seconds = sum(each.seconds for each in results.seeds)
    others = ("machine", "device", "finished", "data")
    return {
        "Profile": results.profile.value,
        "Seeds": ", ".join(str(each.seed) for each in results.seeds),
        "Time": f"{seconds:.0f} s for {count} {'seed' if count == 1 else 'seeds'}",
        "Finished": about.get("finished", "unknown"),
        "Versions": ", ".join(f"{k} {v}" for k, v in about.items() if k not in others),
        "Machine": about.get("machine", "unknown"),
        "Data": about.get("data") or "none",
    }
