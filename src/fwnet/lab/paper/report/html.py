"""The page as text: verdicts first, then a section for each experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

from fwnet.lab.paper.claims import Claim, Reading, Verdict
from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.figures import Curves, Figure
from fwnet.lab.paper.report.about import PAPER, SHORT, glossary, how_to_read
from fwnet.lab.paper.report.figures import figure_html, figures_data
from fwnet.lab.paper.report.section import Section
from fwnet.lab.paper.report.text import safe

TITLE = "Neural Conditional Gradients, reproduced"
_KINDS = {  # classes of the style sheet
    Verdict.HOLDS: "holds",
    Verdict.READING: "reading",
    Verdict.UNTUNED: "untuned",
    Verdict.FAILS: "fails",
    Verdict.UNTRAINED: "untrained",
}
_MANY = 6  # a figure with more curves than this takes a whole row
_PROMISES = ("The paper promises", "Asked", "Learned", "Best of fwnet", "Its number", "Tuned")

_THEME = """{  // before anything is painted; follows the system until the reader chooses
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const follow = () => { root.dataset.theme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", follow);
  follow();
}"""


def page(
    sections: Sequence[Section], missing: Sequence[str], command: str, older: str | None = None
) -> str:
    """The whole page; opens from disk, without a network. `older` links to an earlier one."""
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    promises = _promises(sections)
    parts = {"verdicts": "Verdicts"} | ({"promises": "Promises"} if promises else {})
    parts |= {"read": "How to read", "words": "Words"}
    parts |= {s.name: s.experiment.title for s in sections} | {"made": "How it was made"}
    links = "".join(f'<a href="#{name}">{safe(title)}</a>' for name, title in parts.items())
    quick = any(section.results.profile is Profile.QUICK for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<link rel="icon" href="data:,">
<script>{_THEME}</script>
<style>{style}</style>
</head>
<body>
<header><div><h1>{TITLE}</h1>
<p class="soft">Which claims of the paper hold, and what we measured.</p></div>
<button type="button" id="theme" hidden>light / dark</button></header>
<nav aria-label="contents">{links}</nav>
{SHORT if quick else ""}{PAPER}
{_verdicts(sections)}
{promises}
{how_to_read()}
{glossary()}
{"".join(_section(section) for section in sections)}
{_made(sections, missing, command, older)}
<noscript><p>The curves need JavaScript; figures/ holds them as PNG and SVG.</p></noscript>
<script type="application/json" id="figures">{_json(figures_data(sections))}</script>
<script>{script}</script>
</body>
</html>
"""


def _verdicts(sections: Sequence[Section]) -> str:
    claims = [(section, claim) for section in sections for claim in section.claims]
    if not claims:
        return "<p>None of these experiments measures a claim of the paper.</p>"
    tally = "".join(
        f'<li class="{kind}"><b>{count}</b>{verdict.value}</li>'
        for verdict, kind in _KINDS.items()
        if (count := sum(claim.verdict is verdict for _, claim in claims))
    )
    rows = "".join(_claim_row(section, claim) for section, claim in claims)
    return (
        f'<h2 id="verdicts">Verdicts</h2><ul class="tally">{tally}</ul>'
        '<table class="claims"><thead><tr><th>The paper says</th><th>Verdict</th>'
        f"<th>We found</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _claim_row(section: Section, claim: Claim) -> str:
    where = f'<a href="#{section.name}">{safe(section.name)}</a>'
    sentence = claim.untrained or claim.sentence
    facts = {"Paper": claim.paper, "Spread": claim.spread, "Tuned over": claim.grid}
    numbers = "".join(_reading(reading) for reading in claim.readings)
    cells = {
        "The paper says": f"“{safe(claim.words)}”<small>{safe(claim.question)}, {where}</small>",
        "Verdict": f'<span class="verdict {_KINDS[claim.verdict]}">{claim.verdict.value}</span>',
        "We found": f"{safe(sentence)}<details><summary>Numbers</summary>"
        f"<ul>{numbers}</ul>{_facts(facts)}</details>",
    }
    row = "".join(
        f'<td data-label="{label}"><div>{cell}</div></td>' for label, cell in cells.items()
    )
    return f"<tr>{row}</tr>"


def _reading(reading: Reading) -> str:
    lines = [str(number) for number in reading.numbers]
    lines += [f"tuned: {number}" for number in reading.tuned]
    items = "".join(f"<br>{safe(line)}" for line in lines)
    return f"<li>{safe(reading.name)}: <b>{reading.verdict.value}</b>{items}</li>"


def _promises(sections: Sequence[Section]) -> str:
    """What the paper promises in numbers, beside the best that the library has."""
    found = [promise for section in sections for promise in section.promises]
    if not found:
        return ""
    rows = "".join(
        "<tr>"
        + f"<td>{safe(each.promise)}</td><td>{each.goal:g}×</td><td>{_times(each.learned)}</td>"
        + f"<td>{safe(each.best)}</td><td>{_times(each.against_paper)}</td>"
        + f"<td>{_times(each.against_tuned)}</td></tr>"
        for each in found
    )
    head = "".join(f"<th>{column}</th>" for column in _PROMISES)
    return (
        '<h2 id="promises">What the paper promises, and the best that fwnet has today</h2>'
        "<p>How many times better: the paper's number, the paper's learned optimizer in our runs, "
        "and the best method of this library, learned or not, against the paper's baseline and "
        "against the tuned one.</p>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def _times(factor: float) -> str:
    if factor != factor or factor == 0:
        return "never"
    return f"{factor:.3g}×" if factor < 1e6 else "only it arrives"


def _section(section: Section) -> str:
    experiment = section.experiment
    findings = "".join(f"<p>{safe(line)}</p>" for line in section.findings)
    figures = "".join(
        figure_html(section, figure, wide)
        for figure, wide in zip(section.figures, _widths(section.figures), strict=True)
    )
    return (
        f'<section id="{section.name}"><h2>{safe(experiment.title)} '
        f'<small class="soft">{safe(experiment.paper)}</small></h2>'
        f'<p>{safe(experiment.question)}</p>{findings}<div class="figures">{figures}</div>'
        f"{_provenance(section)}</section>"
    )


def _widths(figures: Sequence[Figure]) -> list[bool]:
    """Small figures of curves stand in pairs; a large one, or one left over, takes a whole row."""
    wide = [not isinstance(f, Curves) or len(f.series) > _MANY for f in figures]
    start = 0
    for end in range(len(figures) + 1):
        if end == len(figures) or wide[end]:
            if (end - start) % 2:
                wide[end - 1] = True
            start = end + 1
    return wide


def _provenance(section: Section) -> str:
    results = section.results
    seeds = ", ".join(str(each.seed) for each in results.seeds)
    seconds = sum(each.seconds for each in results.seeds)
    config = json.dumps(results.config, indent=1, ensure_ascii=False)
    raw = f"results/{section.name}.json"
    versions = ", ".join(
        f"{name} {value}"
        for name, value in results.seeds[-1].environment.items()
        if name not in ("machine", "device", "finished", "data")
    )
    facts = {
        "Profile": results.profile.value,
        "Seeds": seeds,
        "Time": f"{seconds:.0f} s for {len(results.seeds)} "
        + ("seed" if len(results.seeds) == 1 else "seeds"),
        "Finished": results.seeds[-1].environment.get("finished", "unknown"),
        "Versions": versions,
        "Machine": results.seeds[-1].environment.get("machine", "unknown"),
        "Data": results.seeds[-1].environment.get("data") or "none",
    }
    return (
        f"<details><summary>Configuration, seeds, data, versions, time</summary>{_facts(facts)}"
        f"<pre>{safe(config)}</pre></details>"
        f'<p class="links"><a href="{raw}" download>raw results of every seed (JSON)</a></p>'
    )


def _made(
    sections: Sequence[Section], missing: Sequence[str], command: str, older: str | None
) -> str:
    total = sum(each.seconds for section in sections for each in section.results.seeds)
    facts = {"Command": command, "Training": f"{total:.0f} s in all, over every seed"}
    if missing:
        facts["Not run"] = ", ".join(missing)
    facts["Rebuild"] = "fwnet report runs (reads results, trains nothing)"
    link = (
        f'<p>Experiments that were not run here are on the <a href="{older}">page of an older '
        "protocol</a>, whose trainings were shorter.</p>"
        if missing and older
        else ""
    )
    return f'<h2 id="made">How this page was made</h2>{_facts(facts)}{link}'


def _facts(facts: dict[str, str]) -> str:
    rows = "".join(f"<dt>{safe(k)}</dt><dd>{safe(v)}</dd>" for k, v in facts.items())
    return f"<dl>{rows}</dl>"


def _json(data: object) -> str:
    """JSON inside a script element: no text in it can end the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("fwnet.lab.paper.report").joinpath(name).read_text(encoding="utf-8")
