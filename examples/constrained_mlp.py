"""What happens to the rank of a hidden layer when a trace-norm ball holds it?

    min of the mean cross entropy of W_3 relu(W_2 relu(W_1 x)),   ‖W_2‖_* <= radius

scikit-learn's digits, layers 64 - 128 - 64 - 10, minibatches of 64. The radius is the trace norm of
the initial W_2. Adam is unconstrained; the three Frank-Wolfe runs keep W_2 in the ball at every
step, and move the other layers by Adam. They differ in the vertex: of rank 1, soft, or all singular
directions equally (Newton-Schulz).

See: rank-1 vertices concentrate W_2 in a few directions, Newton-Schulz keeps all of them, and both
are as accurate as Adam; soft vertices are one or two points behind. The column `largest
norm/radius` shows that no Frank-Wolfe run left the ball.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet.optim import FrankWolfe, constrain
from fwnet.show.scripts import options, save, table

STEPS, EVERY, BATCH = 1000, 25, 64


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def rank(weight: torch.Tensor) -> float:
    """Effective rank: how many equal singular values would have this ratio of norms."""
    s = torch.linalg.svdvals(weight.detach())
    return float(s.sum() ** 2 / s.square().sum())


def main() -> None:
    arguments = options(__doc__)
    steps = 200 if arguments.quick else STEPS
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
    train, test = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
    runs = {
        "Adam": None,
        "Frank-Wolfe, rank 1": fwnet.PowerIteration(1),
        "Frank-Wolfe, soft": fwnet.SoftTraceNorm(10.0),
        "Frank-Wolfe, spectral": fwnet.NewtonSchulz(),
    }
    X_train, y_train = X[train], y[train]
    rows: list[tuple[object, ...]] = []
    ranks: dict[str, list[float]] = {}
    for name, oracle in runs.items():
        net = network()
        size = fwnet.TraceNormBall("init")  # type: ignore[arg-type]
        groups = constrain(net, {"2.weight": size})
        ball, hidden = groups[0]["domain"], net.get_parameter("2.weight")
        if oracle is None:
            opt: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        else:
            opt = FrankWolfe(groups, lr=3e-3, oracle=oracle)
        order = torch.Generator().manual_seed(1)
        ranks[name], worst = [], 0.0
        start = time.perf_counter()
        for t in range(steps + 1):
            if t % EVERY == 0:
                ranks[name].append(rank(hidden))
                worst = max(worst, float(ball.norm(hidden.detach().double())) / ball.radius)
            batch = torch.randint(len(X_train), (BATCH,), generator=order)
            opt.zero_grad()
            nn.functional.cross_entropy(net(X_train[batch]), y_train[batch]).backward()
            opt.step()
        seconds = time.perf_counter() - start
        with torch.no_grad():
            right = (net(X[test]).argmax(-1) == y[test]).double().mean()
        rows.append((name, ranks[name][-1], f"{float(right):.3f}", worst, seconds))
    table(("optimizer", "effective rank", "test", "largest norm/radius", "seconds"), rows)
    if arguments.plot is not None:
        draw(ranks, arguments.plot)


def draw(ranks: dict[str, list[float]], file: str) -> None:
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, history in ranks.items():
        ax.plot(EVERY * np.arange(len(history)), history, label=name)
    ax.set(xlabel="step", ylabel="effective rank of the hidden layer", ylim=(0, None))
    ax.grid(alpha=0.3)
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
