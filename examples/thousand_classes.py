"""A thousand classes on a laptop: what does a low rank gain?

    min over ‖W‖_* <= radius of the mean log loss of softmax(XW),   W = U diag(s) Vᵀ

20,000 rows of 300 features; the labels are drawn from 1000 classes by a W* of rank 10. The fit
starts with minibatches on two thin factors and ends with a certified gap, here after 15 seconds;
without a bound W has 300,000 free weights.

See: ten singular values stand out, as in W*, and the test accuracy is 0.45 to 0.47; W* itself has
0.55 and a random guess 0.001.
"""

import numpy as np
import torch

from fwnet.estimators import LowRankSoftmaxClassifier
from fwnet.show.scripts import options, save, table, timed

RANK, SPREAD = 10, 6.0


def main() -> None:
    arguments = options(__doc__)
    n, d, m = (3000, 60, 100) if arguments.quick else (20_000, 300, 1000)
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(n + 4000, d, generator=generator)
    left = torch.randn(d, RANK, generator=generator) * (SPREAD / (d * RANK) ** 0.5)
    W_star = left @ torch.randn(RANK, m, generator=generator)
    chance = torch.softmax(points @ W_star, -1)
    y = torch.multinomial(chance, 1, generator=generator).squeeze(-1).numpy()
    X = points.numpy()
    best = chance.argmax(-1).numpy()[n:]
    radius = 0.4 * float(torch.linalg.svdvals(W_star).sum())
    model = LowRankSoftmaxClassifier(radius, tol=0.1, max_time=15, fit_intercept=False)
    _, seconds = timed(model.fit, X[:n], y[:n])
    large = int((model.s_ > 0.1 * model.s_[0]).sum())
    rows = [
        ("W* itself", RANK, "", float(np.mean(best == y[n:])), ""),
        (
            "low rank",
            f"{model.rank_} ({large} large)",
            f"{model.duality_gap_ / model.value_:.2g}",
            model.score(X[n:], y[n:]),
            f"{seconds:.1f}",
        ),
        ("chance", "", "", 1 / m, ""),
    ]
    table(("classifier", "rank", "gap / loss", "test accuracy", "seconds"), rows)
    if arguments.plot:
        draw(model.s_, torch.linalg.svdvals(W_star).numpy(), arguments.plot)


def draw(found: np.ndarray, true: np.ndarray, file: str) -> None:
    """The singular values of both matrices, relative to the largest."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for values, label in ((found, "W, learned"), (true[:RANK], "W*, which drew the labels")):
        ax.plot(np.arange(1, len(values) + 1), values / values[0], "o-", label=label)
    ax.set(xlabel="singular value, from the largest", ylabel="share of the largest", yscale="log")
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
