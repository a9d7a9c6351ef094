"""Can a Frank-Wolfe network be the last layer of a CNN, while Adam trains the rest?

    W <- (1 − γ) W − γ · radius · u vᵀ,   u, v by five power iterations on ∇f(W)

scikit-learn's digits (8 × 8 pixels), one convolution, 48 features, ten classes. The neural sparse
softmax moves W by forward propagation, one cell per minibatch, inside the trace-norm ball; only the
convolution is trained by back-propagation. For comparison: an ordinary linear layer, all by Adam.

See: with the paper's radius of 50 it ends at the accuracy of Adam's linear layer, a little later
and less smoothly, since every cell pulls W to a vertex of rank 1. A radius of 5 is too tight for
these features: the scores stay small, and training is slow. So it is with the paper's γ = 0.001
from W = 0; from its start N(0, 1), outside of the ball, the features are trained from the first
minibatch on.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet.layers import NeuralSparseSoftmax
from fwnet.show.scripts import options, save, table

STEPS, BATCH = 1000, 64


def features() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 48), nn.ReLU()
    )


def main() -> None:
    arguments = options(__doc__)
    steps = 100 if arguments.quick else STEPS
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(y)
    train, test = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
    X_train, y_train = X[train], y[train]
    heads: dict[str, nn.Linear | NeuralSparseSoftmax] = {"linear layer, Adam": nn.Linear(48, 10)}
    for radius in (5.0, 50.0):
        name = f"sparse softmax, radius {radius:g}"
        heads[name] = NeuralSparseSoftmax(48, 10, radius=radius, step_size=0.01)
    for first in ("zeros", "normal"):  # the paper's constants
        heads[f"the paper's, from {first}"] = NeuralSparseSoftmax(
            48,
            10,
            radius=50.0,
            step_size=0.001,
            oracle=fwnet.PowerIteration(5, start="random"),
            start=first,
            generator=torch.Generator().manual_seed(0),
        )
    rows: list[tuple[object, ...]] = []
    curves: dict[str, list[float]] = {}
    for name, head in heads.items():
        net = features()
        opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
        order = torch.Generator().manual_seed(1)
        curves[name] = []
        start = time.perf_counter()
        for t in range(steps):
            rows_t = torch.randint(len(X_train), (BATCH,), generator=order)
            inputs, labels = net(X_train[rows_t]), y_train[rows_t]
            loss = (
                head.loss(inputs, labels)
                if isinstance(head, NeuralSparseSoftmax)
                else nn.functional.cross_entropy(head(inputs), labels)
            )
            opt.zero_grad()
            loss.backward()
            opt.step()
            if t % 20 == 19:
                with torch.no_grad():
                    right = (head(net(X[test])).argmax(-1) == y[test]).double().mean()
                curves[name].append(float(right))
        s = torch.linalg.svdvals(head.weight.detach())
        effective = float(s.sum() ** 2 / s.square().sum())
        seconds = time.perf_counter() - start
        rows.append((name, f"{curves[name][-1]:.3f}", float(s.sum()), effective, seconds))
    table(("last layer", "test", "trace norm", "effective rank", "seconds"), rows)
    if arguments.plot is not None:
        draw(curves, arguments.plot)


def draw(curves: dict[str, list[float]], file: str) -> None:
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, curve in curves.items():
        ax.plot(20 * np.arange(1, len(curve) + 1), curve, label=name)
    ax.set(xlabel="minibatch", ylabel="test accuracy", ylim=(0.5, 1.0))
    ax.grid(alpha=0.3)
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
