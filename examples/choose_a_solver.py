"""Which solver reaches a gap of 1e-6 on the simplex, in how many steps and seconds?

    min ½ |Ax − b|²  over the simplex,   A 200 × 2000

Costs are multiples of plain Frank-Wolfe's: of a step, and of all of its 1000 steps; medians of
five interleaved rounds.

See: plain Frank-Wolfe, lazy or not, is cheap per step and does not get there; away and pairwise
steps converge linearly; corrective runs take a tenth of the steps of pairwise ones, each several
times as expensive; machine code (`compiled=True`, if Numba is installed) removes the call overhead.
Stochastic and block-coordinate runs are for problems whose full gradient is too expensive, unlike
this one (the block run splits the simplex into two halves of mass ½: another optimum).
"""

from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

import fwnet
from fwnet.show.scripts import costs, options, plot_gaps, table

ROWS, N, TOL = 200, 2000, 1e-6


def solvers(max_steps: int) -> dict[str, fwnet.FrankWolfe]:
    simplex, search = fwnet.Simplex(), fwnet.LineSearch()
    halves = fwnet.Product((fwnet.Simplex(0.5), fwnet.Simplex(0.5)), ((N // 2,), (N // 2,)))
    # By default ("auto") a long process changes to machine code: here both are rows of the table.
    budget: dict[str, Any] = {"max_steps": max_steps, "tol": TOL, "compiled": False}
    second = fwnet.PairwiseFrankWolfe(simplex, second_order=True, **budget)
    found = {
        "FrankWolfe, 2/(t + 2)": fwnet.FrankWolfe(simplex, **budget),
        "FrankWolfe, line search": fwnet.FrankWolfe(simplex, search, **budget),
        "LazyFrankWolfe": fwnet.LazyFrankWolfe(simplex, **budget),
        "AwayFrankWolfe": fwnet.AwayFrankWolfe(simplex, **budget),
        "PairwiseFrankWolfe": fwnet.PairwiseFrankWolfe(simplex, **budget),
        "PairwiseFrankWolfe, 2nd order": second,
        "BlendedPairwise": fwnet.BlendedPairwise(simplex, **budget),
        "Corrective": fwnet.Corrective(simplex, **budget),
        "StochasticFrankWolfe": fwnet.StochasticFrankWolfe(simplex, batch_size=20, **budget),
        "BlockCoordinate (two halves)": fwnet.BlockCoordinateFrankWolfe(halves, **budget),
    }
    if find_spec("numba"):
        budget["compiled"] = True
        found["FrankWolfe, line search, compiled"] = fwnet.FrankWolfe(simplex, search, **budget)
        found["PairwiseFrankWolfe, compiled"] = fwnet.PairwiseFrankWolfe(simplex, **budget)
    return found


def main() -> None:
    arguments = options(__doc__)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(ROWS, N, generator=generator, dtype=torch.float64) / ROWS**0.5
    truth = torch.zeros(N, dtype=torch.float64)
    truth[:30] = torch.rand(30, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    problem = fwnet.LeastSquares(A, A @ (truth / truth.sum()) + 0.05 * noise)
    steps, timed, rounds = (200, 50, 1) if arguments.quick else (1000, 200, 5)
    results = {name: solver(problem) for name, solver in solvers(steps).items()}
    cost = costs(
        {name: partial(solver, problem) for name, solver in solvers(timed).items()}, rounds
    )
    rows = []
    for name, result in results.items():
        used = int((result.x > 0).sum())
        whole = cost[name] * result.steps / steps
        row = (name, result.steps, float(result.gap), used, cost[name], whole, result.status)
        rows.append(row)
    table(("solver", "steps", "gap", "support", "cost a step", "in all", "status"), rows)
    hidden = ("compiled", "Lazy", "2nd order", "Block", "Stochastic", "2/(t + 2)")  # as others
    shown = {name: result for name, result in results.items() if not any(w in name for w in hidden)}
    plot_gaps(shown, arguments.plot, "least squares on the simplex")


if __name__ == "__main__":
    main()
