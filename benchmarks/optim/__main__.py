"""python -m benchmarks.optim [--seeds 5] [--minutes M] [--out FILE] [--only NAME] [--methods A B].

Four networks: digits MLP, the paper's MNIST CNN, a small convolutional network on CIFAR-10, a
character GPT on Python's help topics. Every method tries four learning rates on validation data
with a seed of its own; the best one runs on test data with fresh seeds, and so does the method's
default rate, the column "no tuning". All methods of a seed share the initial network and the
minibatches.

Shrunk, so that a run takes an hour of one core: 4000 training images of MNIST and of CIFAR-10, four
epochs; a GPT of a million weights and 200 steps. MNIST and CIFAR-10 are read
from the folder FWNET_DATA and left out without it.

A run that was interrupted, or stopped after --minutes, continues: rows are kept in --out, one line
of JSON for each network, method, rate and seed. Muon's bfloat16 products need
ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 on some virtual machines; it is set unless it is already.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

from benchmarks.optim.methods import METHODS, Method
from benchmarks.optim.problems import PROBLEMS, Problem
from benchmarks.optim.runs import OutOfTime, Results, Row
from benchmarks.svm.data import folder

TUNING_SEED, SEEDS = 1000, 2000
OUT = Path(__file__).parents[1] / "results" / "optim.jsonl"


def tuned(results: Results, problem: Problem, method: Method) -> float:
    """The rate with the best accuracy on validation, of two alike the smaller loss."""
    runs = {lr: results.get(problem, method, lr, TUNING_SEED, "validation") for lr in method.rates}
    return max(runs, key=lambda lr: (runs[lr]["accuracy"], -runs[lr]["loss"]))


def reached(row: Row, goal: float) -> tuple[float, float] | None:
    """Steps and seconds until the loss was at most the goal."""
    return next(((t, s) for t, s, loss in row["curve"] if loss <= goal), None)


def line(name: str, runs: Sequence[Row], plain: Sequence[Row], baseline: Sequence[Row]) -> str:
    mean = statistics.mean(row["accuracy"] for row in runs)
    default = statistics.mean(row["accuracy"] for row in plain)
    worst = min(a["accuracy"] - b["accuracy"] for a, b in zip(plain, baseline, strict=True))
    pairs = [
        (reached(row, min(loss for _, _, loss in base["curve"])), base)
        for row, base in zip(runs, baseline, strict=True)
    ]
    best = [reached(base, min(loss for _, _, loss in base["curve"])) for base in baseline]
    steps = [p[0] / b[0] for (p, _), b in zip(pairs, best, strict=True) if p and b]
    seconds = [p[1] / b[1] for (p, _), b in zip(pairs, best, strict=True) if p and b]
    never = len(runs) - len(steps)
    ratio = f"{statistics.median(steps):.2f}  {statistics.median(seconds):.2f}" if steps else "-  -"
    return (
        f"  {name:21s} lr {runs[0]['lr']:<7g} {mean:.3f}  no tuning {default:.3f} "
        f"({100 * worst:+.1f} at worst)  steps, seconds to AdamW's loss {ratio}"
        f"{f' (never: {never})' if never else ''}  "
        f"norm/radius {max(r['worst'] for r in [*runs, *plain]):.4f}  "
        f"rank {statistics.median(r['rank'] for r in runs):.0f}"
    )


def compare(results: Results, problem: Problem, methods: Sequence[Method], seeds: int) -> None:
    sys.stdout.write(problem.name + "\n")
    baseline: list[Row] = []
    for method in methods:
        lr = tuned(results, problem, method)
        fresh = range(SEEDS, SEEDS + seeds)
        runs = [results.get(problem, method, lr, seed, "test") for seed in fresh]
        plain = [results.get(problem, method, method.default, seed, "test") for seed in fresh]
        baseline = baseline or runs
        sys.stdout.write(line(method.name, runs, plain, baseline) + "\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", default="", help="part of the name of a network")
    names = [method.name for method in METHODS]
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    options = parser.parse_args()
    chosen = [m for m in METHODS if m.name in options.methods or m is METHODS[0]]
    torch.set_num_threads(1)
    results = Results(options.out, options.minutes)
    try:
        for problem in PROBLEMS:
            if options.only in problem.name and (folder() is not None or not problem.needs_files):
                compare(results, problem, chosen, options.seeds)
    except OutOfTime:
        sys.stdout.write(f"out of time, {len(results.rows)} rows; the same command continues\n")


if __name__ == "__main__":
    main()
