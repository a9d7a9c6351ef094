"""How one iteration grows with n: 1/2 |Ax - b|^2 on the simplex, A 10 x n, n = 10^4 .. 10^6.

    seconds per iteration ~ n^p,   peak memory above the data ~ n^q;   linear is p, q <= 1

Time is the slope between two lengths of run, so that the set-up does not count. Memory is the
resident peak of a fresh process, above what it held once the data were there, for the two lengths:
an iterate kept at every step would show.
"""

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import loops, peers
from benchmarks.harness import (
    OURS,
    Case,
    Contender,
    Missing,
    Row,
    Spread,
    figure,
    interleave,
    power_of_growth,
)

ROWS = 10
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
MEMORY_SIZES = (250_000, 500_000, 1_000_000)
FITTED = 3  # the largest sizes: there the fixed cost of a call no longer hides the growth
SHORT, LONG = 10, 50
TARGET = 1.1  # of both exponents; read it beside the NumPy loop, linear by construction
LOOP = "NumPy, cached Ax"


def run(repeats: int) -> list[Row]:
    fwnet = peers.load("fwnet")
    seconds: dict[str, list[float]] = {name: [] for name in (OURS, LOOP)}
    rows: list[Row] = []
    for n in SIZES:
        samples = interleave(_contenders(n), repeats)
        for name in seconds:
            slope = _slope(samples[f"{name} {SHORT}"], samples[f"{name} {LONG}"])
            if slope is not None:
                seconds[name].append(slope)
    for name, found in seconds.items():
        if found:
            times = ", ".join(f"{1e3 * s:.2g}" for s in found)
            rows.append(
                figure(
                    f"exponent of time per iteration, {name}",
                    [power_of_growth(SIZES[-FITTED:], found[-FITTED:])],
                    "",
                    TARGET if name == OURS else None,
                    f"n = 10^4 .. 10^6: {times} ms",
                )
            )
    if isinstance(fwnet, Missing):
        return [
            *rows,
            Row("exponents of time and memory", "", None, target=TARGET, note=fwnet.reason),
        ]
    return rows + _memory_rows()


def _contenders(n: int) -> dict[str, Contender]:
    data = make(n)
    found: dict[str, Contender] = {}
    for steps in (SHORT, LONG):
        found[f"{OURS} {steps}"] = peers.contender("fwnet", _fwnet, *data, steps)
        found[f"{LOOP} {steps}"] = partial(loops.caching, *data, steps)
    return found


def make(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n)
    a = generator.standard_normal((ROWS, n))
    return a, generator.standard_normal(ROWS) / n**0.5, np.full(n, 1 / n)


def _fwnet(fwnet: Any, a: np.ndarray, b: np.ndarray, x0: np.ndarray, steps: int) -> Contender:
    problem = fwnet.LeastSquares(torch.from_numpy(a), torch.from_numpy(b))
    solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), max_steps=steps, tol=0)
    start = torch.from_numpy(x0)
    return lambda: solver(problem, start)


def _slope(short: "list[float] | Missing", long: "list[float] | Missing") -> float | None:
    if isinstance(short, Missing) or isinstance(long, Missing):
        return None
    return Spread.of((b - a) / (LONG - SHORT) for a, b in zip(short, long, strict=True)).median


def _memory_rows() -> list[Row]:
    """Bytes at the peak, in vectors of n doubles."""
    rows = []
    peaks = {(n, s): _peak_in_fresh_process(n, s) for n in MEMORY_SIZES for s in (SHORT, LONG)}
    exponent = power_of_growth(MEMORY_SIZES, [peaks[n, LONG] for n in MEMORY_SIZES])
    vectors = {s: peaks[MEMORY_SIZES[-1], s] / (8 * MEMORY_SIZES[-1]) for s in (SHORT, LONG)}
    note = f"n = 10^6: {vectors[SHORT]:.1f} vectors of n after {SHORT} steps, "
    note += f"{vectors[LONG]:.1f} after {LONG}"
    rows.append(figure("exponent of peak memory, fwnet", [exponent], "", TARGET, note))
    ratio = vectors[LONG] / vectors[SHORT]
    rows.append(figure(f"peak memory, {LONG} against {SHORT} steps", [ratio], "", TARGET))
    return rows


def _peak_in_fresh_process(n: int, steps: int) -> float:
    command = [sys.executable, "-m", "benchmarks.cases.cost_growth", str(n), str(steps)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["bytes"])


def _peak_here(n: int, steps: int) -> int:
    """Bytes that a solve adds to the resident peak of this process."""
    fwnet: Any = peers.load("fwnet")
    _warm = _fwnet(fwnet, *make(1000), steps=2)
    assert not isinstance(_warm, Missing)
    _warm()
    a, b, x0 = make(n)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here (Linux)
    before = _resident_peak()
    solve = _fwnet(fwnet, a, b, x0, steps)
    assert not isinstance(solve, Missing)
    solve()
    return _resident_peak() - before


def _resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


CASE = Case("growth", f"cost of an iteration as n grows, A {ROWS} x n, float64", run)

if __name__ == "__main__":
    print(json.dumps({"bytes": _peak_here(int(sys.argv[1]), int(sys.argv[2]))}))
