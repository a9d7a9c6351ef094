"""Forward and backward of SimplexQP against other layers: ratios of median CPU times, one thread.

    python -m benchmarks.layers [--sizes 32 100 500] [--repeats 5] [--data svm wishart]

Runs are interleaved: each round times every layer on the same fresh data, so that a busy machine
slows all of them; up to n = 100 a round is five calls in a row, as in training. A peer that needs
more than `--patience` seconds is timed once. cvxpylayers, the slowest at n = 32 and 100, is left
out at n = 500.
"""

from __future__ import annotations

import os

os.environ.setdefault("RAYON_NUM_THREADS", "1")

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.layers.peers import PEERS
from fwnet.layers.simplex_qp import SimplexQP
from fwnet.quadratic.solve import simplex_qp

TARGETS = {32: (0.5, 0.2), 100: (0.7, 0.1), 500: (1.0, 0.03)}


def features(batch: int, n: int, d: int, generator: torch.Generator) -> Tensor:
    """Signed points of two overlapping classes, with a bias: d columns."""
    y = torch.randn(batch, n, 1, generator=generator, dtype=torch.float64).sign()
    x = torch.randn(batch, n, d - 1, generator=generator, dtype=torch.float64)
    x = (x + 0.5 * y / (d - 1) ** 0.5) / (d - 1) ** 0.5
    return y * torch.cat((x, torch.ones_like(y)), -1)


def svm(batch: int, n: int, generator: torch.Generator) -> Tensor:
    Z = features(batch, n, 16, generator)
    return Z @ Z.mT + torch.eye(n, dtype=torch.float64)


def rbf(batch: int, n: int, generator: torch.Generator) -> Tensor:
    """C = 100, three-dimensional points: about two thirds are support vectors."""
    x = torch.randn(batch, n, 3, generator=generator, dtype=torch.float64)
    y = torch.randn(batch, n, 1, generator=generator, dtype=torch.float64).sign()
    K = torch.exp(-torch.cdist(x, x).square()) + 1
    return y * (K + K.mT) / 2 * y.mT + 0.01 * torch.eye(n, dtype=torch.float64)


def wishart(batch: int, n: int, generator: torch.Generator) -> Tensor:
    A = torch.randn(batch, n, n, generator=generator, dtype=torch.float64)
    return A @ A.mT / n + 1e-3 * torch.eye(n, dtype=torch.float64)


DATA = {"svm": svm, "rbf": rbf, "wishart": wishart}


def timed(layer: Callable[[Tensor], Tensor], data: Tensor, weight: Tensor) -> tuple[float, Tensor]:
    """CPU seconds of one forward and backward, and the solution."""
    calls = 5 if data.shape[1] <= 100 else 1
    copies = [data.clone().requires_grad_() for _ in range(calls)]
    before = time.process_time()
    for copy in copies:
        x = layer(copy)
        (x * weight).sum().backward()
    return (time.process_time() - before) / calls, x.detach()


def gap(K: Tensor, x: Tensor) -> float:
    g = (K @ x.unsqueeze(-1)).squeeze(-1)
    return float(((g * x).sum(-1) - g.amin(-1)).abs().div((g * x).sum(-1)).max())


def compare(n: int, kind: str, args: argparse.Namespace) -> None:
    batch, generator = args.batch, torch.Generator().manual_seed(n)
    weight = torch.randn(batch, n, generator=generator, dtype=torch.float64)
    layer = SimplexQP()
    ours: dict[str, Callable[[Tensor], Tensor]] = {"fwnet": layer}
    if kind == "features":
        ours["fwnet"] = lambda Z: layer(features=Z, diagonal=1.0)
        eye = torch.eye(n, dtype=torch.float64)

        def dense(peer: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
            return lambda Z: peer(Z @ Z.mT + eye)
    else:

        def dense(peer: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
            return peer

    chosen = [p for p in args.peers if not (p == "cvxpylayers" and n >= 500)]
    runs = ours | {name: dense(PEERS[name](batch, n)) for name in chosen}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    gaps: dict[str, float] = dict.fromkeys(runs, 0.0)
    for turn in range(args.repeats + 1):
        if kind == "features":
            data = features(batch, n, 16, generator)
            K = data @ data.mT + torch.eye(n, dtype=torch.float64)
        else:
            data = K = DATA[kind](batch, n, generator)
        for name, run in runs.items():
            slow = seconds[name] and seconds[name][0] > args.patience
            if turn > 1 and slow:
                continue
            took, x = timed(run, data, weight)
            seconds[name].append(took)
            gaps[name] = max(gaps[name], gap(K, x))
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    best = min(chosen, key=lambda name: medians[name])
    ratio = medians["fwnet"] / medians[best]
    target = TARGETS.get(n, (1.0, 1.0))[kind == "features"]
    listing = "  ".join(f"{k} {1e3 * v:.1f} ms (gap {gaps[k]:.0e})" for k, v in medians.items())
    print(f"{kind:9s} n={n:4d}  {ratio:.3f}x {best} (target {target})  {listing}", flush=True)


def single(n: int) -> None:
    """Median CPU time of one exact solve of a small random problem, as a corrective step asks."""
    K = wishart(500, n, torch.Generator().manual_seed(n))
    seconds = []
    for Q in K:
        before = time.process_time()
        simplex_qp(Q)
        seconds.append(time.process_time() - before)
    print(f"simplex_qp, one problem, n={n}: {1e6 * statistics.median(seconds):.0f} µs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 100, 500])
    parser.add_argument("--data", nargs="+", default=["svm", "rbf", "wishart", "features"])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=3.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for n in (4, 8, 16):
        single(n)
    for n in args.sizes:
        for kind in args.data:
            compare(n, kind, args)


if __name__ == "__main__":
    main()
