"""The paper's recurrent networks and a hierarchical one, trained alike: no targets, for the record.

Each is trained from scratch by one configuration, three seeds, on the training digits; early
stopping by the validation digits; iterations on the test digits. Nothing safeguards them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.learned.simplex import by_name, compare, target
from benchmarks.learned.targets import Target
from fwnet import learned
from fwnet.learned.families import LogUniform, digits_pairs

SIZES, C = (64, 200), LogUniform(1.0, 10.0)
DIRECTIONS: dict[str, Callable[[], learned.Controller]] = {
    "L2LC_∇, LSTM": learned.LSTMDirection,
    "L2LC_∇, LSTM on log and sign": lambda: learned.LSTMDirection(preprocess=True),
    "L2LC_∇, hierarchical": lambda: learned.HierarchicalDirection(blocks=2),
    "L2L softmax, LSTM": learned.L2LSoftmax,
    "L2L softmax, hierarchical": lambda: learned.HierarchicalL2L(blocks=2),
}


def recurrent(problems: int, seeds: int = 3, steps: int = 200) -> list[Target]:
    """Iterations to a relative suboptimality of 0.1 and 1e-2, against 2/(t+2) and tuned Adam."""
    rivals = ("2/(t+2)", "Adam softmax")
    trained = {
        name: [_trained(make, seed, steps) for seed in range(seeds)]
        for name, make in DIRECTIONS.items()
    }
    tolerances = (1e-1, 1e-2)
    found = compare(trained, digits_pairs, C, by_name(*rivals), problems, 500, SIZES, tolerances)
    return [
        target(f"{name}, to {tolerance:g}", found, rival, tolerance, "iterations", None, name)
        for tolerance in tolerances
        for name in DIRECTIONS
        for rival in rivals
    ]


def _trained(make: Callable[[], Any], seed: int, steps: int) -> learned.Controller:
    torch.manual_seed(seed)  # of the initial weights, which torch draws from its own generator
    config = learned.MetaConfig(
        steps=steps, learning_rate=1e-2, curriculum=True, horizon=(20, 100), seed=seed
    )
    training, validation = (digits_pairs(part, C, SIZES) for part in ("train", "validation"))
    return learned.meta_train(make(), training, config, validation=validation)[0]
