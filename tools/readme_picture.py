"""python tools/readme_picture.py: draws docs/images/constrained.png, the picture of README.md.

A 64-64-10 network on scikit-learn's digits, trained by Adam with a tuned learning rate and by
`FrankWolfe(constrain(net, {"*.weight": SpectralBall("4x init")}))`, both with their last weights:
test accuracy after every epoch, largest singular value of the first layer after every step.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib import pyplot
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet.optim import FrankWolfe, constrain

EPOCHS, BATCH = 15, 32
FILE = Path(__file__).parents[1] / "docs" / "images" / "constrained.png"


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def run(net: nn.Sequential, opt: torch.optim.Optimizer) -> tuple[list[float], list[float]]:
    """Test accuracy after each epoch, largest singular value of the first layer after each step."""
    images, labels = load_digits(return_X_y=True)
    X, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    order = torch.Generator().manual_seed(0)
    test, train = torch.randperm(len(X), generator=order).split([450, 1347])
    accuracies, norms = [], []
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(train), generator=order).split(BATCH):
            rows = train[batch]
            opt.zero_grad()
            nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
            opt.step()
            norms.append(float(torch.linalg.matrix_norm(net.get_parameter("0.weight").detach(), 2)))
        accuracies.append(float((net(X[test]).argmax(1) == y[test]).double().mean()))
    return accuracies, norms


def main() -> None:
    free, held = network(), network()
    ball = fwnet.SpectralBall("4x init")  # type: ignore[arg-type]
    groups = constrain(held, {"*.weight": ball})
    radius = groups[0]["domain"].radius
    runs = {
        "Adam": run(free, torch.optim.Adam(free.parameters(), lr=1e-2)),
        "Frank-Wolfe": run(held, FrankWolfe(groups)),
    }
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    for (name, (accuracies, norms)), colour in zip(runs.items(), ("C1", "C0"), strict=True):
        left.plot(range(1, EPOCHS + 1), [100 * a for a in accuracies], color=colour, label=name)
        right.plot(norms, color=colour, label=name)
    right.axhline(radius, color="black", linestyle=":")
    right.text(len(runs["Adam"][1]), radius * 1.05, "limit", ha="right")
    left.set(xlabel="epoch", ylabel="test accuracy (%)")
    right.set(xlabel="step", ylabel="largest singular value", ylim=(0, None))
    left.set_title("As accurate", fontsize=11)
    right.set_title("The first layer stays within its limit", fontsize=11)
    for ax in (left, right):
        ax.grid(alpha=0.3)
    left.legend()
    figure.savefig(FILE, dpi=110)


if __name__ == "__main__":
    main()
