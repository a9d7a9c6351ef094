"""The package as a whole: imports, documents, sizes."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import fwnet

ROOT = Path(fwnet.__file__).parent

# A room imports only from lower ranks and, within its rank, from rooms that stand before it.
RANKS = [
    ["numerics", "quadratic"],
    ["vertices", "iterates", "problems", "domains"],
    ["oracles", "directions", "steps", "starts", "show", "trace", "data"],
    ["solvers"],
    ["layers", "optim", "learned"],
    ["kernels", "estimators", "quadrature"],
    ["lab"],
    ["cli", "__main__"],
]
ROOMS = [room for rank in RANKS for room in rank]
# Public names of rooms that lie deeper: they re-export, and nobody inside imports them.
DOORS = {"low_rank", "distributed", "plotting"}
LOOSE = {"__init__", "__main__", "iterates", "starts", "trace", "vertices"}
SOURCES = sorted(ROOT.rglob("*.py"))
MODULES = sorted(["fwnet", *(m.name for m in pkgutil.walk_packages([str(ROOT)], prefix="fwnet."))])
WITH_EXAMPLES = [
    ".".join(("fwnet", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCES
    if ">>> " in path.read_text()
]
EXPORTED = {  # classes whose methods are public too
    label for name in MODULES for label in getattr(importlib.import_module(name), "__all__", [])
}
OPTIONAL = (
    "scipy",
    "sklearn",
    "matplotlib",
    "pandas",
    "rich",
    "cvxpy",
    "numba",
    "click",
)
# What a function may import: optional packages, what comes with them, and modules of one system.
LATE_PACKAGES = {
    *OPTIONAL,
    "IPython",
    "PIL",
    "fcntl",
    "huggingface_hub",
    "joblib",
    "msvcrt",
    "onnx",
    "onnxruntime",
    "skl2onnx",
}
NEEDS_NUMBA = re.compile(r"\.compiled_\w+$|\.low_rank$")  # modules that only Numba can import
TWICE = {"FrankWolfe"}  # the solver, and the optimizer of fwnet.optim
COMPLEXITY = 14


def top_level(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax tree of a file, flat: several tests walk it."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> set[str]:
    """The top-level modules of fwnet that a file imports, wherever in it."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fwnet"):
            assert node.level == 0
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fwnet.")}
    return names


def test_the_list_of_rooms_is_complete() -> None:
    assert {top_level(path) for path in SOURCES} - {"__init__"} == {*ROOMS, *DOORS}
    assert {path.stem for path in ROOT.glob("*.py")} == LOOSE


def test_imports_go_down() -> None:
    for path in SOURCES:
        me = top_level(path)
        if me != "__init__":
            below = set(ROOMS if me in DOORS else ROOMS[: ROOMS.index(me)]) | {me}
            assert imported(path) - below == set(), path


def test_functions_import_only_what_is_optional() -> None:
    commands = ("cli", "__main__")  # a command loads what it needs
    for path in (path for path in SOURCES if top_level(path) not in commands):
        for node in (node for function in functions(path) for node in ast.walk(function)):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                root = name.partition(".")[0]
                numba = root == "fwnet" and NEEDS_NUMBA.search(name)
                assert root in LATE_PACKAGES or numba, f"{path}: {name}"


def test_doors_hold_no_code() -> None:
    for door in DOORS:
        tree = ast.parse((ROOT / door / "__init__.py").read_text())
        kinds = (ast.Expr, ast.ImportFrom, ast.Assign)
        assert all(isinstance(node, kinds) for node in tree.body)


@pytest.mark.slow
def test_import_needs_torch_and_numpy_alone() -> None:
    blocked = ", ".join(repr(name) for name in OPTIONAL)
    script = f"""
import sys
for name in ({blocked}):
    sys.modules[name] = None
import fwnet, torch
problem = fwnet.LeastSquares(torch.eye(3), torch.tensor([0.5, 0.3, 0.2]))
result = fwnet.minimize(problem, fwnet.Simplex(), tol=1e-4, verbose=True)
assert result.status == "converged"
fwnet.FWNet(fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(), max_steps=3))(problem)
shipped = fwnet.learned.load("simplex-qp").solver(fwnet.Simplex(), tol=1e-5)
assert shipped(fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))).status == "converged"
for call, text in (
    (lambda: fwnet.minimize(problem, fwnet.Simplex(), progress=True), "progress=True needs rich"),
    (lambda: result.trace.plot(), "plotting needs matplotlib"),
    (lambda: fwnet.Birkhoff(3), "SciPy"),
    (lambda: fwnet.FrankWolfe(fwnet.Simplex(), compiled=True), "compiled=True needs Numba"),
):
    try:
        call()
    except ImportError as error:
        assert text.lower() in str(error).lower(), str(error)
        assert "pip install" in str(error), str(error)
    else:
        raise AssertionError(text)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_short_program_loads_nothing_optional() -> None:
    script = f"""
import sys, torch
before = set(sys.modules)
import fwnet
problem = fwnet.LeastSquares(torch.randn(20, 9), torch.randn(20))
assert "NumPy" in fwnet.minimize(problem, fwnet.Simplex()).message
print([name for name in {OPTIONAL!r} if name in set(sys.modules) - before])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stdout) == []


def public_things(name: str) -> Iterator[tuple[str, Any]]:
    """The classes and functions that a module defines, by their names."""
    for label, thing in vars(importlib.import_module(name)).items():
        kind = inspect.isclass(thing) or inspect.isfunction(thing)
        if kind and not label.startswith("_") and thing.__module__ == name:
            yield label, thing


def test_every_public_name_is_documented() -> None:
    for name in MODULES:
        assert importlib.import_module(name).__doc__, name
        for label, thing in public_things(name):
            assert inspect.getdoc(thing), f"{name}.{label}"
            if not inspect.isclass(thing) or label not in EXPORTED:
                continue
            for attribute, member in vars(thing).items():
                public = not attribute.startswith("_")
                if public and (inspect.isfunction(member) or isinstance(member, property)):
                    inherited = any(hasattr(base, attribute) for base in thing.__mro__[1:])
                    assert inherited or inspect.getdoc(member), f"{name}.{label}.{attribute}"


def test_all_is_sorted_and_complete() -> None:
    assert len(fwnet.__all__) == len(set(fwnet.__all__))
    for name in fwnet.__all__:
        assert getattr(fwnet, name) is not None
    public = {
        name
        for name in dir(fwnet)
        if not name.startswith("_") and not inspect.ismodule(getattr(fwnet, name))
    }
    assert public == set(fwnet.__all__)


def test_files_are_short() -> None:
    assert [path for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in nodes(path) if isinstance(node, kinds)]


def complexity(function: ast.AST) -> int:
    """McCabe's number: 1 + branches, loops, handlers, conditions of and, or and comprehensions.

    Functions inside count for themselves.
    """
    found = 1
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
        else:
            kinds = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case)
            found += isinstance(node, kinds)
        left += ast.iter_child_nodes(node)
    return found


def test_complexity_counts_paths() -> None:
    text = "def f(a, b):\n  if a and b:\n    return [x for x in a if x]\n  return b or 1\n"
    assert complexity(ast.parse(text).body[0]) == 1 + 2 + 2 + 1


def test_functions_are_simple() -> None:
    for path in SOURCES:
        for function in functions(path):
            assert complexity(function) <= COMPLEXITY, f"{path} {function.name}"


def test_a_class_name_exists_once() -> None:
    seen: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                seen.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in seen.items() if len(places) > 1}.keys() <= TWICE


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    known = {"torch": torch, "fwnet": fwnet} | {n: getattr(fwnet, n) for n in fwnet.__all__}
    failed, _ = doctest.testmod(module, extraglobs=known)
    assert failed == 0


def test_typed() -> None:
    assert (ROOT / "py.typed").exists()
