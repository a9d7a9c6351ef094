"""What does an SVM as the last layer of a convolutional network change?

    8 × 8 digits, ten classes, 1200 for training, the rest by other writers for testing
    three times (conv 3 × 3, batch norm, ReLU, max-pool 2), then 32 units: the paper's network

The same network and number of updates: once with a linear layer and the cross-entropy, once with
ten SVMs (one against the rest) that are solved on each batch of 256.

See: accuracies within two points of each other, at two to three times the seconds, and a head with
a certificate: no other weights on these features reduce the SVM's objective by more than the gap. C
is small on purpose: a batch that is separated with a wide margin gives hardly any gradient.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fwnet.estimators import DeepSVC
from fwnet.show.scripts import options, save, table

UPDATES, BATCH, LR, C = 120, 256, 0.005, 0.01


def convnet() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32), (32, 32)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())


def softmax_accuracy(X: torch.Tensor, y: torch.Tensor, train: int, seed: int) -> float:
    torch.manual_seed(seed)
    net = nn.Sequential(convnet(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    for _ in range(UPDATES):
        batch = torch.randperm(train)[:BATCH]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X[batch]), y[batch]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        return float((net(X[train:]).argmax(1) == y[train:]).double().mean())


def main() -> None:
    arguments = options(__doc__)
    images, labels = load_digits(return_X_y=True)
    X, train = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8), 1200
    rows = []
    for seed in range(1 if arguments.quick else 2):
        start = time.perf_counter()
        softmax = softmax_accuracy(torch.from_numpy(X), torch.from_numpy(labels), train, seed)
        middle = time.perf_counter()
        clf = DeepSVC(convnet, C, lr=LR, batch_size=BATCH, max_iter=UPDATES, random_state=seed)
        clf.fit(X[:train], labels[:train])
        end = time.perf_counter()
        svm = clf.score(X[train:], labels[train:])
        rows.append((seed, "softmax", f"{softmax:.4f}", "-", "-", middle - start))
        gap = f"{clf.duality_gap_:.0e}"
        rows.append((seed, "svm", f"{svm:.4f}", gap, str(len(clf.support_)), end - middle))
    table(("seed", "head", "test", "gap", "support", "seconds"), rows)
    if arguments.plot is not None:
        draw(clf, X[:train, 0], arguments.plot)


def draw(clf: DeepSVC, images: np.ndarray, file: str) -> None:
    """The training images with the largest multipliers, which determine the boundary."""
    from matplotlib import pyplot

    weight = np.abs(clf.dual_coef_).sum(0)
    heaviest = clf.support_[np.argsort(-weight)[:24]]
    figure, axes = pyplot.subplots(3, 8, figsize=(8, 3.4), layout="constrained")
    for ax, index in zip(axes.flat, heaviest, strict=True):
        ax.imshow(images[index], cmap="gray_r")
        ax.set_axis_off()
    figure.suptitle("The support vectors with the largest weights")
    save(axes[0, 0], file)


if __name__ == "__main__":
    main()
