"""python tools/pictures.py: draws the three pictures of README.md into docs/images/.

constrained.png   the largest singular value of a layer, free under Adam and held by Frank-Wolfe
certificate.png   a support vector machine in the plane, and the bound that it proves
learned.png       the duality gap of a learned direction beside two hand-designed ones
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib import pyplot
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from torch import nn

import fwnet
from fwnet import estimators, learned, optim
from fwnet.plotting import plot_decision_boundary

FOLDER = Path(__file__).parents[1] / "docs" / "images"
LIMIT, STEPS, BATCH = 3.0, 600, 32


def main() -> None:
    for name, draw in {
        "constrained": constrained,
        "certificate": certificate,
        "learned": learned_direction,
    }.items():
        figure, ax = pyplot.subplots(figsize=(3.1, 2.6), layout="constrained")
        draw(ax)
        figure.savefig(FOLDER / f"{name}.png", dpi=200)


def constrained(ax: Any) -> None:
    """A layer of a network on digits, with a limit, and without one under Adam (tuned rate)."""
    images, labels = load_digits(return_X_y=True)
    X, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    for name, colour in (("Adam", "C1"), ("fwnet", "C0")):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        ball = fwnet.SpectralBall(LIMIT)
        if name == "fwnet":
            opt: torch.optim.Optimizer = optim.FrankWolfe(optim.constrain(net, {"*.weight": ball}))
        else:
            opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        norms = []
        for rows in torch.randint(len(X), (STEPS, BATCH)):
            opt.zero_grad()
            nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
            opt.step()
            norms.append(float(torch.linalg.matrix_norm(net.get_parameter("0.weight").detach(), 2)))
        ax.plot(norms, color=colour)
        ax.text(STEPS, norms[-1] - 0.6, name, color=colour, ha="right", va="top")
    ax.axhline(LIMIT, color="black", linestyle=":")
    ax.text(STEPS, LIMIT + 0.1, "limit", ha="right")
    ax.set(xlabel="training step", ylabel="largest singular value", ylim=(0, None))
    ax.set_title("A layer that stays within its limit", fontsize=10)
    ax.grid(alpha=0.3)


def certificate(ax: Any) -> None:
    """Regions, margin and support vectors of an SVM with a Gaussian kernel."""
    X, y = make_moons(500, noise=0.15, random_state=0)
    svm = estimators.FWSVC(C=100.0, gamma=1.0, tol=1e-3).fit(X, y)
    plot_decision_boundary(svm, X, y, ax)
    ax.get_legend().remove()
    ax.set(xticks=[], yticks=[], aspect="auto")
    ax.set_xlabel(f"at most {100 * svm.duality_gap_:.2f} % above the optimum")
    ax.set_title("An SVM that proves its optimality", fontsize=10)


def learned_direction(ax: Any) -> None:
    """README's third problem: the gap after every step."""
    table, benign = load_breast_cancer(return_X_y=True)
    Z = torch.tensor((table - table.mean(0)) / table.std(0))
    problem = fwnet.SVMDual(Z @ Z.T / 30, torch.tensor(2.0 * benign - 1), C=10.0)
    for name, colour, direction in (
        ("pairwise", "C2", fwnet.Pairwise()),
        ("corrective", "C1", fwnet.Corrections()),
        ("learned", "C0", learned.load("simplex-qp")),
    ):
        solver = fwnet.FrankWolfe(
            fwnet.Simplex(), fwnet.LineSearch(), direction=direction, tol=1e-4
        )
        trace = solver(problem).trace
        gap = trace.column("gap")
        known = gap > 0
        ax.plot(1 + trace.column("t")[known], gap[known], color=colour, label=name)
    ax.set(xlabel="step", ylabel="duality gap", xscale="log", yscale="log")
    ax.set_title("An optimizer that was learned", fontsize=10)
    ax.grid(alpha=0.3)
    ax.legend()


if __name__ == "__main__":
    main()
