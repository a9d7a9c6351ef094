"""What does one solve of 64 problems cost, compared with 64 solves?

    min ½ |A x_b − y_b|²  over the simplex, b = 1, …, 64;   A 100 × 1000, shared

A batch is a dimension of the *problem* (here of its right-hand sides), never guessed from x0.

See: the same solutions (the largest difference in f is printed; two pairwise runs may break a tie
differently and stop at different points within the tolerance), each problem with its own status and
number of steps, in a fraction of the time: one matrix product gives all 64 gradients.
"""

import torch

import fwnet
from fwnet.show.scripts import options, save, table, timed

BATCH, ROWS, N = 64, 100, 1000


def one_by_one(solver: fwnet.FrankWolfe, A: torch.Tensor, y: torch.Tensor) -> list[fwnet.Result]:
    return [solver(fwnet.LeastSquares(A, goal)) for goal in y]


def main() -> None:
    arguments = options(__doc__)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(ROWS, N, generator=generator, dtype=torch.float64) / ROWS**0.5
    weights = torch.rand(BATCH, 8, generator=generator, dtype=torch.float64)
    chosen = torch.stack([torch.randperm(N, generator=generator)[:8] for _ in range(BATCH)])
    truth = torch.zeros(BATCH, N, dtype=torch.float64)
    truth.scatter_(1, chosen, weights / weights.sum(1, keepdim=True))
    noise = 0.05 * torch.randn(BATCH, ROWS, generator=generator, dtype=torch.float64)
    y = truth @ A.T + noise
    steps = 50 if arguments.quick else 500
    rows = []
    for name, variant in (("plain", fwnet.FrankWolfe), ("pairwise", fwnet.PairwiseFrankWolfe)):
        solver = variant(fwnet.Simplex(), fwnet.LineSearch(), max_steps=steps, tol=1e-3)
        batch, together = timed(solver, fwnet.LeastSquares(A, y))
        single, apart = timed(one_by_one, solver, A, y)
        values = torch.stack([result.value for result in single])
        difference = float((batch.value - values).abs().max())
        converged = batch.status.count("converged")
        rows.append(
            (name, converged, min(batch.steps), max(batch.steps), difference, together, apart)
        )
    columns = ("variant", "converged", "fewest", "most steps", "difference", "batch s", "64 × 1 s")
    table(columns, rows)
    if arguments.plot:
        draw({row[0]: (row[5], row[6]) for row in rows}, arguments.plot)


def draw(seconds: dict[str, tuple[float, float]], file: str) -> None:
    """The seconds of both, side by side for each variant."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 3), layout="constrained")
    for k, label in enumerate(("one solve of the batch", "64 solves, one by one")):
        places = [place + 0.38 * (0.5 - k) for place in range(len(seconds))]
        bars = ax.barh(places, [pair[k] for pair in seconds.values()], 0.36, label=label)
        ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.set_yticks(range(len(seconds)), list(seconds))
    ax.set(xlabel="seconds", ylabel="steps")
    ax.margins(x=0.1)
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
