"""What a controller costs: a step at n = 1000, loading, the file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import fwnet
from benchmarks.harness import seconds
from benchmarks.learned.targets import Target
from fwnet import learned
from fwnet.directions import Corrections, Exchanges, ProjectedStep, corrective
from fwnet.learned.controllers import direction
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe

SHIPPED = Path(learned.__file__).parent / "shipped"
STEPS = 20
# What each controller calls to choose: features, network, point or step size.
CHOICES: dict[str, tuple[type, str]] = {
    "corrective-atoms": (learned.LearnedAtoms, "_atom"),
    "pairwise": (learned.LearnedPairwise, "forward"),
    "simplex-qp": (direction.LearnedPoint, "_proposed"),
    "simplex-step": (learned.LearnedStep, "forward"),
}


def costs(rounds: int = 101) -> list[Target]:
    """Loading and size of each file, and what a step at n = 1000 costs; see `_step_rows`."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1000, 100, generator=generator, dtype=torch.float64)
    problem = fwnet.Quadratic(A @ A.mT / 100 + 0.1 * torch.eye(1000, dtype=A.dtype))
    rows = []
    for name in learned.available():
        loading = [seconds(partial(learned.load, name)) for _ in range(rounds)]
        size = (SHIPPED / f"{name}.fwnet").stat().st_size
        rows.append(Target(f"load {name}", 1e3 * statistics.median(loading), "ms", most=50.0))
        rows.append(Target(f"size {name}", size / 1e3, "kB", most=200.0))
        if name in CHOICES:
            rows += _step_rows(name, problem, rounds)
    return rows


def _step_rows(name: str, problem: fwnet.Quadratic, rounds: int) -> list[Target]:
    """Processor time of a step: the controller's own calls, and what it adds; one target for each.

    "own calls": those that see the features and answer with a point or a step size; the curvature
    that a line search would ask for too is among them. "added": a step of the controller's solver
    less the same step with hand-designed slots: the same hull for those that search one, 2/(t + 2)
    for `simplex-step`. The note has the whole step, and the small quadratic programme over the
    hull, which both solvers solve. Steps before convergence: a programme of rounding takes as long
    as it likes.
    """
    controller = learned.load(name)
    mine, plain = controller.solver(fwnet.Simplex(), max_steps=STEPS, tol=0.0), _plain(controller)
    mine(problem)  # compiles, where there is something to compile
    ours, theirs, chosen, programme = [], [], [], []
    for _ in range(rounds):  # interleaved: all see the same machine
        ours.append(seconds(lambda: mine(problem)))
        theirs.append(seconds(lambda: plain(problem)))
        with _clock(*CHOICES[name]) as spent, _clock(corrective, "quadratic_weights") as small:
            mine(problem)
        chosen.append(sum(spent))
        programme.append(sum(small))
    # The least of many: what else runs on the machine can only make a step longer.
    step, hand, own, qp = (1e6 * min(t) / STEPS for t in (ours, theirs, chosen, programme))
    note = f"a step takes {step:.0f} µs, with the hand-designed slot {hand:.0f} µs"
    note += f"; of it {qp:.0f} µs are the small programme" if qp else ""
    return [
        Target(f"step of {name}, n=1000, added", step - hand, "µs", most=100.0, note=note),
        Target(f"step of {name}, n=1000, own calls", own, "µs", most=100.0),
    ]


def _plain(controller: learned.Controller) -> FrankWolfe:
    """The solver with the hand-designed slots in the controller's place."""
    simplex = fwnet.Simplex()
    if isinstance(controller, learned.LearnedDirection | learned.LearnedAtoms):
        memory, columns = controller.options["memory"], controller.options["exchanges"]
        others = [Exchanges(columns)] if columns else []
        hull = Corrections(memory, [ProjectedStep(), *others])
        return FrankWolfe(simplex, direction=hull, max_steps=STEPS, tol=0.0)
    if isinstance(controller, learned.LearnedPairwise):
        return PairwiseFrankWolfe(simplex, second_order=True, max_steps=STEPS, tol=0.0)
    return FrankWolfe(simplex, max_steps=STEPS, tol=0.0)


@contextmanager
def _clock(owner: Any, name: str) -> Iterator[list[float]]:
    """The processor time of each call of a function while the context lasts."""
    spent: list[float] = []
    called = getattr(owner, name)

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        answer = called(*arguments)
        spent.append(time.process_time() - began)
        return answer

    with patch.object(owner, name, timed):
        yield spent
