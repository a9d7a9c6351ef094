"""Can a network learn features for classes that it has never seen?

    episodes: 5 of the digits, 2 labelled images of each, 6 queries of each
    every image is inverted with probability ½: black on white, or white on black

Training episodes draw from the digits 0 to 4 (rotated by 0, 90, 180 or 270 degrees: twenty
classes), test episodes from 5 to 9. The head is `SVMLayer`: in every episode it trains an exact SVM
on the ten labelled features, and the gradient of the loss on the queries flows back through that
optimum into a small network. The control is the same head on raw pixels.

See: the features become nearly invariant to inversion, also for digits that were in no training
episode; raw pixels are not: there a digit is nearer to other digits than to its own negative.
Without inversion raw pixels would win: five digits are too few to learn what makes a digit.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from fwnet.layers import SVMLayer
from fwnet.show.scripts import options, save, table, timed

WAYS, SHOTS, QUERIES, BATCH, C = 5, 2, 6, 8, 1.0


def main() -> None:
    arguments = options(__doc__)
    updates, seeds = (60, 1) if arguments.quick else (200, 2)
    old, new = classes(range(5), turns=4), classes(range(5, 10), turns=1)
    head, generator = SVMLayer(C), torch.Generator().manual_seed(1)
    test = [episodes(new, generator) for _ in range(40)]
    raw = accuracy(nn.Flatten(), head, test)
    rows = [("raw pixels", 0, f"{raw:.3f}", 0.0)]
    for seed in range(seeds):
        net, seconds = timed(trained, old, head, updates, seed)
        rows.append((f"learned, seed {seed}", updates, f"{accuracy(net, head, test):.3f}", seconds))
    table(("features", "updates", "test accuracy", "seconds"), rows)
    if arguments.plot is not None:
        draw(new, net, arguments.plot)


def trained(data: list[Tensor], head: SVMLayer, updates: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = convnet()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(updates):
        scores, asked = answers(net, head, episodes(data, generator))
        loss = nn.functional.cross_entropy(3.0 * scores.flatten(0, 1), asked.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def convnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64),
    )  # fmt: skip


def answers(net: nn.Module, head: SVMLayer, episode: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Scores (batch, queries, ways) and the right answers (batch, queries)."""
    known, labels, asked, right = episode
    count = known.shape[1]
    features = net(torch.cat((known, asked), 1).flatten(0, 1))
    features = nn.functional.normalize(features, dim=-1).unflatten(0, (len(known), -1))
    return head(features[:, :count], labels, features[:, count:]), right


@torch.no_grad()
def accuracy(net: nn.Module, head: SVMLayer, test: list[tuple[Tensor, ...]]) -> float:
    hits = []
    for episode in test:
        scores, right = answers(net, head, episode)
        hits.append((scores.argmax(-1) == right).double().mean())
    return float(torch.stack(hits).mean())


def classes(digits: range, turns: int) -> list[Tensor]:
    """One tensor of images (n, 1, 8, 8) for each digit and rotation."""
    pixels, digit = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    whose = torch.tensor(digit)
    return [torch.rot90(images[whose == k], r, (2, 3)) for k in digits for r in range(turns)]


def episodes(data: list[Tensor], generator: torch.Generator) -> tuple[Tensor, ...]:
    """A batch of episodes: labelled images, their labels, queries, their labels."""
    known, asked = [], []
    for _ in range(BATCH):
        chosen = torch.randperm(len(data), generator=generator)[:WAYS].tolist()
        for k in chosen:
            some = torch.randperm(len(data[k]), generator=generator)[: SHOTS + QUERIES]
            negative = torch.rand(len(some), 1, 1, 1, generator=generator) < 0.5
            images = torch.where(negative, 1 - data[k][some], data[k][some])
            known.append(images[:SHOTS])
            asked.append(images[SHOTS:])
    labels = torch.arange(WAYS).repeat_interleave(SHOTS).repeat(BATCH, 1)
    right = torch.arange(WAYS).repeat_interleave(QUERIES).repeat(BATCH, 1)
    shape = (BATCH, -1, 1, 8, 8)
    return torch.cat(known).reshape(shape), labels, torch.cat(asked).reshape(shape), right


@torch.no_grad()
def draw(data: list[Tensor], net: nn.Module, file: str) -> None:
    """Unseen digits and their negatives, in the first two principal directions of the features."""
    from matplotlib import pyplot

    few = [images[:30] for images in data]
    whose = np.repeat(range(5, 5 + len(few)), 30)
    both = torch.cat([*few, *(1 - images for images in few)])
    _, axes = pyplot.subplots(1, 2, figsize=(8, 4), layout="constrained")
    spaces = {"raw pixels": nn.Flatten(), "learned features": net}
    for ax, (name, features) in zip(axes, spaces.items(), strict=True):
        z = nn.functional.normalize(features(both), dim=-1).numpy()
        z = z - z.mean(0)
        plane = z @ np.linalg.svd(z, full_matrices=False)[2][:2].T
        for kind, marker, points in zip(
            ("as they are", "negatives"), "ox", np.split(plane, 2), strict=True
        ):
            for digit in sorted(set(whose)):
                label = f"{digit}, {kind}" if ax is axes[1] else "_"
                ax.scatter(
                    *points[whose == digit].T, s=14, marker=marker, color=f"C{digit}", label=label
                )
        ax.set(title=name, xlabel="first principal direction", xticks=[], yticks=[])
    axes[0].set_ylabel("second principal direction")
    axes[0].figure.legend(loc="outside lower center", ncols=5, fontsize="small")
    save(axes[0], file)


if __name__ == "__main__":
    main()
