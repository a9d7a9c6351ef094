"""100 points for a Gaussian: the default rule beside sequential Bayesian quadrature.

    python -m benchmarks.quadrature [--repeats 5]

Worst-case errors, milliseconds of processor time, and the time as a share of the last rule's with
the same seed; taking turns, one thread; medians over seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from statistics import median
from typing import Any

import torch

from fwnet.quadrature import RBF, Gaussian, quadrature

METHODS: dict[str, dict[str, Any]] = {
    "Frank-Wolfe, moved": {},
    "sequential, 500": {"method": "sequential", "candidates": 500, "refine": 0},
    "sequential, 2,000": {"method": "sequential", "candidates": 2000, "refine": 0},
    "sequential, 10,000": {"method": "sequential", "candidates": 10_000, "refine": 0},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    for d in (2, 5, 10):
        measure, kernel = Gaussian([0.0] * d), RBF(math.sqrt(d) / 2)
        quadrature(measure, 100, kernel)  # compiles
        errors: dict[str, list[float]] = {name: [] for name in METHODS}
        seconds: dict[str, list[float]] = {name: [] for name in METHODS}
        for seed in range(repeats):
            for name, setting in METHODS.items():
                generator = torch.Generator().manual_seed(seed)
                began = time.process_time()
                rule = quadrature(measure, 100, kernel, generator=generator, **setting)
                seconds[name].append(time.process_time() - began)
                errors[name].append(rule.worst_case_error)
        for name in METHODS:
            error, taken = median(errors[name]), 1e3 * median(seconds[name])
            pairs = zip(seconds[name], seconds["sequential, 10,000"], strict=True)
            share = median(own / other for own, other in pairs)
            print(f"| {d} | {name} | {error:.5f} | {taken:.1f} | {share:.2f} |")


if __name__ == "__main__":
    main()
