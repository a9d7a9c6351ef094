"""The oracle: one warm power iteration on a gradient, its share of an iteration, and its peers.

The iteration around it is the core's: logits, softmax, gradient (dense) and update, n = 5000.
Processor time, medians of interleaved rounds.
"""

import time
from collections.abc import Callable

import torch

from benchmarks.harness import OURS, Case, Row, compare
from fwnet.numerics.singular import power_iteration, top_singular_pair

SHAPES = ((784, 10), (1000, 1000), (5000, 2000))
N = 5000


def run(repeats: int) -> list[Row]:
    rows = []
    for d, m in SHAPES:
        rows += shape(d, m, repeats)
    return rows


def shape(d: int, m: int, repeats: int) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, d, generator=generator)
    y = torch.randint(m, (N,), generator=generator)
    W = torch.randn(d, m, generator=generator) / d**0.5

    def gradient() -> torch.Tensor:
        P = torch.softmax(X @ W, -1)
        P[torch.arange(N), y] -= 1.0
        return X.mT @ P / N

    G = gradient()
    warm = top_singular_pair(G).v
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: power_iteration(G, warm, 1),
        "svd_lowrank": lambda: torch.svd_lowrank(G, q=6),
        "iteration": gradient,
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin, count = time.process_time(), 0
            while time.process_time() - begin < 0.02 or count == 0:
                call()
                count += 1
            samples[name].append((time.process_time() - begin) / count)
    targets: dict[str, float | None] = {"iteration": 0.05}
    targets["svd_lowrank"] = 0.2 if min(d, m) >= 1000 else None
    return compare(f"oracle at {d} x {m}", samples, targets, 1e3, "ms")


CASES = [Case("oracle", "one warm power iteration, float32", run)]
