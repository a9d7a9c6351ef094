"""python -m benchmarks.trace [case ...] [--repeats N] [--json FILE] [--list]

Every module of this folder that has a list CASES of `benchmarks.harness.Case` is run.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

from benchmarks.command import RESULTS, run
from benchmarks.harness import Case


def cases() -> dict[str, Case]:
    """The cases of all modules, by name."""
    found: dict[str, Case] = {}
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    for module in sorted(modules, key=lambda module: module.name):
        if module.name != "__main__":
            loaded = importlib.import_module(f"benchmarks.trace.{module.name}")
            found |= {case.name: case for case in getattr(loaded, "CASES", [])}
    return found


if __name__ == "__main__":
    sys.exit(run("python -m benchmarks.trace", cases(), RESULTS / "trace.json", repeats=5))
