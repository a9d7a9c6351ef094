"""Does an l1 ball find a sparse polynomial where least squares without one fails?

    min 1/(2m) |Ac − y|²  over  {c : Σ |c_j| <= 0.95 · |c_true|₁}

A holds the 1001 monomials of degree at most 4 in 10 variables at 500 points 0.1·N(0, 1), the true
coefficients lie in [0, 10] and are zero with probability 0.95·degree/4, the noise is N(0, 1); test
points are 0.4·N(0, 1), so wrong coefficients of high degree cost most. The setting is that of
FrankWolfe.jl, which runs lazy away steps for 10,000 iterations and draws primal gap and test loss.

See: with more unknowns than points, the least-norm unconstrained solution has a training loss of 0
and a test loss thousands of times that of the constrained ones. Away steps end with the largest
gap, blended and pairwise ones a tenth of it, and pairwise steps with a second-order partner (as in
SMO) a tenth of that again.
"""

from itertools import combinations_with_replacement
from math import nan
from typing import Any

import numpy as np
import torch

import fwnet
from fwnet.show.scripts import options, plot_gaps, table, timed

VARIABLES, DEGREE, TRAIN, TEST, STEPS = 10, 4, 500, 1000, 4000


def monomials(x: np.ndarray) -> np.ndarray:
    """All products of at most DEGREE coordinates, one column each."""
    columns = [
        np.prod(x[:, list(chosen)], axis=1)
        for degree in range(DEGREE + 1)
        for chosen in combinations_with_replacement(range(VARIABLES), degree)
    ]
    return np.stack(columns, 1)


def degrees() -> np.ndarray:
    counts = [len(list(combinations_with_replacement(range(VARIABLES), d))) for d in range(5)]
    return np.repeat(np.arange(DEGREE + 1), counts)


def main() -> None:
    arguments = options(__doc__)
    rng = np.random.default_rng(42)
    degree = degrees()
    truth = 10 * rng.random(len(degree)) * (rng.random(len(degree)) > 0.95 * degree / DEGREE)
    A = monomials(0.1 * rng.standard_normal((TRAIN, VARIABLES)))
    A_test = monomials(0.4 * rng.standard_normal((TEST, VARIABLES)))
    y = A @ truth + rng.standard_normal(TRAIN)
    y_test = A_test @ truth + rng.standard_normal(TEST)

    def losses(c: np.ndarray) -> tuple[float, float]:
        return tuple(0.5 * np.mean((M @ c - v) ** 2) for M, v in ((A, y), (A_test, y_test)))

    scale = TRAIN**-0.5
    problem = fwnet.LeastSquares(torch.tensor(scale * A), torch.tensor(scale * y))
    ball = fwnet.L1Ball(0.95 * float(np.abs(truth).sum()))
    random = torch.rand(len(degree), generator=torch.Generator().manual_seed(0)).double()
    x0 = ball.lmo(random).dense()
    budget: dict[str, Any] = {"max_steps": 200 if arguments.quick else STEPS, "tol": 1e-7}
    solvers = {
        "away": fwnet.AwayFrankWolfe(ball, **budget),
        "blended pairwise": fwnet.BlendedPairwise(ball, **budget),
        "pairwise": fwnet.PairwiseFrankWolfe(ball, **budget),
        "pairwise, second order": fwnet.PairwiseFrankWolfe(ball, second_order=True, **budget),
    }
    rows, results = [], {}
    for name, solver in solvers.items():
        result, seconds = timed(solver, problem, x0)
        c = result.x.numpy()
        terms = int((np.abs(c) > 1e-9).sum())
        rows.append((name, result.steps, float(result.gap), *losses(c), terms, seconds))
        results[name] = result
    smallest = np.linalg.lstsq(A, y, rcond=None)[0]
    for name, c in (("no ball (lstsq)", smallest), ("the true polynomial", truth)):
        rows.append((name, "", nan, *losses(c), int((c != 0).sum()), nan))
    table(("coefficients by", "steps", "gap", "training", "test", "terms", "seconds"), rows)
    plot_gaps(results, arguments.plot, "polynomial regression on the l1 ball")


if __name__ == "__main__":
    main()
