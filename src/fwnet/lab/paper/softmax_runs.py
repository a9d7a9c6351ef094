"""Softmax classifiers on a convolutional network, trained on minibatches.

θ <- θ − update of ∇θ, for instance W <- (1 − γ) W − γ μ u vᵀ for matrices in a trace-norm ball
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fwnet.data import load, splits
from fwnet.learned.families.training_runs import NetworkStep
from fwnet.learned.networks import Parameters
from fwnet.learned.training.recurrences import OptimizerRun


@final
@dataclass(frozen=True, eq=False)
class Images:
    """Images `(n, channels, rows, columns)` with classes `(n,)`."""

    X: Tensor
    y: Tensor

    def head(self, count: int | None) -> Images:
        """The first images, where a test needs no more."""
        return Images(self.X[:count], self.y[:count])


def image_parts(
    name: str,
    rows: int | None,
    shares: tuple[float, float, float],
    test_points: int | None,
    seed: int,
) -> tuple[Images, Images, Images, Images]:
    """Three parts of the training images of a set, and its test images: no image in two parts.

    Arguments:
        name: of the set.
        rows: how many training images are used, drawn with the seed; None for all.
        shares: of the three parts.
        test_points: how many test images are used, None for all.
        seed: of the draws.
    """
    data = load(name)
    used = np.random.default_rng(seed).permutation(len(data.y))[:rows]
    parts = splits(data.y[used], shares, seed=seed)  # raises unless disjoint

    def images(x: np.ndarray, y: np.ndarray) -> Images:
        return Images(torch.from_numpy(x), torch.from_numpy(y.copy()))

    first, second, third = (
        images(*data.train(np.sort(used[part])))
        for part in (parts.optimizee, parts.optimizer, parts.test)
    )
    return first, second, third, images(*data.test(slice(test_points)))


@torch.no_grad()
def tested(net: nn.Module, parameters: Parameters, images: Images) -> dict[str, float]:
    """Loss, top-1 accuracy and confidence (mean largest probability) on other images."""
    logits = torch.cat([functional_call(net, parameters, (x,)) for x in images.X.split(1000)])
    return {
        "loss": cross_entropy(logits, images.y).item(),
        "accuracy": (logits.argmax(1) == images.y).float().mean().item(),
        "confidence": logits.softmax(1).amax(1).mean().item(),
    }


def curves(
    run: OptimizerRun[NetworkStep], net: nn.Module, steps: int, every: int, test: Images
) -> dict[str, list[float]]:
    """Test loss, accuracy and confidence at 0, every, 2·every, …; and the training losses."""
    seen = [tested(net, run.state.parameters, test)]
    for _ in range(steps // every):
        run.record(every)
        seen.append(tested(net, run.state.parameters, test))
    run.record(steps % every)
    return {key: [each[key] for each in seen] for key in seen[0]} | {"train": run.losses}
