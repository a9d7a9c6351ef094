"""Run a script as a user would, in a process that finds the large imports done."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = ["torch", "scipy.optimize", "sklearn.svm", "sklearn.datasets", "matplotlib.pyplot"]


def run(arguments: list[str], folder: Path) -> None:
    """Run in a folder of its own, without a screen, warnings as errors.

    The process is a fork of a server that has imported what everybody needs, but not fwnet: half
    the time of a new interpreter, and a missing import of ours still fails.
    """
    os.environ["MPLBACKEND"] = "Agg"  # before the server starts
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_main, args=(arguments, folder))
    process.start()
    process.join(timeout=300)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode == 0, (folder / "output.txt").read_text()[-6000:]


def _main(arguments: list[str], folder: Path) -> None:
    os.chdir(folder)
    with open("output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    paths = [str(ROOT / "src"), str(ROOT / "examples"), str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of processes that the script starts
    sys.path[:0] = paths
    sys.argv = arguments
    warnings.simplefilter("error")
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except Exception:
        traceback.print_exc()
        raise
