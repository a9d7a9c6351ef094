"""Kernel networks: the default one, checks of a given one, features in slices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn

_SLICE = 1024  # points that a prediction sends through the network at a time


@final
class Standardize(nn.Module):
    """(x − mean) / deviation, with the weighted numbers of the training points."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, X: Tensor, weight: Tensor) -> None:
        super().__init__()
        share = weight / weight.sum()
        mean = share @ X
        deviation = (share @ (X - mean).square()).sqrt()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > 0, deviation, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


def default_module(X: Tensor, weight: Tensor) -> nn.Module:
    """Standardise, 32 tanh units, 16 tanh features, in double precision: for points X `(n, d)`."""
    if X.ndim != 2:
        raise ValueError(
            f"DeepSVC(module=None) builds a network for points (n, d); got X of shape "
            f"{tuple(X.shape)}. Pass a module that takes such input."
        )
    layers = nn.Linear(X.shape[1], 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh()
    return nn.Sequential(Standardize(X, weight), *layers).double()


def own_module(module: Any, X: Tensor, weight: Tensor) -> nn.Module:
    """A network of our own: a copy of a given one, what a function builds, or the default."""
    made: Any = module
    if module is None:
        made = default_module(X, weight)
    elif isinstance(module, nn.Module):
        made = copy.deepcopy(module)
    elif callable(module):
        made = module()
    if not isinstance(made, nn.Module):
        raise TypeError(
            "DeepSVC(module=...) must be a torch.nn.Module, a function without arguments that "
            f"builds one, or None; got {made!r}."
        )
    if not any(p.requires_grad for p in made.parameters()):
        raise ValueError(
            "DeepSVC(module=...) must have parameters to train; got "
            f"{type(made).__name__} without any that requires a gradient. Use "
            "FWSVC(kernel='linear') on fixed features."
        )
    return made


def kind_of(module: nn.Module) -> tuple[torch.dtype, torch.device]:
    """The dtype and the device that the network computes with."""
    first = next(p for p in module.parameters() if p.is_floating_point())
    return first.dtype, first.device


def check_features(features: Any, points: int) -> Tensor:
    """Return the features `(points, d)` in double precision if they have that shape."""
    if not isinstance(features, Tensor) or not features.is_floating_point():
        found = features.dtype if isinstance(features, Tensor) else type(features).__name__
        raise TypeError(f"DeepSVC(module=...) must return a tensor of real numbers; got {found}.")
    if features.ndim != 2 or features.shape[0] != points or features.shape[1] == 0:
        raise ValueError(
            f"DeepSVC(module=...) must map {points} points to features of shape ({points}, d); "
            f"got {tuple(features.shape)}. End the network with nn.Flatten() or a linear layer."
        )
    return features.double()


def try_points(module: nn.Module, points: Tensor) -> None:
    """Send a few points through the network; raise a ValueError if it cannot take them."""
    try:
        features = module(points)
    except RuntimeError as error:  # how torch says that shapes do not fit
        raise ValueError(
            f"DeepSVC(module=...) must take points of shape {tuple(points.shape[1:])}, as in X; "
            f"it fails on them: {error}"
        ) from error
    check_features(features, len(points))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards each part is in its mode again."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training


def features_of(module: nn.Module, X: Tensor) -> Tensor:
    """Features `(n, d)` of all points in evaluation mode, a slice at a time."""
    with evaluating(module):
        parts = X.split(_SLICE)
        return torch.cat([check_features(module(part), part.shape[0]) for part in parts])
