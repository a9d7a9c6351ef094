"""Does it matter how the SVM on top of a network moves while the network trains?

    make_circles(2000, factor=.2, noise=.1) in [-1, 1];  kernel network 2 - 4 - 2 with tanh

Three modes: the SVM solved exactly at every update; one Frank-Wolfe step of α per update, forward
only, as in the paper; ten steps, differentiated through.

See: no line separates the circles, but the network deforms the plane until one does. All three
modes achieve that within some 30 updates, but only the exact SVM closes the gap during training;
the others follow a moving solution. At the end the SVM of the best network is solved exactly, so
each result has its certificate.
"""

import time

import numpy as np
from sklearn.datasets import make_circles
from torch import nn

from fwnet.estimators import DeepSVC
from fwnet.show.scripts import options, save, table

RUNS = (("exact", 100), ("forward", 500), ("unrolled", 100))


def kernel_net() -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    for layer in net:  # torch's own initial weights are small for tanh
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
    return net


def main() -> None:
    arguments = options(__doc__)
    X, y = make_circles(4000, factor=0.2, noise=0.1, random_state=0)
    X = 2 * (X - X.min(0)) / (X.max(0) - X.min(0)) - 1
    train, test = slice(2000), slice(2000, None)
    rows, fitted = [], {}
    for mode, updates in RUNS:
        start = time.perf_counter()
        clf = DeepSVC(kernel_net, mode=mode, lr=0.05, max_iter=updates, random_state=0)
        clf.fit(X[train], y[train])
        seconds = time.perf_counter() - start
        while_training = float(np.median([record.gap for record in clf.history_[1:]]))
        reached = next((r.t for r in clf.history_ if r.accuracy >= 0.99), "never")
        score = f"{clf.score(X[test], y[test]):.4f}"
        rows.append((mode, updates, str(reached), score, while_training, clf.duality_gap_, seconds))
        fitted[mode] = clf
    columns = ("mode", "updates", "to .99", "test", "gap in training", "gap at the end", "seconds")
    table(columns, rows)
    if arguments.plot is not None:
        draw(fitted, X[train], y[train], arguments.plot)


def draw(fitted: dict[str, DeepSVC], X: np.ndarray, y: np.ndarray, file: str) -> None:
    from matplotlib import pyplot

    from fwnet.plotting import plot_decision_boundary

    _, axes = pyplot.subplots(2, 2, figsize=(8, 7.8), layout="constrained")
    *planes, curves = axes.flat
    for ax, (mode, clf) in zip(planes, fitted.items(), strict=True):
        plot_decision_boundary(clf, X, y, ax).set(
            title=f"{mode}, {clf.n_iter_} updates", xlabel="x₁", ylabel="x₂"
        )
        curves.plot([r.t for r in clf.history_], [r.loss for r in clf.history_], label=mode)
    curves.set(xlabel="update", ylabel="2P*/(C n), solved exactly", yscale="log")
    curves.grid(alpha=0.3)
    curves.legend()
    save(curves, file)


if __name__ == "__main__":
    main()
