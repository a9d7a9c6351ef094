"""`fwnet bench`: the benchmarks of a checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fwnet.cli.errors import Failed


class Suite(str, Enum):
    """What a benchmark measures."""

    CORE = "core"
    SVM = "svm"
    LAYERS = "layers"
    TRACE = "trace"
    LEARNED = "learned"
    DEEP_SVM = "deep-svm"
    OPTIMIZER = "optimizer"
    WORKERS = "workers"


_MODULES = {
    Suite.CORE: "benchmarks",
    Suite.SVM: "benchmarks.svm",
    Suite.LAYERS: "benchmarks.layers",
    Suite.TRACE: "benchmarks.trace",
    Suite.LEARNED: "benchmarks.learned",
    Suite.DEEP_SVM: "benchmarks.deep_svm",
    Suite.OPTIMIZER: "benchmarks.trace.optimizer",
    Suite.WORKERS: "benchmarks.trace.distributed",
}


def bench(
    suite: Annotated[Suite, typer.Argument(help="What to measure.")] = Suite.CORE,
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on.")] = None,
) -> None:
    """Compare fwnet with other libraries on this machine. Needs a checkout of fwnet.

    Examples:

        fwnet bench

        fwnet bench core simplex

        fwnet bench workers -- --rows 4096 --steps 5
    """
    # The benchmarks are not part of the package: they need libraries that users do not.
    sys.path.insert(0, os.getcwd())
    if not Path("benchmarks/__main__.py").is_file() or not importlib.util.find_spec("benchmarks"):
        raise Failed(
            "there are no benchmarks in this folder. Run the command in a checkout of fwnet."
        )
    code = subprocess.run(
        [sys.executable, "-m", _MODULES[suite], *(arguments or [])], check=False
    ).returncode
    if code:
        raise Failed(f"python -m {_MODULES[suite]} ended with code {code}.")
