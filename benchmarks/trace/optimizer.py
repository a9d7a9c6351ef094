"""python -m benchmarks.trace.optimizer: a step on a 1000 × 1000 weight beside torch's optimizers.

Trace norm with vertices of rank 1 against AdamW, spectral norm against Muon, with their defaults
otherwise; fused AdamW and a Newton-Schulz iteration of Muon's length in float32 are shown without a
target. A sample of the trace norm is 1000 steps, so that it includes the decomposition that checks
the rounding. Our steps are in machine code from the first one; see `fwnet.optim.fused`.

Muon's bfloat16 products use what the processor has; some sandboxes announce AMX tiles and refuse
them, and then ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 makes it run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import torch
from torch import nn

import fwnet
from benchmarks.harness import Missing, Row, compare, interleave
from benchmarks.report import table
from fwnet.optim import FrankWolfe
from fwnet.optim.fused import WORTH

SIDE = 1000
Step = Callable[[], object]


def weight() -> nn.Parameter:
    """A weight with a gradient, both the same every time."""
    generator = torch.Generator().manual_seed(0)
    w = nn.Parameter(1e-3 * torch.randn(SIDE, SIDE, generator=generator))
    w.grad = torch.randn(SIDE, SIDE, generator=generator)
    return w


def many(step: Step, count: int) -> Step:
    """`count` steps as one call."""

    def run() -> None:
        for _ in range(count):
            step()

    return run


def in_machine_code(opt: FrankWolfe, pays: bool = True) -> FrankWolfe:
    """The optimizer as it is once machine code pays, which takes some thousand steps; or never."""
    opt.load_state_dict(opt.state_dict() | {"seconds_lost": WORTH if pays else -math.inf})
    return opt


def muon() -> Step | Missing:
    """A step of torch.optim.Muon, if this torch and this processor have it."""
    if not hasattr(torch.optim, "Muon"):
        return Missing("this torch has no Muon")
    step: Callable[[], object] = torch.optim.Muon([weight()]).step
    try:
        step()
    except RuntimeError as error:
        return Missing(f"Muon fails here ({error}); set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16")
    return step


def five_quintic_steps() -> Step:
    """What Muon's five Newton-Schulz steps cost in float32: only the products."""
    x = torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / SIDE

    def run() -> None:
        y = x
        for _ in range(5):
            gram = y @ y.T
            y = torch.addmm(y, torch.addmm(gram, gram, gram), y)

    return run


def trace_norm(repeats: int) -> list[Row]:
    """Rank-1 vertices by warm-started power iteration against AdamW."""
    count, oracle = SIDE, fwnet.PowerIteration(1)
    rank1 = FrankWolfe([weight()], domain=fwnet.TraceNormBall(1e3), oracle=oracle)
    contenders = {
        "fwnet": many(in_machine_code(rank1).step, count),
        "AdamW": many(torch.optim.AdamW([weight()]).step, count),
        "AdamW, fused": many(torch.optim.AdamW([weight()], fused=True).step, count),
    }
    samples = interleave(contenders, repeats, units=count)
    targets = {"AdamW": 1.0, "AdamW, fused": 1.0}
    return compare("trace norm, a step at 1000 x 1000", samples, targets, 1e3, "ms")


def spectral(repeats: int) -> list[Row]:
    """Certified Newton-Schulz vertices against Muon."""
    spectral = FrankWolfe([weight()], domain=fwnet.SpectralBall(10.0))
    contenders = {
        "fwnet": in_machine_code(spectral).step,
        "Muon": muon(),
        "5 quintic steps, float32": five_quintic_steps(),
    }
    samples = interleave(contenders, repeats)
    targets = {"Muon": 0.5, "5 quintic steps, float32": None}
    return compare("spectral norm, a step at 1000 x 1000", samples, targets, 1e3, "ms")


def main(repeats: int = 5) -> list[Row]:
    """Measure, print the table, return its rows."""
    torch.set_num_threads(1)
    rows = trace_norm(repeats) + spectral(repeats)
    print(table(rows))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    main(parser.parse_args().repeats)
