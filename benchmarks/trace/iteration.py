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
from functools import partial

import numpy as np
import torch
from scipy import sparse
from torch.nn.functional import cross_entropy

from benchmarks.harness import OURS, Case, Row, compare, figure
from benchmarks.trace.data import D, M, N, softmax, thousand_classes
from benchmarks.trace.rank_one import RankOneFrankWolfe
from benchmarks.trace.sweeps import LogitMove, compiled_sweep, torch_sweep
from fwnet.low_rank import ArrayRows, Factors, RowProblem, SoftmaxLoss


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


def compiled_against_torch(repeats: int) -> list[Row]:
    """The pass over X and the logits that an iteration makes, by Numba and by torch."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for what, X, classes in (
        ("200,000 x 100, 10 classes", torch.randn(200_000, 100, generator=generator), 10),
        ("20,000 x 500, 100 classes", torch.randn(20_000, 500, generator=generator), 100),
        ("20,000 x 20,000, CSR, 60 a row, 1000 classes", text_like(20_000, 20_000, 60), 1000),
    ):
        n, d = X.shape
        y = torch.randint(classes, (n,), generator=generator)
        rows_of_x, loss = ArrayRows(X), SoftmaxLoss(y, classes, torch.ones(n))
        problem = RowProblem(rows_of_x, loss)
        Z = torch.randn(n, classes, generator=generator)
        move = LogitMove(1.0, torch.zeros(n), torch.randn(classes, generator=generator))
        u = torch.randn(d, generator=generator)
        compiled_sweep(rows_of_x, loss, Z, move, u)
        ours, theirs = [], []
        for _ in range(2 * repeats):
            ours.append(seconds(partial(compiled_sweep, rows_of_x, loss, Z, move, u)))
            theirs.append(seconds(partial(torch_sweep, problem, Z, move, u)))
        samples = {OURS: ours, "the same in torch": theirs}
        rows += compare(what, samples, {"the same in torch": None}, 1e3, "ms")
    return rows


def text_like(n: int, d: int, entries: int) -> sparse.csr_matrix:
    """Normal numbers at random places, about as many in each row."""
    generator = np.random.default_rng(0)
    places = generator.integers(d, size=n * entries)
    numbers = generator.standard_normal(n * entries).astype(np.float32)
    made = sparse.csr_matrix((numbers, places, np.arange(n + 1) * entries), shape=(n, d))
    made.sum_duplicates()
    return made


CASES = [
    Case("iteration", "one iteration, 50k x 2000, 1000 classes, float32, one thread", run),
    Case(
        "sweep",
        "one pass over X and the logits, compiled, float32, one thread",
        compiled_against_torch,
    ),
]
