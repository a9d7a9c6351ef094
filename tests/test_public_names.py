"""Public names and signatures change on purpose, not by accident."""

from __future__ import annotations

import difflib
from pathlib import Path

from public_names import lines


def test_public_names_are_as_listed() -> None:
    kept = (Path(__file__).parent / "public_names.txt").read_text().splitlines()
    change = list(difflib.unified_diff(kept, list(lines()), "listed", "now", lineterm="", n=0))
    advice = "if this is meant: python -m tests.public_names > tests/public_names.txt"
    assert not change, "\n".join([*change, advice])
