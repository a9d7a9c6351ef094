"""The command line starts without torch: help, version and completion answer at once."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields
from typing import get_args

import pytest

from fwnet.cli import reproduce
from fwnet.cli.distributed import fit as distributed_fit
from fwnet.distributed import FitConfig
from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.experiments import EXPERIMENTS

HEAVY = ("torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "numba")
COMMANDS = (
    *(
        "solve",
        "fit",
        "predict",
        "reproduce",
        "report",
        "features",
        "bench",
        "info",
        "meta-train",
        "warm-up",
    ),
    *("evaluate", "distributed", "distributed fit", "distributed shard"),
)
SCRIPT = f"""
import contextlib, io, json, sys
from fwnet.cli import run
found = {{}}
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run(line.split())
    found[line] = [code, out.getvalue(), [name for name in {HEAVY!r} if name in sys.modules]]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_help_and_version_load_nothing_heavy() -> None:
    lines = ["--version", "--help", *(f"{name} --help" for name in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(lines)],
        capture_output=True,
        text=True,
        check=True,
    )
    for line, (code, out, loaded) in json.loads(done.stdout).items():
        assert code == 0, line
        assert out, line
        assert loaded == [], line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "found"),
    [("sol", "solve"), ("solve --domain tr", "trace-norm"), ("reproduce cif", "cifar2")],
)
def test_completion_loads_nothing_heavy(words: str, found: str) -> None:
    script = f"import sys; from fwnet.cli import run; run(); print({HEAVY!r}[0] in sys.modules)"
    asked = {
        "_FWNET_COMPLETE": "complete_bash",
        "COMP_WORDS": f"fwnet {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | asked,
    )
    assert done.stdout.split() == [found, "False"]


def test_the_names_known_before_a_command_runs_are_those_of_the_library() -> None:
    assert {experiment.name for experiment in EXPERIMENTS} == set(reproduce.NAMES)
    assert get_args(reproduce.ProfileName) == tuple(each.value for each in Profile)
    asked = inspect.signature(distributed_fit).parameters
    for field in fields(FitConfig):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        assert asked[field.name].default == default, field.name
