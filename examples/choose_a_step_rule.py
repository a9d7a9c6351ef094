"""Which step rule should plain Frank-Wolfe take, and what does it matter beside the direction?

    min ½ |Ax − b|²  over the l1 ball,   A 500 × 200,   the solution on the boundary

Every rule on one problem, first toward the vertex, then along pairwise steps. The gaps are those
after 100 and 1000 steps, the seconds those of 1000 steps.

See: among plain steps the rules differ by small factors, and none leaves the 1/t rate; along
pairwise steps the rules that look at f reach 1e-7 and below, line search first, and a blind
schedule is the wrong choice.
"""

import math

import torch

import fwnet
from show import options, plot_gaps, table, timed

RULES = {
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


def main() -> None:
    arguments = options(__doc__)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(500, 200, generator=generator, dtype=torch.float64) / 500**0.5
    truth = torch.zeros(200, dtype=torch.float64)
    truth[:20] = torch.randn(20, generator=generator, dtype=torch.float64)
    b = A @ truth + 0.05 * torch.randn(500, generator=generator, dtype=torch.float64)
    problem = fwnet.LeastSquares(A, b)
    ball = fwnet.L1Ball(0.9 * float(truth.abs().sum()))
    rows, results = [], {}
    for name, rule in RULES.items():
        row: list[object] = [name]
        for variant in (fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe):
            solver = variant(ball, rule, max_steps=1000, tol=1e-10)
            result, seconds = timed(lambda s=solver: s(problem))
            gaps = result.trace.column("gap")
            row += [float(gaps[100]) if len(gaps) > 100 else math.nan, float(result.gap), seconds]
            if variant is fwnet.FrankWolfe:
                results[name] = result
        rows.append(row)
    table(("rule", "100", "1000", "s", "pairwise 100", "1000", "s"), rows)
    plot_gaps(results, arguments.plot, "plain Frank-Wolfe on the l1 ball")


if __name__ == "__main__":
    main()
