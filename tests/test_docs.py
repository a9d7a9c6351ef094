"""What the documentation shows runs: README.md, docs/*.md and examples/*.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(arguments: list[str], folder: Path) -> None:
    """Run in a folder of its own, without a screen, warnings as errors."""
    paths = [str(ROOT / "src"), str(ROOT / "examples"), str(ROOT)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "MPLBACKEND": "Agg",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


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
