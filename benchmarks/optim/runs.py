"""One training, as a row of plain numbers, and the file that keeps the rows."""

from __future__ import annotations

import json
import math
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.optim.methods import Method
from benchmarks.optim.problems import Problem
from benchmarks.optim_defaults import effective_rank, fullest
from fwnet.optim import FrankWolfe

EVALUATIONS, FEW = 25, 300  # losses along the way, and the rows that they are computed on
Row = dict[str, Any]


class OutOfTime(Exception):
    """The minutes of this run are over; another run continues."""


class Results:
    """Rows in a file of JSON lines; what is known is not run again.

    Arguments:
        path: of the file.
        minutes: by the clock, after which no training begins.
    """

    def __init__(self, path: Path, minutes: float = math.inf) -> None:
        self.path, self.end = path, time.monotonic() + 60 * minutes
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[Row] = [json.loads(line) for line in lines if line.strip()]

    def get(self, problem: Problem, method: Method, lr: float, seed: int, part: str) -> Row:
        key = {"problem": problem.name, "method": method.name, "lr": lr, "seed": seed, "on": part}
        for row in self.rows:
            if all(row[name] == value for name, value in key.items()):
                return row
        if time.monotonic() > self.end:
            raise OutOfTime
        row = key | train(problem, method, lr, seed, part)
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return row


def train(problem: Problem, method: Method, lr: float, seed: int, part: str) -> Row:
    """Losses along the way on "validation" or "test" rows, and what the last weights reach."""
    (X, y), validation, test = problem.data(seed)
    shown = validation if part == "validation" else test
    net = problem.network(seed)
    opts = method.build(net, lr)
    order = torch.Generator().manual_seed(seed)
    every = problem.steps // EVALUATIONS
    seconds, worst = 0.0, 0.0
    curve: list[tuple[int, float, float]] = []  # step, seconds, loss
    loss, accuracy = 0.0, 0.0
    for t in range(1, problem.steps + 1):
        rows = torch.randint(len(X), (problem.batch,), generator=order)
        begin = time.process_time()
        for opt in opts:
            opt.zero_grad()
        cross_entropy(net(X[rows]), y[rows]).backward()
        for opt in opts:
            opt.step()
        seconds += time.process_time() - begin
        if t % every == 0 or t == problem.steps:
            worst = max(worst, *(norm_over_radius(opt) for opt in opts))
            with averages(opts, method):
                few, _ = score(net, shown[0][:FEW], shown[1][:FEW])
                if t == problem.steps:
                    loss, accuracy = score(net, *shown)
            curve.append((t, round(seconds, 4), round(few, 5)))
    matrices = [p.detach().flatten(1) for p in net.parameters() if p.ndim > 1]
    largest = max(matrices, key=lambda m: min(m.shape))
    return {
        "accuracy": accuracy,
        "loss": loss,
        "seconds": seconds,
        "worst": worst,
        "rank": effective_rank(largest),
        "curve": curve,
    }


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())


@torch.no_grad()
def score(net: nn.Module, X: Tensor, y: Tensor) -> tuple[float, float]:
    logits = torch.cat([net(block) for block in X.split(500)])
    right = (logits.argmax(-1) == y).double().mean()
    return float(cross_entropy(logits, y)), float(right)


def norm_over_radius(opt: torch.optim.Optimizer) -> float:
    """The fullest ball; 0 without one."""
    if not isinstance(opt, FrankWolfe) or all(g["domain"] is None for g in opt.param_groups):
        return 0.0
    return fullest(opt)


def averages(opts: list[torch.optim.Optimizer], method: Method) -> AbstractContextManager[Any]:
    if not method.averaged:
        return nullcontext()
    stack = ExitStack()
    for opt in opts:
        assert isinstance(opt, FrankWolfe)
        stack.enter_context(opt.averaged())
    return stack
