"""Hooks of mkdocs: pages that are made, not written.

reference/ROOM.md   the docstrings of every public name, those of tests/public_names.txt
api.md              written by hand; here its names become links to those docstrings
gallery.md          what the examples ask, draw and print (tools/gallery.py keeps the last two)
notebooks.md        a line for each notebook
notebooks/NAME.md   its text, its code and the outputs that it keeps
benchmarks.md       benchmarks/README.md
changelog.md        CHANGELOG.md
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
TITLES = {  # of the pages of the reference, in their order
    "solvers": "Solvers and results",
    "problems": "Problems",
    "domains": "Domains",
    "oracles": "Oracles",
    "directions": "Directions",
    "steps": "Step rules",
    "layers": "Layers",
    "optim": "Optimizers",
    "estimators": "Estimators",
    "low_rank": "Low rank",
    "kernels": "Kernels between graphs",
    "quadrature": "Quadrature",
    "learned": "Learned optimizers",
    "learned.families": "Families of problems",
    "learned.baselines": "Baselines",
    "distributed": "Many workers",
    "data": "Data sets",
    "plotting": "Plots",
}
GUIDES = {  # what to read first
    "solvers": "choose-a-solver.md",
    "problems": "architecture.md#add-a-problem",
    "domains": "add-a-domain.md",
    "oracles": "architecture.md#add-an-oracle",
    "directions": "choose-a-solver.md",
    "steps": "choose-a-step-rule.md",
    "layers": "qp-layers.md",
    "optim": "constrain-a-network.md",
    "estimators": "estimators.md",
    "low_rank": "low-rank.md",
    "kernels": "graphs.md",
    "quadrature": "quadrature.md",
    "learned": "learned-optimizers.md",
    "learned.families": "train-an-optimizer.md",
    "learned.baselines": "evaluate-learned-optimizers.md",
    "distributed": "distributed.md",
    "data": "reproduce.md#data",
    "plotting": "index.md#watching-a-run",
}
SHARED = {  # rooms without a page of their own
    "iterates": "solvers",
    "starts": "solvers",
    "trace": "solvers",
    "numerics.linear_maps": "problems",
}
MOVED = {  # links to files outside docs/
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "examples": "gallery.md",
    "notebooks": "notebooks.md",
}
GALLERY = {  # the examples, in the order of the gallery
    "Networks": (
        "noisy_digits",
        "constrained_mlp",
        "few_shot_head",
        "svm_head_in_a_convnet",
        "differentiate",
        "neural_sparse_softmax",
    ),
    "Support vector machines": (
        "odd_even_certificate",
        "few_shot_digits",
        "deep_circles",
        "graph_classes",
        "neural_svm",
    ),
    "Low rank": (
        "thousand_classes",
        "movie_ratings",
        "low_rank_completion",
        "sparse_text",
        "mnist_pixels",
    ),
    "Learned optimizers": ("evaluate_a_controller", "learn_a_step_size"),
    "Solvers": (
        "choose_a_solver",
        "choose_a_step_rule",
        "batched",
        "polynomial_regression",
        "k_sparse_atoms",
        "birkhoff_lazy",
        "probability_simplex",
        "points_for_an_integral",
    ),
}
NAME = re.compile(r"fwnet\.([\w.]+)(\(|$)")
QUESTION = re.compile(r"^(.+?)\n\n(.*?)(?:\nSee: (.*))?\Z", re.DOTALL)


def reference() -> dict[str, list[str]]:
    """The public names by page, each once: classes and functions, not constants and modules."""
    homes: dict[str, str] = {}
    for node in ast.walk(ast.parse((ROOT / "src/fwnet/__init__.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fwnet."):
            room = node.module.removeprefix("fwnet.")
            homes |= {alias.name: SHARED.get(room, room) for alias in node.names}
    pages: dict[str, list[str]] = {room: [] for room in TITLES}
    listed = (ROOT / "tests/public_names.txt").read_text().splitlines()
    for path in [match.group(1) for line in listed if (match := NAME.match(line))]:
        room, _, name = path.rpartition(".")
        if not room:
            pages[homes[name]].append(f"fwnet.{name}")
        elif name not in homes or room == "optim":  # its FrankWolfe is another class
            pages[room].append(f"fwnet.{path}")
    return pages


def source(name: str) -> str:
    """The path to document: a function that has the name of its module hides that module."""
    package, _, last = name.rpartition(".")
    folder = ROOT / "src" / package.replace(".", "/")
    for file in folder.glob(f"*/{last}.py" if package == "fwnet" else f"{last}.py"):
        return f"{'.'.join(file.relative_to(ROOT / 'src').with_suffix('').parts)}.{last}"
    return name


def opening(room: str, names: list[str]) -> str:
    """Where a page's names are imported from, and which guide explains them."""
    packages = sorted({name.rpartition(".")[0] for name in names})
    shown = " and ".join(f"`{package}`" for package in packages)
    guide = (ROOT / "docs" / GUIDES[room].partition("#")[0]).read_text().partition("\n")[0]
    title = "Watching a run" if guide == "# fwnet" else guide.removeprefix("# ")
    return f"Import these names from {shown}. Guide: [{title}](../{GUIDES[room]})."


def linked(markdown: str, pages: dict[str, list[str]]) -> str:
    """api.md with the names in the first column of its tables as links to their docstrings."""
    places = {name: f"reference/{room}.md#{source(name)}" for room in pages for name in pages[room]}

    def row(match: re.Match[str]) -> str:
        package = ""  # of the name before, which those after it may leave out

        def name(span: re.Match[str]) -> str:
            nonlocal package
            path = span.group(1)
            for prefix in ("fwnet.", f"fwnet.{package}."):
                if prefix + path in places:
                    package = (prefix + path).rpartition(".")[0].removeprefix("fwnet.")
                    return f"[{span.group(0)}]({places[prefix + path]})"
            return span.group(0)

        return re.sub(r"`([\w.]+)(?:\([^`]*\))?`", name, match.group(0))

    return re.sub(r"^\| `[^|]+", row, markdown, flags=re.MULTILINE)


def repository(path: str) -> str:
    """The path as code, with a link to the file if the address of the repository is known."""
    address = os.environ.get("REPO_URL", "").rstrip("/")
    return f"[`{path}`]({address}/blob/main/{path})" if address else f"`{path}`"


def gallery() -> str:
    """A card for each example, then a section: its question, its text, its picture."""
    parts = [
        "# Gallery\n\nEach script asks one question and answers it in about half a minute. "
        "`python examples/NAME.py` prints the answer, and `--plot figure.png` draws the picture. "
        "What is printed here comes from one run on a busy machine, so compare its seconds only "
        "with each other."
    ]
    sections = []
    listed = sorted(name for names in GALLERY.values() for name in names)
    if listed != sorted(path.stem for path in (ROOT / "examples").glob("*.py")):
        raise ValueError("GALLERY of tools/site.py must list every example once.")
    for group, names in GALLERY.items():
        cards = []
        for name in names:
            text = ast.get_docstring(ast.parse((ROOT / f"examples/{name}.py").read_text())) or ""
            match = QUESTION.match(text)
            if match is None:
                raise ValueError(f"examples/{name}.py does not begin with a question and a text.")
            question, body, seen = match.groups()
            question = question.removesuffix(".")
            picture = f"images/gallery/{name}.png"
            answer = f"**Answer.** {seen[0].upper()}{seen[1:].strip()}\n\n" if seen else ""
            printed = (ROOT / f"docs/images/gallery/{name}.txt").read_text(encoding="utf-8")
            cards.append(
                f'<a href="#{name}"><img src="{picture}" alt="" loading="lazy">{question}</a>'
            )
            sections.append(
                f"## {question} {{ #{name} }}\n\n{repository(f'examples/{name}.py')}\n\n"
                f"{body.strip(chr(10))}\n\n![{question}]({picture}){{ loading=lazy }}\n\n{answer}"
                '<details markdown="1"><summary>What it prints</summary>\n\n'
                f"```text\n{printed}```\n\n</details>"
            )
        parts += [f"**{group}**", f'<div class="cards">{"".join(cards)}</div>']
    return "\n\n".join(parts + sections)


def joined(outputs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell, with what it prints in one piece, however often it was flushed."""
    pieces: list[dict[str, Any]] = []
    for output in outputs:
        if pieces and "text" in output and "text" in pieces[-1]:
            pieces[-1]["text"] = [*pieces[-1]["text"], *output["text"]]
        else:
            pieces.append(dict(output))
    return pieces


def notebooks() -> dict[str, str | bytes]:
    """A page for each notebook, the files of its pictures, and a page that lists them all."""
    listed = [
        "# Notebooks\n\nFive lessons, each of which runs in about a minute. In a clone of the "
        "repository, `jupyter lab notebooks` opens them and `make notebooks` runs them all."
    ]
    found: dict[str, str | bytes] = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        title, _, text = "".join(cells[0]["source"]).removeprefix("# ").partition("\n")
        place = os.environ.get("REPO_URL", "").removeprefix("https://github.com/").rstrip("/")
        colab = f"https://colab.research.google.com/github/{place}/blob/main/notebooks/{path.name}"
        links = repository(f"notebooks/{path.name}") + (
            f" · [Open it in Colab]({colab})" * bool(place)
        )
        listed.append(f"## [{title}](notebooks/{path.stem}.md)\n\n{text.strip()}\n\n{links}")
        blocks = [f"# {title}\n\n{links}\n\n{text.strip()}"]
        for cell in cells[1:]:
            source = "".join(cell["source"])
            blocks.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
            for output in joined(cell.get("outputs", ())):
                data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
                if "image/png" in data:
                    picture = f"{path.stem}-{len(found)}.png"
                    found[f"notebooks/{picture}"] = base64.b64decode(data["image/png"])
                    blocks.append(f"![What the cell above draws]({picture})")
                elif "text/html" in data:
                    blocks.append(f'<div class="output">{data["text/html"]}</div>')
                else:
                    printed = data.get("text/plain") or "".join(output.get("text", ""))
                    blocks.append(f"```text\n{printed.strip(chr(10))}\n```")
        found[f"notebooks/{path.stem}.md"] = "\n\n".join(blocks)
    return {"notebooks.md": "\n\n".join(listed)} | found


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages: dict[str, str | bytes] = notebooks() | {
        "gallery.md": gallery(),
        "benchmarks.md": (ROOT / "benchmarks/README.md").read_text(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
    }
    for room, names in reference().items():
        blocks = "\n\n".join(f"::: {source(name)}" for name in names)
        text = f"# {TITLES[room]}\n\n{opening(room, names)}\n\n{blocks}\n"
        pages[f"reference/{room}.md"] = text
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_config(config: Any) -> Any:
    """Add the notebooks and the pages of the reference to the navigation."""
    sections = {title: entries for entry in config["nav"] for title, entries in entry.items()}
    lessons = [path for path in notebooks() if path.endswith(".md")]
    next(entry for entry in sections["Start"] if "Notebooks" in entry)["Notebooks"] = lessons
    sections["Reference"] += [{title: f"reference/{room}.md"} for room, title in TITLES.items()]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside docs/ at their pages, and examples at the gallery; drop what the
    site cannot show.
    """

    def moved(match: re.Match[str]) -> str:
        path, anchor = match.groups()
        page = MOVED.get(path, path.removeprefix("docs/").replace(".ipynb", ".md"))
        return f"]({page}{anchor or ''})"

    if page.file.src_uri == "api.md":
        markdown = linked(markdown, reference())
    links = r"\]\((?:\.\./)?([\w./-]+\.(?:md|html|ipynb)|examples|notebooks)(#[\w.-]+)?\)"
    if not page.file.src_uri.startswith("reference/"):
        markdown = re.sub(links, moved, markdown)
    if page.file.src_uri != "gallery.md":
        place = "../" * page.file.src_uri.count("/") + "gallery.md"
        command = r"(?<!\[)`(?:python )?examples/(\w+)\.py`"
        markdown = re.sub(command, rf"[\g<0>]({place}#\1)", markdown)
    # The second word of a fence is for the tests of training-loops.md.
    markdown = re.sub(r"^```python \w+$", "```python", markdown, flags=re.MULTILINE)
    # A file of the repository that is no page: its name is enough.
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)?CONTRIBUTING\.md(?:#[\w-]+)?\)", r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Say where a line may break, and make each picture a link to itself (phones).

    Short code, options and numbers stay whole: browsers would break them after a hyphen. Code in
    tables breaks after brackets, dots and commas, and on phones between the parts of long names;
    blocks of at most two lines break anywhere.
    """

    def whole(text: str) -> str:
        options = r"(?<![\w-])--?\w[\w-]*"
        return re.sub(options, r'<span class="short">\g<0></span>', text)

    def cell(found: re.Match[str]) -> str:
        def breakable(code: re.Match[str]) -> str:
            text = re.sub(r"(?<=\w)([(.,=]+)(?=[\w&])", r"\1<wbr>", code.group(0))
            return re.sub(r"\w{20,}", parts, text)

        def parts(name: re.Match[str]) -> str:
            return re.sub(r"(?<=_)(?=\w)|(?<=[a-z])(?=[A-Z])", '<wbr class="phone">', name.group(0))

        text = re.sub(r"<code>[^<\n]{26,}</code>", breakable, found.group(0))
        return re.sub(r"\b\d[\d.]*e-\d+\b", r'<span class="short">\g<0></span>', text)

    html = re.sub(r"<code>(?=[^<\n]{1,25}</code>)", '<code class="short">', html)
    html = re.sub(r"<td>.*?</td>", cell, html)
    html = re.sub(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>', r'<p><a href="\2">\1</a></p>', html)
    html = re.sub(r"(?<=<code>)[^<\n]{26,}(?=</code>)", lambda code: whole(code.group(0)), html)
    return re.sub(
        r"<pre>(?=(<span></span>)?<code>([^<\n]*\n){1,2}</code>)", '<pre class="text">', html
    )
