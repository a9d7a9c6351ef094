"""`fwnet bench`: the benchmarks of a checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import click

from fwnet.cli.errors import Failed, command
from fwnet.cli.names import completes, known

_MODULES = {
    "core": "benchmarks",
    "svm": "benchmarks.svm",
    "layers": "benchmarks.layers",
    "trace": "benchmarks.trace",
    "learned": "benchmarks.learned",
    "deep-svm": "benchmarks.deep_svm",
    "optimizer": "benchmarks.trace.optimizer",
    "workers": "benchmarks.trace.distributed",
}


@command("bench")
@click.argument(
    "suite",
    default="core",
    shell_complete=completes(_MODULES),
    help=f"What to measure: {', '.join(_MODULES)}.",
)
@click.argument("arguments", nargs=-1, help="Arguments of the benchmark.")
def bench(suite: str, arguments: tuple[str, ...]) -> None:
    """Compare fwnet with other libraries on this machine. Needs a checkout of fwnet.

    Examples:

        fwnet bench
        fwnet bench core simplex
        fwnet bench workers -- --rows 4096 --steps 5
    """
    module = _MODULES[known("suite", suite, _MODULES)]
    # The benchmarks are not part of the package: they need libraries that users do not.
    sys.path.insert(0, os.getcwd())
    if not Path("benchmarks/__main__.py").is_file() or not importlib.util.find_spec("benchmarks"):
        raise Failed(
            "there are no benchmarks in this folder. Run the command in a checkout of fwnet."
        )
    command = [sys.executable, "-m", module, *arguments]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise Failed(f"python -m {module} ended with code {code}.")
