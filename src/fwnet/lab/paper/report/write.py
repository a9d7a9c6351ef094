"""Write the page, the pictures for papers, and the raw results beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import fwnet
from fwnet.lab.paper import plots
from fwnet.lab.paper.experiment import Experiment, Results
from fwnet.lab.paper.figures import Curves, Table
from fwnet.lab.paper.report.html import page
from fwnet.lab.paper.report.section import Section, colours, sections
from fwnet.lab.paper.store import StoreError, plain
from fwnet.numerics.files import write_text


@final
@dataclass(frozen=True, eq=False)
class WrittenPage:
    """What was written: the page, and the sections in it."""

    path: Path
    sections: Sequence[Section]


def write_report(
    experiments: Iterable[Experiment[Any]],
    results: Sequence[Results],
    folder: Path,
    *,
    command: str = "fwnet reproduce",
    warn: Callable[[str], object] = lambda sentence: None,
) -> WrittenPage:
    """Write folder/index.html, folder/figures/*.png, *.svg and folder/results/*.json.

    Arguments:
        experiments: in the order of the page; those without results are named at its end.
        results: one for an experiment, as `Store.results` reads them.
        folder: made if it is not there; a page in its folder `older` is linked to for experiments
            that are missing.
        command: that made the results, for the page's last section.
        warn: called with a sentence for an experiment whose results cannot be shown.
    """
    known = list(experiments)
    parts = sections(known, results, warn)
    if not parts:
        raise StoreError("there are no results to show. Run `fwnet reproduce` first.")
    missing = [each.name for each in known if all(each.name != part.name for part in parts)]
    try:
        for part in parts:
            _pictures(part, folder / "figures")
            _raw(part, folder / "results")
        older = "older/index.html" if (folder / "older" / "index.html").exists() else None
        text = page(parts, missing, command, older)
        write_text(folder / "index.html", text, advice="")
        return WrittenPage(folder / "index.html", parts)
    except OSError as error:
        reason = (error.strerror or str(error)).rstrip(". ")
        raise StoreError(
            f"the page cannot be written to {folder}: {reason}. Make room or choose another folder "
            "with --out; the results are safe."
        ) from None


def _pictures(section: Section, folder: Path) -> None:
    """Draw what is new: a picture keeps, beside it, the checksum of what it shows."""
    numbers = colours(section)
    for figure in section.figures:
        if isinstance(figure, Table):
            continue
        name = f"{section.name}-{figure.name}"
        text = json.dumps([fwnet.__version__, plots.COLOURS, plain(figure), numbers])
        checksum = hashlib.sha256(text.encode()).hexdigest()
        mark = folder / f"{name}.sha256"
        if mark.exists() and mark.read_text(encoding="utf-8") == checksum:
            continue
        drawing = (
            plots.draw_curves(figure, numbers)
            if isinstance(figure, Curves)
            else plots.draw_maps(figure)
        )
        plots.save(drawing, folder, name)
        write_text(mark, checksum, advice="")


def _raw(section: Section, folder: Path) -> None:
    """All seeds of an experiment in one file."""
    results = section.results
    content = vars(results) | {"seeds": [vars(each) for each in results.seeds]}
    text = json.dumps(content, separators=(",", ":"))
    write_text(folder / f"{section.name}.json", text, advice="")
