"""python tools/without_numba.py: what is slower without Numba, as ratios of processor time.

Runs each task in fresh processes, alternately with Numba and with its import blocked, and prints
the ratio of the fastest runs. docs/architecture.md quotes the result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable

TASKS = (
    "PairwiseFrankWolfe(compiled=True), simplex, n = 1000",
    "SimplexQP and its gradient, 64 problems, n = 16",
    "SimplexQP and its gradient, 64 problems, n = 48",
    "controller simplex-qp, n = 300",
)


def tasks() -> list[Callable[[], object]]:
    """The work behind each of `TASKS`."""
    import torch

    import fwnet
    from fwnet import learned
    from fwnet.layers import SimplexQP
    from fwnet.numerics.compiled import numba_or_none

    generator = torch.Generator().manual_seed(0)
    A = torch.randn(200, 1000, generator=generator, dtype=torch.float64)
    b = A[:, :20].mean(1) + 0.1 * torch.randn(200, generator=generator, dtype=torch.float64)
    squares = fwnet.LeastSquares(A, b)
    K = torch.randn(300, 30, generator=generator, dtype=torch.float64)
    dual = fwnet.Quadratic(K @ K.mT + torch.eye(300, dtype=torch.float64))
    controller = learned.load("simplex-qp").solver(fwnet.Simplex(), max_steps=50, tol=0.0)
    compiled = numba_or_none() is not None
    pairwise = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), max_steps=300, tol=0.0, compiled=compiled)

    def layer(n: int) -> Callable[[], object]:
        root = torch.randn(64, n, n, generator=generator, dtype=torch.float64)
        Q = (root @ root.mT + torch.eye(n, dtype=torch.float64)).requires_grad_()
        c = torch.randn(64, n, generator=generator, dtype=torch.float64)
        return lambda: SimplexQP()(Q, c).square().sum().backward()

    return [lambda: pairwise(squares), layer(16), layer(48), lambda: controller(dual)]


def measure() -> list[float]:
    """The fastest of five runs of each task, after one that compiles."""
    found = []
    for task in tasks():
        task()
        times = []
        for _ in range(5):
            start = time.process_time()
            task()
            times.append(time.process_time() - start)
        found.append(min(times))
    return found


def main() -> None:
    """Print a ratio for each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="pairs of processes")
    parser.add_argument("--one", choices=("with", "without"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.one == "without":
            sys.modules["numba"] = None  # type: ignore[assignment]
        print(json.dumps(measure()))
        return
    best = {"with": [float("inf")] * len(TASKS), "without": [float("inf")] * len(TASKS)}
    for _ in range(options.repeats):
        for one in best:
            command = [sys.executable, __file__, "--one", one]
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            best[one] = [min(pair) for pair in zip(best[one], found, strict=True)]
    for name, fast, slow in zip(TASKS, best["with"], best["without"], strict=True):
        print(f"{name:<52} {slow / fast:5.1f} times as long without Numba")


if __name__ == "__main__":
    main()
