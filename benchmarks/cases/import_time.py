"""Seconds that `import fwnet` takes beyond `import torch`, each in a fresh process, in turn."""

import subprocess
import sys

from benchmarks import peers
from benchmarks.harness import OURS, Case, Missing, Row, figure

TARGET = 0.3
PROCESSES = 5
PROGRAM = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def run(repeats: int) -> list[Row]:
    fwnet = peers.load("fwnet")
    modules = ["torch"] if isinstance(fwnet, Missing) else ["torch", OURS]
    seconds: dict[str, list[float]] = {module: [] for module in modules}
    for module in modules:
        _import(module)  # compile the bytecode and warm the file cache
    for _ in range(max(repeats, PROCESSES)):
        for module in modules:
            seconds[module].append(_import(module))
    if isinstance(fwnet, Missing):
        return [Row("import fwnet minus import torch", "s", None, target=TARGET, note=fwnet.reason)]
    extra = [ours - torch for ours, torch in zip(seconds[OURS], seconds["torch"], strict=True)]
    return [
        figure("import torch", seconds["torch"], "s"),
        figure("import fwnet", seconds[OURS], "s"),
        figure("import fwnet minus import torch", extra, "s", TARGET),
    ]


def _import(module: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


CASE = Case("import", "time to import", run)
