"""What happens to the ranks of a network's layers when a trace-norm ball holds them?

    min over W of mean cross entropy(W_3 relu(W_2 relu(W_1 x))),   ‖W_k‖_* <= radius_k

scikit-learn's digits, layers 64 - 128 - 64 - 10, minibatches of 64; the radius of a layer is half
the trace norm of its initial weights. Adam is free; three Frank-Wolfe runs stay in the balls at
every step, with vertices of rank 1, soft ones, and those of Newton-Schulz.

See: the share of each layer in its largest singular values. Adam keeps all directions; rank-1
vertices concentrate a layer in a few, and the accuracy hardly suffers. The last column shows that no
run left its balls.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet.optim import FrankWolfe, constrain
from show import options, table

STEPS, EVERY, BATCH = 1500, 50, 64


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def balls(net: nn.Module) -> dict[str, fwnet.TraceNormBall]:
    """Half of the initial trace norm for each weight."""
    return {
        name: fwnet.TraceNormBall(0.5 * float(torch.linalg.svdvals(w.detach()).sum()))
        for name, w in net.named_parameters()
        if w.ndim == 2
    }


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
    rows, ranks = [], {}
    for name, oracle in runs.items():
        net = network()
        inside = balls(net)
        if oracle is None:
            opt = torch.optim.Adam(net.parameters(), lr=3e-3)
        else:
            opt = FrankWolfe(constrain(net, inside), lr=3e-3, oracle=oracle)
        weights = [layer.weight for layer in net[::2]]
        order = torch.Generator().manual_seed(1)
        history, worst = [], 0.0
        start = time.perf_counter()
        for t in range(steps + 1):
            if t % EVERY == 0:
                history.append([rank(w) for w in weights])
                for w, ball in zip(weights, inside.values(), strict=True):
                    worst = max(worst, float(ball.norm(w.detach().double())) / ball.radius)
            batch = torch.randint(int(train.sum()), (BATCH,), generator=order)
            opt.zero_grad()
            nn.functional.cross_entropy(net(X[train][batch]), y[train][batch]).backward()
            opt.step()
        seconds = time.perf_counter() - start
        with torch.no_grad():
            right = (net(X[test]).argmax(-1) == y[test]).double().mean()
        ranks[name] = np.array(history)
        final = " ".join(f"{value:.1f}" for value in history[-1])
        rows.append((name, final, f"{float(right):.3f}", f"{worst:.4f}", seconds))
    table(("optimizer", "effective ranks", "test", "largest norm/radius", "seconds"), rows)
    if arguments.plot is not None:
        draw(ranks, arguments.plot)


def draw(ranks: dict[str, np.ndarray], file: str) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    shapes = ("128 × 64", "64 × 128", "10 × 64")
    for layer, (ax, shape) in enumerate(zip(axes, shapes, strict=True)):
        for name, history in ranks.items():
            ax.plot(EVERY * np.arange(len(history)), history[:, layer], label=name)
        ax.set(title=f"layer {layer + 1}, {shape}", xlabel="step")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("effective rank")
    axes[0].legend(fontsize="small")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    print(f"\nfigure: {file}")


if __name__ == "__main__":
    main()
