"""What the tests of learned controllers share: families and a controller of each kind."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import fwnet
from fwnet import learned


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_gaussians(count: int = 60, d: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = seeded(seed)
    X = torch.randn(count, d, generator=generator, dtype=torch.float64)
    y = torch.arange(count) % 2
    return X + 0.8 * y.unsqueeze(-1), y


def svm_family(**options: object) -> learned.families.SVMFamily:
    options = {"n": 24, "C": 10.0, "dtype": torch.float64} | options
    return learned.families.SVMFamily([two_gaussians()], **options)


ON_THE_SIMPLEX: dict[str, Callable[[], learned.Controller]] = {
    "LSTMStep": learned.LSTMStep,
    "LSTMDirection": learned.LSTMDirection,
    "L2LSoftmax": learned.L2LSoftmax,
    "L2LLagrangian": learned.L2LLagrangian,
    "HierarchicalDirection": lambda: learned.HierarchicalDirection(hidden=5, blocks=2),
    "HierarchicalL2L": lambda: learned.HierarchicalL2L(hidden=5),
    "LearnedStep": learned.LearnedStep,
    "LearnedPairwise": learned.LearnedPairwise,
    "LearnedStart": learned.LearnedStart,
    "LearnedAtoms": lambda: learned.LearnedAtoms(memory=3),
    "LearnedAtoms, columns": lambda: learned.LearnedAtoms(memory=3, exchanges=2),
    "LearnedDirection": lambda: learned.LearnedDirection(memory=3),
    "LearnedDirection, plane": lambda: learned.LearnedDirection(memory=0, exchanges=0),
    "LearnedDirection, projected": lambda: learned.LearnedDirection(memory=2, projected=True),
}


def with_random_weights(
    controller: learned.Controller, seed: int, scale: float
) -> learned.Controller:
    """The controller with weights of the given size: 1 is wild, 100 saturates every unit."""
    generator = seeded(seed)
    with torch.no_grad():
        for weight in controller.parameters():
            weight.copy_(scale * torch.randn(weight.shape, generator=generator))
    return controller


def values(result: fwnet.Result) -> Tensor:
    """f at every iterate, `(records, batch)`."""
    return torch.stack([torch.as_tensor(record.value) for record in result.trace])
