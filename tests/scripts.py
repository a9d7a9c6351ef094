"""Run a script as a user would, in a process with the large imports already done."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = [
    "torch",
    "torch._dynamo",  # which every optimizer of torch imports
    "numba",
    "scipy.optimize",
    "sklearn.svm",
    "sklearn.datasets",
    "matplotlib.pyplot",
]


def run(arguments: list[str], folder: Path) -> None:
    """Run a script, which must succeed."""
    assert finish(start(arguments, folder)) == 0, printed(folder)


def start(arguments: list[str], folder: Path) -> BaseProcess:
    """Start a script in a folder of its own, without a screen, warnings as errors.

    The process is a fork of a server that has imported the common libraries, but not fwnet: half
    the time of a new interpreter, and a missing import of ours still fails.
    """
    os.environ["MPLBACKEND"] = "Agg"  # before the server starts
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    folder.mkdir(exist_ok=True)
    process = context.Process(target=_main, args=(arguments, folder))
    process.start()
    return process


def finish(process: BaseProcess) -> int | None:
    """Wait for the end; return the exit code, None after a timeout."""
    process.join(timeout=300)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    return code


def printed(folder: Path) -> str:
    """What the script of a folder has printed so far, cut to its end if long."""
    return (folder / "output.txt").read_text()[-6000:]


def _main(arguments: list[str], folder: Path) -> None:
    os.chdir(folder)
    with open("output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    paths = [str(ROOT / name) for name in ("src", "examples", "tests", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of processes that the script starts
    sys.path[:0] = paths
    sys.argv = arguments
    warnings.simplefilter("error")
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except Exception:
        traceback.print_exc()
        raise
