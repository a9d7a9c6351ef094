"""Which step rule suits plain Frank-Wolfe, and how much does it matter compared with the direction?

    min ½ |Ax − b|²  over the l1 ball,   A 500 × 200,   the solution on the boundary

Every rule on one problem, first toward the vertex, then along pairwise steps: the gaps after 100
and 1000 steps (or at 1e-10), and what a plain step costs, as a multiple of the first rule's.

See: with plain steps the rules differ by small factors, and none beats the 1/t rate; with pairwise
steps the rules that evaluate f reach about 1e-7 or less, line search first, and a fixed schedule is
the wrong choice.
"""

from collections.abc import Callable
from typing import Any

import torch

import fwnet
from fwnet.show.scripts import costs, options, plot_gaps, table

RULES: dict[str, fwnet.StepRule | Callable[[int], float]] = {
    "OpenLoop(): 2/(t + 2)": fwnet.OpenLoop(),
    "LogOpenLoop()": fwnet.LogOpenLoop(),
    "Constant(0.05)": fwnet.Constant(0.05),
    "lambda t: 1 / (t + 1)": lambda t: 1 / (t + 1),
    "LineSearch()": fwnet.LineSearch(),
    "OverRelaxed(1.5)": fwnet.OverRelaxed(1.5),
    "ShortStep()": fwnet.ShortStep(),
    "Backtracking()": fwnet.Backtracking(),
    "Armijo()": fwnet.Armijo(),
    "Monotonic()": fwnet.Monotonic(),
}
DRAWN = {  # the variants of which the figure shows each rule
    "OpenLoop(): 2/(t + 2)": ("pairwise",),
    "LineSearch()": ("plain", "pairwise"),
    "ShortStep()": ("pairwise",),
    "Backtracking()": ("pairwise",),
}


def main() -> None:
    arguments = options(__doc__)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(500, 200, generator=generator, dtype=torch.float64) / 500**0.5
    truth = torch.zeros(200, dtype=torch.float64)
    truth[:20] = torch.randn(20, generator=generator, dtype=torch.float64)
    b = A @ truth + 0.05 * torch.randn(500, generator=generator, dtype=torch.float64)
    problem = fwnet.LeastSquares(A, b)
    ball = fwnet.L1Ball(0.9 * float(truth.abs().sum()))
    rows: list[tuple[object, ...]] = []
    results: dict[str, fwnet.Result] = {}
    # Not every rule has machine code, so the costs are those of the plain loop.
    budget: dict[str, Any] = {"max_steps": 200, "tol": 0.0, "compiled": False}
    short = {
        name: lambda r=rule: fwnet.FrankWolfe(ball, r, **budget)(problem)
        for name, rule in RULES.items()
    }
    steps, rounds = (300, 1) if arguments.quick else (1000, 5)
    cost = costs(short, rounds)
    for name, rule in RULES.items():
        gaps: list[float] = []
        solvers = {"plain": fwnet.FrankWolfe, "pairwise": fwnet.PairwiseFrankWolfe}
        for steps_are, variant in solvers.items():
            result = variant(ball, rule, max_steps=steps, tol=1e-10)(problem)
            gaps += [float(result.trace.column("gap")[100]), float(result.gap)]
            if steps_are in DRAWN.get(name, ()):
                results[f"{steps_are}, {name}"] = result
        rows.append((name, *gaps, cost[name]))
    table(("rule", "plain 100", str(steps), "pairwise 100", str(steps), "cost"), rows)
    plot_gaps(results, arguments.plot, "least squares on the l1 ball")


if __name__ == "__main__":
    main()
