"""Does a limit on the weights help against noise in the inputs?

    largest singular value of every weight matrix <= 3,   x + σ ε at test time,   ε ~ N(0, 1)

scikit-learn's digits with pixels in [0, 1], a network 64 - 64 - 10, 600 minibatches of 32 without
noise, five seeds. `FrankWolfe` has its default options; AdamW has six settings, of which the
picture shows the best for clean and the best for noisy test images, a choice that favours it.

See: the limit costs no accuracy on clean images and helps on noisy ones: at σ = 0.3 the limited
network is right on 88 % of them, AdamW on 78 % with the setting that is best for clean images, and
on 85 % with the one that is best for these.
"""

from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet import optim
from fwnet.show.scripts import options, save, table

LIMIT, STEPS, BATCH, NOISES = 3.0, 600, 32, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
Make = Callable[[nn.Module], torch.optim.Optimizer]


def main() -> None:
    arguments = options(__doc__)
    images, labels = load_digits(return_X_y=True)
    X, y = torch.tensor(images).float() / 16, torch.tensor(labels)
    seeds = range(1 if arguments.quick else 5)
    curves = {
        name: torch.tensor([accuracies(X, y, make, seed) for seed in seeds]).mean(0).tolist()
        for name, make in methods().items()
    }
    shown = [(name, *(f"{value:.3f}" for value in curve)) for name, curve in curves.items()]
    table(("test accuracy, noise σ =", *map(str, NOISES)), shown)
    if arguments.plot is not None:
        draw(curves, arguments.plot)


def methods() -> dict[str, Make]:
    def limited(net: nn.Module) -> torch.optim.Optimizer:
        return optim.FrankWolfe(optim.constrain(net, {"*.weight": fwnet.SpectralBall(LIMIT)}))

    def adamw(lr: float, decay: float) -> Make:
        return lambda net: torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=decay)

    free = {
        f"AdamW, lr {lr:g}, decay {decay:g}": adamw(lr, decay)
        for lr in (1e-3, 1e-2)
        for decay in (0.0, 0.1, 1.0)
    }
    return {f"FrankWolfe, limit {LIMIT:g}": limited} | free


def accuracies(X: torch.Tensor, y: torch.Tensor, make: Make, seed: int) -> list[float]:
    """The accuracy of a newly trained network for each amount of noise."""
    torch.manual_seed(seed)
    train, test = torch.randperm(len(X)).split([1347, len(X) - 1347])
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = make(net)
    for rows in train[torch.randint(len(train), (STEPS, BATCH))]:
        opt.zero_grad()
        nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
        opt.step()
    noise = torch.randn(len(test), 64)
    right = [net(X[test] + sigma * noise).argmax(1) == y[test] for sigma in NOISES]
    return [float(each.float().mean()) for each in right]


def draw(curves: dict[str, list[float]], file: str) -> None:
    """The limited network, and AdamW with the best setting for clean and for noisy images."""
    from matplotlib import pyplot

    limited, *free = curves
    clean = max(free, key=lambda name: curves[name][0])
    noisy = max(free, key=lambda name: curves[name][NOISES.index(0.3)])
    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, why in ((limited, ""), (noisy, " (best with noise)"), (clean, " (best without)")):
        ax.plot(NOISES, curves[name], "o-", label=name + why)
    ax.set_xlabel("standard deviation of the noise, pixels in [0, 1]")
    ax.set_ylabel("test accuracy, mean of five seeds")
    ax.grid(alpha=0.3)
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
