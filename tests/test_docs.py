"""What the documentation shows runs: README.md, docs/*.md and examples/*.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.scripts import ROOT, run

PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    if page.name == "README.md":
        assert blocks, "README.md shows no python block."
    if blocks:
        script = tmp_path / "page.py"
        script.write_text("\n".join(blocks))
        run([str(script)], tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    run([str(example), "--quick"], tmp_path)
