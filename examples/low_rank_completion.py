"""How many entries of a matrix must be observed to predict the rest?

    min ½ Σ over observed (i, j) of (W_ij − M_ij)²,   ‖W‖_* <= radius

M is 120 x 100, of rank 5, with noise; the radius is chosen on a fifth of the observed entries.

See: the error falls below that of the mean as more entries are observed; the rank is found, not
given.
"""

import numpy as np

from fwnet.estimators import LowRankCompletion
from fwnet.show.scripts import options, save, table, timed

RANK, NOISE = 5, 0.1


def main() -> None:
    arguments = options(__doc__)
    d, m = (60, 50) if arguments.quick else (120, 100)
    rng = np.random.default_rng(0)
    M = rng.normal(size=(d, RANK)) @ rng.normal(size=(RANK, m)) / RANK**0.5
    lines, curves = [], []
    for share in (0.05, 0.1, 0.2, 0.33):
        seen = rng.random(M.shape) < share
        values = M[seen] + NOISE * rng.normal(size=int(seen.sum()))
        model = LowRankCompletion(shape=M.shape, tol=0.05)
        _, seconds = timed(model.fit, np.argwhere(seen), values)
        unseen = np.argwhere(~seen)
        error = float(np.sqrt(np.mean((model.predict(unseen) - M[~seen]) ** 2)))
        mean = float(np.sqrt(np.mean((values.mean() - M[~seen]) ** 2)))
        large = int((model.s_ > 0.05 * model.s_[0]).sum())
        curves.append((100 * share, error, mean))
        lines.append((f"{share:.0%}", error, mean, large, model.radius_, f"{seconds:.1f}"))
    table(("observed", "error", "error of the mean", "rank", "radius", "seconds"), lines)
    if arguments.plot:
        draw(curves, arguments.plot)


def draw(curves: list[tuple[float, float, float]], file: str) -> None:
    """The two errors by the share of entries that is observed."""
    from matplotlib import pyplot

    shares, errors, means = zip(*curves, strict=True)
    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    ax.plot(shares, means, "--", label="mean of the observed entries")
    ax.plot(shares, errors, "-o", label="low-rank completion")
    ax.axhline(NOISE, color="grey", lw=1, label="noise of an entry")
    ax.set(xlabel="observed entries, %", ylabel="error on the others", ylim=(0, None))
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
