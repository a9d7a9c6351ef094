"""The time of a step beside its bound: the bytes that it must read, at the speed of one pass.

A is 200 x 50,000 in float64, 80 MB, which no cache keeps. A step of least squares reads it once,
for the gradient Aᵀr; a second-order pairwise step once more, for the row of AᵀA of its vertex.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import fwnet
from benchmarks.harness import Case, Row, compare, interleave

M, N, STEPS = 200, 50_000, 20
SIDE = 500  # of a matrix variable
SOLVERS: dict[
    str, tuple[Callable[..., Any], int]
] = {  # solver over a polytope, and passes over A of a step
    "FrankWolfe": (partial(fwnet.FrankWolfe, rule=fwnet.LineSearch()), 1),
    "AwayFrankWolfe": (fwnet.AwayFrankWolfe, 1),
    "PairwiseFrankWolfe": (fwnet.PairwiseFrankWolfe, 1),
    "PairwiseFrankWolfe, second order": (partial(fwnet.PairwiseFrankWolfe, second_order=True), 2),
    "BlendedPairwise": (fwnet.BlendedPairwise, 1),
    "Corrective": (fwnet.Corrective, 1),
}
ORACLES = {  # domain, shape of its points, reads of the cost
    "Simplex": (fwnet.Simplex(), (N,), 1),
    "L1Ball": (fwnet.L1Ball(1.0), (N,), 1),
    "L2Ball": (fwnet.L2Ball(1.0), (N,), 2),
    "Box": (fwnet.Box(0.0, 1.0), (N,), 1),
    "KSparseBall": (fwnet.KSparseBall(10), (N,), 1),
    "TraceNormBall": (fwnet.TraceNormBall(1.0), (SIDE, SIDE), 2),
    "SpectralBall": (fwnet.SpectralBall(1.0), (SIDE, SIDE), 1),
    "Birkhoff": (fwnet.Birkhoff(64), (64, 64), 1),
}


def run(repeats: int) -> list[Row]:
    """Steps per pass over A, then vertices per read of the cost."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(M, N, dtype=torch.float64, generator=generator)
    b = A[:, :50].mean(1) + 0.1 * torch.randn(M, dtype=torch.float64, generator=generator)
    problem, r = fwnet.LeastSquares(A, b), torch.randn(M, dtype=torch.float64, generator=generator)
    start = torch.zeros(N, dtype=torch.float64)
    start[0] = 1.0
    rows = []
    for what, (make, passes) in SOLVERS.items():
        solver = make(fwnet.Simplex(), max_steps=STEPS, tol=0.0, compiled=False)

        def bound(passes: int = passes) -> None:
            for _ in range(STEPS * passes):
                torch.mv(A.T, r)

        ours = partial(solver, problem, start)
        times = interleave({"fwnet": ours, "bound": bound}, repeats, STEPS)
        rows += compare(what, times, {"bound": None}, 1e3, "ms")
    for what, (domain, shape, reads) in ORACLES.items():
        cost = torch.randn(shape, dtype=torch.float64, generator=generator)

        def read(cost: torch.Tensor = cost, reads: int = reads) -> None:
            for _ in range(STEPS * reads):
                cost.sum()

        def vertices(domain: fwnet.Domain = domain, cost: torch.Tensor = cost) -> None:
            for _ in range(STEPS):
                domain.vertex(cost)

        times = interleave({"fwnet": vertices, "bound": read}, repeats, STEPS)
        rows += compare(f"vertex of {what}", times, {"bound": None}, 1e3, "ms")
    return rows


CASE = Case("costs", f"a step beside its bound, A {M} x {N}, float64", run)
