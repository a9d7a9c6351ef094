"""1000 classes, radius 0.3 ‖W*‖_*: when does the default solver reach what FISTA has after 16 s?

Processor time. The default solver is deterministic: its loss after k steps is that of a run with
max_steps = k, its time that of the k-th record of one long run. Its memory is that of a process.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy

from benchmarks.harness import OURS, Case, Row, compare, figure, require
from benchmarks.trace.data import D, M, N, softmax, thousand_classes
from fwnet import TraceNormBall
from fwnet.estimators.low_rank.solve import solve
from fwnet.low_rank import Budget, Factors

SECONDS, FISTA = 16.0, "FISTA + full SVD"


def run(repeats: int) -> list[Row]:
    X, y, radius = thousand_classes()
    problem = softmax(X, y, M)
    clock: list[float] = []
    begin = time.process_time()
    found = solve(
        problem,
        radius,
        budget=Budget(tol=5e-2),
        on_step=lambda record: clock.append(time.process_time() - begin),
    )
    total = time.process_time() - begin
    W = Factors.of_result(found)
    norm = float(torch.linalg.svdvals(W.dense().double()).sum())
    require(norm <= radius * (1 + 1e-6), f"‖W‖_* = {norm} exceeds {radius}.")
    losses = []
    for steps in (1, 2, 3, 4):  # the passes of minibatches
        part = solve(problem, radius, budget=Budget(tol=5e-2, max_steps=steps))
        inside = float(Factors.of_result(part).s.double().sum())
        require(inside <= radius * (1 + 1e-6), f"‖W‖_* = {inside} exceeds {radius}.")
        losses.append(float(part.value))
    loss = fista_loss(X, y, radius)
    pairs = zip(clock, losses, strict=False)
    when, ours = next((pair for pair in pairs if pair[1] <= loss), (float("inf"), losses[-1]))
    samples = {OURS: [when], FISTA: [SECONDS]}
    (row,) = compare("time to the peer's loss", samples, {FISTA: 1 / 10}, 1.0, "s")
    rows = [replace(row, note=f"its loss after {SECONDS:g} s: {loss:.3f}; ours then: {ours:.3f}")]
    gap = float(found.gap / found.value)
    note = f"loss {found.value:.4f}, rank {W.rank}, ‖W‖_*/radius = {norm / radius:.8f}"
    rows.append(figure("seconds to the certified gap", [total], "s", 60.0, note))
    rows.append(figure("certified gap / loss", [gap], "", 5e-2))
    return [*rows, memory()]


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


def memory() -> Row:
    """Peak memory of the default solver over that of X and one set of logits, in a process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment
    )
    ratio = int(out.stdout) / (4 * N * (D + M))
    return figure("peak memory / (X + logits)", [ratio], "", 2.0, "default solver, 8 steps")


def fista_loss(X: torch.Tensor, y: torch.Tensor, radius: float) -> float:
    """The best loss of three step lengths, multiples of 1 / (σ₁(X)²/(2n))."""
    safe = 2 * 4000 / float(torch.linalg.matrix_norm(X[:4000], 2)) ** 2
    return min(fista(X, y, radius, factor * safe) for factor in (4.0, 16.0, 64.0))


def fista(X: torch.Tensor, y: torch.Tensor, radius: float, length: float) -> float:
    """The loss of the last W that FISTA begins in time."""
    ball, n = TraceNormBall(radius), len(y)
    W = last = torch.zeros(D, M)
    t, begin = 1.0, time.process_time()
    while time.process_time() - begin < SECONDS:
        following = (1 + (1 + 4 * t * t) ** 0.5) / 2
        Y = W + (t - 1) / following * (W - last)
        P = torch.softmax(X @ Y, -1)
        P[torch.arange(n), y] -= 1.0
        last, W, t = W, ball.project(Y - length / n * (X.mT @ P)), following
    return float(cross_entropy(X @ W, y))


CASES = [Case("race", "1000 classes: time to FISTA's loss, and to a certified gap", run)]
