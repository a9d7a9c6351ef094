"""The command line starts without torch: help, version and completion answer at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from fwnet.cli import reproduce
from fwnet.cli.app import app
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
        "_FWNET_COMPLETE": "bash_complete",
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
    assert done.stdout.split() == [f"plain,{found}", "False"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_for_the_shell_of_the_user(shell: str, tmp_path: Path) -> None:
    user = {"SHELL": f"/bin/{shell}", "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    script = CliRunner().invoke(app, "--show-completion", env=user).stdout
    assert f"_FWNET_COMPLETE={shell}_complete" in script
    profile = tmp_path / f".{shell}rc"
    profile.write_text("alias a=b")
    for _ in range(2):
        done = CliRunner().invoke(app, "--install-completion", env=user)
        assert f"{shell} completion installed in {tmp_path}" in done.stdout
    (path,) = (path for path in tmp_path.rglob("*fwnet*") if path.is_file())
    assert path.read_text() == script.removesuffix("\n")
    lines = profile.read_text().splitlines()
    assert lines[0] == "alias a=b"
    assert len(lines) == (1 if shell == "fish" else 3)  # not twice


def test_an_unknown_shell_is_a_usage_error() -> None:
    done = CliRunner().invoke(app, "--show-completion", env={"SHELL": "/bin/ksh"})
    assert done.exit_code == 2
    assert "there is no completion for the shell 'ksh' of the variable SHELL" in done.stderr


def test_the_names_known_before_a_command_runs_are_those_of_the_library() -> None:
    assert {experiment.name for experiment in EXPERIMENTS} == set(reproduce.NAMES)
    assert tuple(each.value for each in Profile) == reproduce.PROFILES
    required = ["--data", "a", "--out", "b", "--classes", "2", "--radius", "1"]
    asked = distributed_fit.make_context("fit", required).params
    for field in fields(FitConfig):
        default = {"classes": 2, "radius": 1.0}.get(field.name, field.default)
        assert asked[field.name] == default, field.name
