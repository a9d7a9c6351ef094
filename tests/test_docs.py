"""What the documentation shows runs: README.md, docs/*.md and examples/*.py."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.absolute_links import LINK, absolute, project_urls

from scripts import ROOT, run

PAGES = sorted(ROOT.glob("docs/*.md"))
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(  # a block, and its output if the page shows it
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
END = "----- end of the block -----"
COMPILES = re.compile("^fwnet compiles machine code .*\n", re.MULTILINE)  # a first use says so
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
NAME = re.compile(r"[A-Za-z_][\w.]*")
# Finds each name by attribute access after an import of its namespace only: what another
# namespace imported is forgotten first.
RESOLVE = """
import importlib, json, sys
missing = []
for namespace, names in json.load(sys.stdin).items():
    for module in [m for m in sys.modules if m.split(".")[0] == "fwnet"]:
        del sys.modules[module]
    found = importlib.import_module(namespace)
    for name in names:
        thing = found
        for part in name.split("."):
            thing = getattr(thing, part, None)
        if thing is None:
            missing.append(f"{namespace}: {name}")
print(json.dumps(missing))
"""


def documented_names() -> dict[str, list[str]]:
    """The names in the first column of docs/api.md, by the module that a reader imports.

    A bare name belongs to `fwnet`, or to the module that a name with dots before it in its row
    belongs to; "## Data" names its own module.
    """
    names: dict[str, list[str]] = {}
    section = ""
    for line in (ROOT / "docs/api.md").read_text().splitlines():
        if line.startswith("## "):
            section = line
        if not line.startswith("| `"):
            continue
        prefix = ""
        for code in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
            match = NAME.match(code)
            assert match, code
            if match.group() == "with":  # a statement, on an object of the row above
                continue
            *parents, _ = name = match.group().split(".")
            prefix = ".".join(parents) or prefix
            path = ".".join(filter(None, [prefix, name[-1]]))
            if path.startswith("fwnet."):
                module, _, path = path.rpartition(".")
            elif section == "## Data":
                module = "fwnet.data"
            elif "." in path:
                namespace, path = path.split(".", 1)
                module = f"fwnet.{namespace}"
            else:
                module = "fwnet"
            names.setdefault(module, []).append(path)
    return names


@pytest.mark.slow
def test_every_name_of_the_api_page_exists() -> None:
    names = documented_names()
    assert {"fwnet", "fwnet.learned", "fwnet.data", "fwnet.lab.paper.run"} <= set(names)
    assert "baselines.Trajectory" in names["fwnet.learned"]
    assert sum(map(len, names.values())) > 150
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    """And print what the page shows: words exactly, numbers to a third if they are not tiny."""
    blocks = SHOWN.findall(page.read_text())
    if blocks:
        script = tmp_path / "page.py"
        script.write_text(f"\nprint({END!r}, flush=True)\n".join(code for code, _ in blocks))
        run([str(script)], tmp_path)
        printed = COMPILES.sub("", (tmp_path / "output.txt").read_text()).split(f"{END}\n")
        for (_, shown), found in zip(blocks, printed, strict=True):
            if shown:
                assert NUMBER.sub("#", found).split() == NUMBER.sub("#", shown).split()
                numbers = [float(number) for number in NUMBER.findall(shown)]
                same = pytest.approx(numbers, rel=0.3, abs=1e-3)
                assert [float(number) for number in NUMBER.findall(found)] == same


def test_each_snippet_of_the_readme_stands_alone_and_prints_what_it_shows(tmp_path: Path) -> None:
    """Words exactly, numbers to a tenth: other processors round differently."""
    text = (ROOT / "README.md").read_text()
    snippets, outputs = BLOCK.findall(text), OUTPUT.findall(text)
    assert len(snippets) == len(outputs) == 3
    for k, (snippet, shown) in enumerate(zip(snippets, outputs, strict=True)):
        assert len([line for line in snippet.splitlines() if line]) <= 8
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "page.py").write_text(snippet)
        run([str(folder / "page.py")], folder)
        printed = COMPILES.sub("", (folder / "output.txt").read_text())
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        found = [float(number) for number in NUMBER.findall(printed)]
        assert found == pytest.approx([float(number) for number in NUMBER.findall(shown)], rel=0.1)


def test_the_links_of_the_readme_lead_somewhere() -> None:
    """Here and on a package index; in the archive of a release they are absolute already."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    for link in LINK.findall(text):
        inside = not link.startswith(("https://", "../../actions/"))
        assert not inside or (ROOT / link.partition("#")[0]).exists(), link
    published = LINK.findall(absolute(text, "https://host/owner/name/blob/v1/README.md"))
    assert all(link.startswith("https://") for link in published)
    assert not [link for link in published if ".md" in link]  # the site has no files of this name


def test_pages_become_links_to_the_site_and_files_to_the_repository() -> None:
    address, site = "https://host/owner/name/blob/v1/README.md", "https://owner.github.io/name/"
    expected = {
        "docs/index.md": f"{site}index.html",
        "docs/why.md#use-it": f"{site}why.html#use-it",
        "examples": f"{site}gallery.html",
        "notebooks": f"{site}notebooks.html",
        "benchmarks/README.md": f"{site}benchmarks.html",
        "examples/batched.py": "https://host/owner/name/blob/v1/examples/batched.py",
        "CITATION.cff": "https://host/owner/name/blob/v1/CITATION.cff",
        "../../actions/workflows/tests.yml": "https://host/owner/name/actions/workflows/tests.yml",
        "https://arxiv.org/abs/1803.04300": "https://arxiv.org/abs/1803.04300",
    }
    for link, published in expected.items():
        assert absolute(f"See [this]({link}).", address) == f"See [this]({published})."
    picture = absolute('<img src="docs/images/learned.png" width="32%">', address)
    raw = "https://host/owner/name/raw/v1/docs/images/learned.png"
    assert picture == f'<img src="{raw}" width="32%">'
    beside = project_urls(address)
    assert f'Documentation = "{site}"' in beside
    assert 'Source = "https://host/owner/name"\n' in beside
    assert 'Changelog = "https://host/owner/name/blob/v1/CHANGELOG.md"' in beside


def test_the_site_has_every_page_and_links_that_exist() -> None:
    listed = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {"gallery.md", "notebooks.md", "benchmarks.md", "changelog.md"}  # by tools/site.py
    assert listed == {page.name for page in PAGES} | made
    for page in PAGES:
        for link in LINK.findall(page.read_text()):
            inside = not link.startswith(("https://", "#"))
            assert not inside or (page.parent / link.partition("#")[0]).exists(), (page, link)


def test_the_gallery_has_the_picture_and_the_output_of_every_example() -> None:
    kept = {path.name for path in (ROOT / "docs/images/gallery").iterdir()}
    assert kept == {f"{path.stem}.{kind}" for path in EXAMPLES for kind in ("png", "txt")}


def test_examples_in_docstrings_have_a_heading() -> None:
    """Without one, the site shows `>>>` as quotations."""
    for path in sorted(ROOT.glob("src/fwnet/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                assert not re.search("^>>>", ast.get_docstring(node) or "", re.MULTILINE), path


def test_the_site_shows_examples_in_docstrings_as_code() -> None:
    griffe = pytest.importorskip("griffe")
    from tools.docstrings import Docstrings

    value = "Two.\n\nExample:\n    >>> 1 + 1\n    2"
    module = griffe.Module("two", docstring=griffe.Docstring(value))
    Docstrings().on_instance(obj=module)
    sections = griffe.parse_google(module.docstring)
    assert [section.kind.value for section in sections] == ["text", "examples"]


def test_the_site_shows_functions_not_their_modules_and_joins_what_a_cell_prints() -> None:
    pytest.importorskip("mkdocs")
    from tools.site import joined, source

    assert source("fwnet.minimize") == "fwnet.solvers.minimize.minimize"
    assert source("fwnet.Simplex") == "fwnet.Simplex"
    figure = {"data": {"image/png": ""}}
    pieces = joined([{"text": ["a\n"]}, {"text": ["b\n"]}, figure, {"text": ["c\n"]}])
    assert pieces == [{"text": ["a\n", "b\n"]}, figure, {"text": ["c\n"]}]


def test_the_site_breaks_no_option_and_leads_from_examples_to_the_gallery() -> None:
    pytest.importorskip("mkdocs")
    from tools.site import on_page_content, on_page_markdown

    shown = on_page_content("<code>python -m benchmarks.learned --only low-rank</code>")
    options = '<span class="short">-m</span>', '<span class="short">--only</span>'
    assert shown == f"<code>python {options[0]} benchmarks.learned {options[1]} low-rank</code>"
    assert '<td><span class="short">1.3e-2</span></td>' in on_page_content("<td>1.3e-2</td>")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="notebooks/a.md"))
    linked = on_page_markdown("`python examples/batched.py`", page)
    assert linked == "[`python examples/batched.py`](../gallery.md#batched)"
    page.file.src_uri = "qp-layers.md"
    assert on_page_markdown("[one](../notebooks/a.ipynb)", page) == "[one](notebooks/a.md)"


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_and_draws(example: Path, tmp_path: Path) -> None:
    run([str(example), "--quick", "--plot", "figure.png"], tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 5000  # not an empty picture
