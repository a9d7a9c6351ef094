"""How does the probability simplex behave as n grows, and what does a better direction save?

    min |x − p|²  over  {x >= 0, Σ x = radius}

FrankWolfe.jl shows three of these:

- n = 3, p = 0: its adaptive step needs 24 steps to a gap of 9.5e-8. Ours: 41 by `Backtracking`
  (the same idea), 2 by `LineSearch`.
- n = 10⁹, 2/(t + 2): a gap of 1.330e-2 after 200 steps and 2.665e-3 after 1000. The rate does not
  depend on n: at n = 10⁵ ours is 2.665e-3 after 1000 steps too.
- n = 1000, radius 2.5, short steps: a curve over 10,000 steps toward 1e-7. Plain steps are still
  above that after 2000; pairwise steps reach it, corrective ones in two steps.

See: plain steps have the same rate at every n; corrective steps do not depend on n at all.
"""

import torch

import fwnet
from fwnet.show.scripts import options, plot_gaps, table, timed


def distance_to(p: torch.Tensor) -> fwnet.LeastSquares:
    """|x − p|² = ½ |√2 x − √2 p|², the identity as two functions: no n × n matrix exists."""
    root, n = 2**0.5, p.shape[-1]
    scaled = fwnet.MatrixFree(lambda x: root * x, lambda z: root * z, (n, n), p.dtype)
    return fwnet.LeastSquares(scaled, root * p)


def corner(n: int, radius: float = 1.0) -> torch.Tensor:
    x0 = torch.zeros(n, dtype=torch.float64)
    x0[0] = radius
    return x0


def random_point(n: int) -> torch.Tensor:
    p = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return p / p.sum()


def main() -> None:
    arguments = options(__doc__)
    small, unit, wide = torch.zeros(3, dtype=torch.float64), fwnet.Simplex(), fwnet.Simplex(2.5)
    plain, search, short = fwnet.FrankWolfe, fwnet.LineSearch(), fwnet.ShortStep(2.0)
    steps = 200 if arguments.quick else 2000
    cases = [
        (3, "backtracking", plain(unit, fwnet.Backtracking(), tol=1e-7), small),
        (3, "line search", plain(unit, search, tol=1e-7), small),
        (1000, "2/(t + 2)", plain(unit, tol=1e-7), random_point(1000)),
        (10_000, "2/(t + 2)", plain(unit, tol=1e-7), random_point(10_000)),
        (100_000, "2/(t + 2)", plain(unit, tol=1e-7), random_point(100_000)),
        (1000, "short step", plain(wide, short, tol=1e-7, max_steps=steps), random_point(1000)),
        (1000, "pairwise", fwnet.PairwiseFrankWolfe(wide, tol=1e-7, max_steps=2 * steps), None),
        (1000, "corrective", fwnet.Corrective(wide, tol=1e-7), None),
    ]
    rows, results = [], {}
    for n, name, solver, goal in cases:
        goal = random_point(n) if goal is None else goal
        assert isinstance(solver.domain, fwnet.Simplex)
        x0 = corner(n, solver.domain.radius)
        objective = (
            distance_to(goal) if n > 3 else lambda x: x.square().sum()
        )  # any callable will do
        result, seconds = timed(solver, objective, x0)
        gap = float(result.gap)
        rows.append((name, n, solver.domain.radius, result.steps, gap, seconds, result.status))
        results[f"{name}, n = {n}"] = result
    table(("steps by", "n", "radius", "steps", "gap", "seconds", "status"), rows)
    shown = {
        "2/(t + 2), n = 100000 (n = 1000: nearly the same)": results["2/(t + 2), n = 100000"],
        "pairwise, n = 1000": results["pairwise, n = 1000"],
        "corrective, n = 1000": results["corrective, n = 1000"],
    }
    plot_gaps(shown, arguments.plot, "|x − p|² on the simplex", x_scale="log")


if __name__ == "__main__":
    main()
