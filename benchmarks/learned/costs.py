"""What a controller costs: a step at n = 1000, loading, the file."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch

import fwnet
from benchmarks.learned.bars import Bar
from fwnet import learned
from fwnet.solvers import Corrective, FrankWolfe, PairwiseFrankWolfe

SHIPPED = Path(learned.__file__).parent / "shipped"


def costs(rounds: int = 7) -> list[Bar]:
    """A step of the solver with the controller, less the same step with hand-designed slots."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1000, 100, generator=generator)
    problem = fwnet.Quadratic(A @ A.mT / 1000 + 0.1 * torch.eye(1000))
    rows = []
    for name in learned.available():
        began = time.perf_counter()
        controller = learned.load(name)
        loading = [time.perf_counter() - began]
        for _ in range(rounds):
            began = time.perf_counter()
            learned.load(name)
            loading.append(time.perf_counter() - began)
        size = (SHIPPED / f"{name}.fwnet").stat().st_size
        rows.append(Bar(f"load {name}", 1e3 * statistics.median(loading), "ms", most=50.0))
        rows.append(Bar(f"size {name}", size / 1e3, "kB", most=200.0))
        plain = _plain(controller)
        if plain is None:
            continue
        mine = controller.solver(fwnet.Simplex(), max_steps=40, tol=0.0)
        extra = []
        for _ in range(rounds):
            theirs, ours = _step(plain, problem), _step(mine, problem)
            extra.append(1e6 * (ours - theirs))
        rows.append(Bar(f"step of {name}, n=1000", statistics.median(extra), "µs", most=100.0))
    return rows


def _plain(controller: learned.Controller) -> FrankWolfe | None:
    """The solver with the hand-designed slot in the controller's place."""
    simplex = fwnet.Simplex()
    if isinstance(controller, learned.LearnedDirection | learned.LearnedAtoms):
        memory = controller.options["memory"]
        return Corrective(simplex, memory=memory, max_steps=40, tol=0.0)
    if isinstance(controller, learned.LearnedPairwise):
        return PairwiseFrankWolfe(simplex, second_order=True, max_steps=40, tol=0.0)
    if isinstance(controller, learned.LearnedStep):
        return FrankWolfe(simplex, max_steps=40, tol=0.0)
    return None


def _step(solver: FrankWolfe, problem: fwnet.Quadratic) -> float:
    began = time.process_time()
    result = solver(problem)
    return (time.process_time() - began) / max(1, len(result.trace) - 1)
