"""The page: complete, self-contained, safe, and the same numbers as the results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fwnet.lab.paper.claims import Verdict
from fwnet.lab.paper.experiment import Profile, Results
from fwnet.lab.paper.figures import Curves, Figure, Panel, PlottedLine, band
from fwnet.lab.paper.plots import draw_curves, panel_png, picture
from fwnet.lab.paper.report import write_report
from fwnet.lab.paper.run import plan, run
from fwnet.lab.paper.store import Store, StoreError

from .toy import METHODS, Toy

VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """Elements by tag; complains of one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str, key: str) -> list[str]:
        return [a[key] or "" for t, a in self.found if t == tag and key in a]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    store = Store(root / "runs")
    assert run(plan([Toy()], Profile.QUICK, 3), Profile.QUICK, store) == []
    write_report([Toy()], store.results(), root / "report")
    return root / "report"


def figures(text: str) -> dict[str, dict]:
    (found,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', text)
    return json.loads(found)


def test_the_page_needs_no_network_and_its_links_lead_somewhere(folder: Path) -> None:
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    ids = set(page.all("section", "id") + page.all("h2", "id") + page.all("figure", "id"))
    links = page.all("a", "href") + page.all("img", "src") + page.all("script", "src")
    assert links
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids
        elif not link.startswith(("data:", "https://arxiv.org/")):
            assert (folder / link).is_file(), link
    assert page.all("link", "href") == ["data:,"]
    assert not page.all("script", "src")


def test_verdicts_come_first_and_texts_are_safe(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    places = ["contents", 'id="verdicts"', 'id="promises"', 'id="read"', 'id="words"']
    found = [text.index(place) for place in (*places, '<section id="toy">')]
    assert found == sorted(found)
    for verdict in Verdict:
        assert f"<b>1</b>{verdict.value}</li>" in text
    assert "“Frank-Wolfe &lt;networks&gt; win”" in text
    assert "20 against &lt;500&gt;</td><td>25×</td><td>7.5×</td>" in text
    assert "<td>12.5×</td><td>never</td>" in text
    assert "No training was better than its start." in text
    assert "a / b: 2 &gt; 1, yes" in text
    assert "arxiv.org/abs/1803.04300" in text
    assert "short trainings" in text  # of the quick profile
    assert "Powers of t &amp; &lt;other&gt; things" in text
    assert "3 seeds agree: 100\u00a0% of curves fall." in text


def test_curves_are_the_mean_and_spread_of_the_seeds(folder: Path) -> None:
    raw = json.loads((folder / "results" / "toy.json").read_text())
    drawn = figures((folder / "index.html").read_text(encoding="utf-8"))["toy-loss"]
    assert [series["name"] for series in drawn["series"]] == list(METHODS)
    assert [series["colour"] for series in drawn["series"]] == [0, 1, 2]
    for series in drawn["series"]:
        runs = np.array([seed["metrics"]["loss"][series["name"]] for seed in raw["seeds"]])
        np.testing.assert_allclose(series["y"], runs.mean(0), rtol=1e-4)  # five digits are shown
        np.testing.assert_allclose(
            series["high"], np.minimum(runs.mean(0) + runs.std(0), runs.max(0)), rtol=1e-4
        )
    assert drawn["log_y"]
    assert "FWNet ends at" in drawn["summary"]


def test_figures_are_there_as_png_and_svg_and_drawn_once(folder: Path, tmp_path: Path) -> None:
    for name in ("toy-loss", "toy-maps"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / "figures" / f"{name}.svg").read_bytes()
    store = Store(folder.parent / "runs")
    before = {path: path.stat().st_mtime_ns for path in (folder / "figures").glob("*.png")}
    write_report([Toy()], store.results(), folder)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "figures").glob("*.png")}


def test_provenance_stands_beside_the_figures(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.count("quick profile, seeds 0, 1, 2, fwnet ") == 3
    assert "&quot;steps&quot;: 40" in text
    assert "<dt>Versions</dt><dd>fwnet " in text


def test_experiments_without_results_are_named(folder: Path, tmp_path: Path) -> None:
    class Other(Toy):
        name = "other"

    results = Store(folder.parent / "runs").results()
    written = write_report([Toy(), Other()], results, tmp_path)
    text = written.path.read_text(encoding="utf-8")
    assert "<dt>Not run</dt><dd>other</dd>" in text
    assert "older/index.html" not in text
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "index.html").write_text("")
    text = write_report([Toy(), Other()], results, tmp_path).path.read_text(encoding="utf-8")
    assert '<a href="older/index.html">page of an older protocol</a>' in text
    with pytest.raises(StoreError, match=r"there are no results to show\. Run `fwnet reproduce`"):
        write_report([Other()], results, tmp_path)


def test_results_that_cannot_be_shown_do_not_cost_the_others(folder: Path, tmp_path: Path) -> None:
    class Old(Toy):
        name = "old"

        def figures(self, results: Results) -> list[Figure]:
            return [results.first("gone")]

    (results,) = Store(folder.parent / "runs").results()
    said: list[str] = []
    both = [results, replace(results, experiment="old")]
    written = write_report([Old(), Toy()], both, tmp_path, warn=said.append)
    assert [part.name for part in written.sections] == ["toy"]
    assert said == [
        "old is left out: its results cannot be shown (KeyError: 'old, seed 0: no entry gone.'). "
        "Run it again with --fresh."
    ]


def test_a_folder_that_cannot_be_written_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    results = Store(folder.parent / "runs").results()
    with pytest.raises(StoreError, match=r"cannot be written to .*file: .*the results are safe"):
        write_report([Toy()], results, tmp_path / "file")


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    from fwnet.lab.paper.report.figures import _series

    x = np.arange(1, 5001)
    data = _series(PlottedLine("a", x.tolist(), (1 / x).tolist()), 0)
    assert len(data["x"]) <= 240
    assert (data["x"][0], data["x"][-1]) == (1, 5000)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_pictures_are_the_same_each_time(kind: str) -> None:
    curves = Curves("c", "", "", "x", "y", [PlottedLine("a", [1, 2, 3], [1.0, 0.5, 0.1])])
    assert len({picture(draw_curves(curves, {"a": 9}), kind) for _ in range(2)}) == 1


def test_broken_curves_and_flat_maps_are_drawn() -> None:
    hole = PlottedLine("a", [1, 2, 3], [1.0, None, float("nan")])  # type: ignore[list-item]
    curves = Curves("c", "", "", "x", "y", [hole], log_x=True, log_y=True)
    assert picture(draw_curves(curves, {"a": 9}), "svg").count(b"<path") > 3
    flat = Panel("flat", [[1.0, 1.0], [1.0, 1.0]], (0, 1, 0, 1))
    assert panel_png(flat, "dark").startswith(b"\x89PNG")


def test_series_must_match() -> None:
    with pytest.raises(ValueError, match=r"PlottedLine 'a': low must be as long as x, 2; got 1\."):
        PlottedLine("a", [1, 2], [1, 2], low=[1])
    assert band("a", [1, 2], [[1.0, 2.0]]).low is None
