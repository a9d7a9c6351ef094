"""Public names and signatures change on purpose, not by accident."""

from __future__ import annotations

import difflib
import importlib
import inspect
from pathlib import Path

from public_names import NAMESPACES, lines


def test_public_names_are_as_listed() -> None:
    kept = (Path(__file__).parent / "public_names.txt").read_text().splitlines()
    change = list(difflib.unified_diff(kept, list(lines()), "listed", "now", lineterm="", n=0))
    advice = "if this is meant: python -m tests.public_names > tests/public_names.txt"
    assert not change, "\n".join([*change, advice])


def test_every_public_name_has_an_example() -> None:
    """In its docstring, where test_examples_in_docstrings runs it and the site shows it."""
    elsewhere = {"Trace", "StepRecord"}  # in that of Result
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in set(module.__all__) - elsewhere:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert ">>> " in (thing.__doc__ or ""), f"{namespace}.{name}: an example, please"
