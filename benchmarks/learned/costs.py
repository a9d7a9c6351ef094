"""What a controller costs: a step at n = 1000, loading, the file."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch

import fwnet
from benchmarks.learned.bars import Bar
from fwnet import learned
from fwnet.directions import Corrections, Exchanges, ProjectedStep
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe

SHIPPED = Path(learned.__file__).parent / "shipped"
STEPS = 20


def costs(rounds: int = 15) -> list[Bar]:
    """A step of the solver with the controller, less the same step with hand-designed slots.

    The same hull, and steps before convergence: a programme of rounding takes as long as it likes.
    """
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1000, 100, generator=generator, dtype=torch.float64)
    problem = fwnet.Quadratic(A @ A.mT / 100 + 0.1 * torch.eye(1000, dtype=A.dtype))
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
        mine = controller.solver(fwnet.Simplex(), max_steps=STEPS, tol=0.0)
        pairs = [(_step(mine, problem), _step(plain, problem)) for _ in range(rounds)]
        ours, theirs = (min(times) for times in zip(*pairs, strict=True))
        note = f"a step takes {ours:.0f} µs, with the hand-designed slot {theirs:.0f} µs"
        rows.append(Bar(f"step of {name}, n=1000", ours - theirs, "µs", most=100.0, note=note))
    return rows


def _plain(controller: learned.Controller) -> FrankWolfe | None:
    """The solver with the hand-designed slot in the controller's place."""
    simplex = fwnet.Simplex()
    if isinstance(controller, learned.LearnedDirection | learned.LearnedAtoms):
        memory, columns = controller.options["memory"], controller.options["exchanges"]
        others = [Exchanges(columns)] if columns else []
        hull = Corrections(memory, [ProjectedStep(), *others])
        return FrankWolfe(simplex, direction=hull, max_steps=STEPS, tol=0.0)
    if isinstance(controller, learned.LearnedPairwise):
        return PairwiseFrankWolfe(simplex, second_order=True, max_steps=STEPS, tol=0.0)
    if isinstance(controller, learned.LearnedStep):
        return FrankWolfe(simplex, max_steps=STEPS, tol=0.0)
    return None


def _step(solver: FrankWolfe, problem: fwnet.Quadratic) -> float:
    """Processor time of a step, in µs."""
    began = time.process_time()
    result = solver(problem)
    return 1e6 * (time.process_time() - began) / max(1, len(result.trace) - 1)
