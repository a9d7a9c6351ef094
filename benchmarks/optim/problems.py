"""The four networks and their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn

from benchmarks.optim_defaults import digits, mlp
from benchmarks.trace.mnist_cnn import images
from benchmarks.trace.mnist_cnn import network as paper_cnn
from fwnet.data import load

Data = tuple[Tensor, Tensor]
CONTEXT = 48


@dataclass(frozen=True)
class Problem:
    """A network for a seed, its data (training, validation, test), and how it is trained."""

    name: str
    network: Callable[[int], nn.Module]
    data: Callable[[int], tuple[Data, Data, Data]]
    steps: int
    batch: int
    needs_files: bool = False


def mnist(seed: int) -> tuple[Data, Data, Data]:
    return _mnist()


@lru_cache
def _mnist() -> tuple[Data, Data, Data]:
    train, validation = images("train", range(4000)), images("train", range(4000, 5500))
    return train, validation, images("t10k", range(2000))


def cifar(seed: int) -> tuple[Data, Data, Data]:
    return _cifar()


@lru_cache
def _cifar() -> tuple[Data, Data, Data]:
    """The first 4000, the next 1000, and the first 2000 test images, in [−1, 1]."""
    data = load("cifar10", download=False)
    (X, y), (X_test, y_test) = data.train(), data.test()

    def part(x: object, labels: object, begin: int, end: int) -> Data:
        scaled = torch.tensor(x[begin:end], dtype=torch.float32) * 2 - 1  # type: ignore[index]
        return scaled.reshape(-1, 3, 32, 32), torch.tensor(labels[begin:end]).long()  # type: ignore[index]

    return part(X, y, 0, 4000), part(X, y, 4000, 5000), part(X_test, y_test, 0, 2000)


def small_cnn(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


@lru_cache
def text() -> tuple[Tensor, int]:
    """Python's help topics as numbers of characters; rare characters share one number."""
    whole = "\n".join(topics[name] for name in sorted(topics))
    counts: dict[str, int] = {}
    for letter in whole:
        counts[letter] = counts.get(letter, 0) + 1
    known = sorted(letter for letter, count in counts.items() if count >= 20)
    number = {letter: k for k, letter in enumerate(known)}
    return torch.tensor([number.get(letter, len(known)) for letter in whole]), len(known) + 1


def characters(seed: int) -> tuple[Data, Data, Data]:
    """Windows of the text and the characters that follow: 80 %, 10 % and 10 % of it."""
    whole, _ = text()
    windows = whole[: len(whole) // (CONTEXT + 1) * (CONTEXT + 1)].reshape(-1, CONTEXT + 1)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    first, second, third = windows[order].split(
        [len(windows) - 2 * (len(windows) // 10), len(windows) // 10, len(windows) // 10]
    )
    second, third = second[:300], third[:600]
    return (
        (first[:, :-1], first[:, 1:]),
        (second[:, :-1], second[:, 1:]),
        (third[:, :-1], third[:, 1:]),
    )


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class CharacterGPT(nn.Module):
    """Five blocks of width 128: about a million weights."""

    def __init__(self, width: int = 128, blocks: int = 5) -> None:
        super().__init__()
        _, size = text()
        self.token, self.place = nn.Embedding(size, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, size)

    def forward(self, x: Tensor) -> Tensor:
        h = self.token(x) + self.place.weight
        logits: Tensor = self.head(self.norm(self.blocks(h)))
        return logits


def gpt(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return CharacterGPT()


PROBLEMS = (
    Problem("digits MLP", mlp(64, 64, 10), digits, 495, 32),
    Problem("MNIST CNN", paper_cnn, mnist, 250, 64, needs_files=True),
    Problem("CIFAR-10 CNN", small_cnn, cifar, 250, 64, needs_files=True),
    Problem("character GPT", gpt, characters, 200, 16),
)
