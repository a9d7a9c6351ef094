"""The oldest promised Python: the settings agree on it, and no import needs a newer one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import fwnet

ROOT = Path(__file__).parents[1]
NEWER = {  # of the standard library, since Python 3.11 or later
    "asyncio": {"TaskGroup", "timeout", "Runner"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "verify", "member", "nonmember", "global_enum"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod", "fma"},
    "operator": {"call"},
    "typing": {
        *("Self", "Never", "LiteralString", "Required", "NotRequired", "Unpack", "TypeVarTuple"),
        *("assert_never", "assert_type", "reveal_type", "dataclass_transform", "override"),
    },
    "tomllib": {""},
}


def test_the_settings_name_one_version() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for line in ('requires-python = ">=3.10"', 'target-version = "py310"'):
        assert line in text
    assert 'python_version = "3.10"' in text


@pytest.mark.parametrize("folder", sorted(p.name for p in (ROOT / "src/fwnet").iterdir()))
def test_nothing_newer_is_imported(folder: str) -> None:
    place = ROOT / "src/fwnet" / folder
    for path in [place] if place.suffix == ".py" else place.rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 10))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in NEWER:
                names = {alias.name for alias in node.names}
                assert node.module != "tomllib"
                assert not names & NEWER[node.module], f"{path}: {names & NEWER[node.module]}"
            elif isinstance(node, ast.Import):
                assert all(alias.name != "tomllib" for alias in node.names), path
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.attr not in NEWER.get(node.value.id, ()), f"{path}: {node.attr}"


def test_the_types_of_every_test_are_checked_with_the_settings_for_tests() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    files = {path.stem for path in (ROOT / "tests").glob("*.py")}
    folders = {f"{path.parent.name}.*" for path in (ROOT / "tests").glob("*/__init__.py")}
    assert [name for name in sorted(files | folders) if f'"{name}"' not in text] == []


def test_the_workflow_runs_every_version_that_is_promised() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert promised == ["3.10", "3.11", "3.12", "3.13"]
    matrix = ", ".join(f'"{version}"' for version in promised)
    assert f"python: [{matrix}]" in (ROOT / ".github/workflows/tests.yml").read_text()


def test_the_oldest_dependencies_that_are_tested_are_those_that_are_promised() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    pins = (ROOT / "constraints-oldest.txt").read_text()
    for name, version in re.findall(r"^([a-z-]+)==([\d.]+)$", pins, re.MULTILINE):
        bound = re.search(rf'"{name}>=([\d.]+)"', text)
        assert bound, name
        assert version.startswith(bound[1]), name


def test_the_version_stands_in_one_place() -> None:
    version = re.escape(fwnet.__version__)
    files = [*ROOT.glob("*.toml"), *ROOT.glob("*.cff"), *ROOT.glob("docs/*.md")]
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    assert [path.name for path in files if re.search(rf"\b{version}\b", path.read_text())] == []
