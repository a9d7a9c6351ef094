"""One Frank-Wolfe iteration, n = 50k, d = 2000, m = 1000: cost, memory traffic, peak memory.

The dense one forms logits XW, the gradient Xᵀ(P − Y)/n and its SVD; with a line search also the
image of the vertex and eight losses along the segment. All of it in processor time.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from benchmarks.harness import OURS, Case, Row, compare, figure
from benchmarks.trace.data import D, M, N, softmax, thousand_classes
from fwnet.low_rank import Factors
from fwnet.low_rank.rank_one import RankOneFrankWolfe


def run(repeats: int) -> list[Row]:
    X, y, radius = thousand_classes()
    start = Factors.zero(D, M, torch.float32)
    ours = RankOneFrankWolfe(softmax(X, y, M), radius, start, torch.Generator().manual_seed(0))
    W = 0.01 * torch.randn(D, M)
    dense, searched = [], []
    for _ in range(min(2, repeats)):
        plain, with_search = dense_iteration(X, y, W, radius)
        dense.append(plain)
        searched.append(with_search)

    def traffic() -> None:
        X.sum(), X.sum(), ours.logits.mul_(1.0)

    steps, bare, bounds = [], [], []
    ours.step()
    for _ in range(3 * repeats):
        steps.append(seconds(ours.step))
        bounds.append(seconds(traffic))
        bare.append(seconds(lambda: ours.find_vertex()))
        ours.length = 0.0
    rows = compare(
        "iteration without line search",
        {OURS: paired(bare, dense), "dense gradient + SVD": dense},
        {"dense gradient + SVD": 1 / 25},
        1.0,
        "s",
    )
    rows += compare(
        "iteration with line search",
        {OURS: paired(steps, dense), "dense with line search": searched},
        {"dense with line search": 1 / 40},
        1.0,
        "s",
    )
    label = "2 reads of X, read and write of logits"
    rows += compare("iteration", {OURS: steps, label: bounds}, {label: 2.5}, 1.0, "s")
    return rows + memory()


def paired(ours: list[float], theirs: list[float]) -> list[float]:
    """Our median, once for each of the few samples of a slow peer."""
    return [statistics.median(ours)] * len(theirs)


def dense_iteration(
    X: torch.Tensor, y: torch.Tensor, W: torch.Tensor, radius: float
) -> tuple[float, float]:
    """Seconds without and with a line search."""
    begin = time.process_time()
    Z = X @ W
    P = torch.softmax(Z, -1)
    P[torch.arange(len(y)), y] -= 1.0
    G = X.mT @ P / len(y)
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    vertex = -radius * torch.outer(U[:, 0], Vh[0])
    middle = time.process_time()
    move = X @ vertex - Z
    for step in torch.linspace(0.1, 0.8, 8):
        cross_entropy(Z + step * move, y)
    return middle - begin, time.process_time() - begin


def seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


MEMORY = """
import torch
from benchmarks.trace.data import M, softmax, thousand_classes
from fwnet.low_rank import Budget, solve
def status(name):
    return int(open("/proc/self/status").read().split(name + ":")[1].split()[0]) * 1024
torch.randn(64, 64) @ torch.randn(64, 64)
before = status("VmRSS")
X, y, radius = thousand_classes()
solve(softmax(X, y, M), radius, budget=Budget(max_steps=8))
print(status("VmHWM") - before)
"""


def memory() -> list[Row]:
    """Peak memory of the default solver over that of X and one set of logits, in a process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment
    )
    ratio = int(out.stdout) / (4 * N * (D + M))
    return [figure("peak memory / (X + logits)", [ratio], "", 2.0, "default solver, 8 steps")]


CASES = [Case("iteration", "one iteration, 50k x 2000, 1000 classes, float32, one thread", run)]
