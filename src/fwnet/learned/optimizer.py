"""Optimizer: learned updates as an optimizer of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from fwnet.learned.networks import LearnedUpdates


@final
class Optimizer(torch.optim.Optimizer):
    """θ <- updates(θ, ∇θ): learned updates of a network's weights as a torch optimizer.

    The updates' own weights stay as they are. Their memory of the run is in `state_dict()`, its
    named tuples as plain ones, so that `torch.load` reads it. There is no learning rate.

    Arguments:
        parameters: of the network.
        updates: trained by `meta_train(updates, families.TrainingRuns(...))`.

    Example:
        >>> from fwnet import learned
        >>> net = torch.nn.Linear(3, 1)
        >>> optimizer = learned.Optimizer(net.parameters(), learned.LSTMUpdates())
        >>> net(torch.ones(3)).square().sum().backward()
        >>> optimizer.step()
    """

    def __init__(self, parameters: Iterable[Tensor], updates: LearnedUpdates) -> None:
        if not isinstance(updates, LearnedUpdates):
            raise TypeError(f"Optimizer(updates) must be such as LSTMUpdates(); got {updates!r}.")
        super().__init__(parameters, {})
        if len(self.param_groups) > 1:
            raise ValueError("Optimizer takes one group of parameters: all share one memory.")
        updates.check_weights()
        self.updates = updates

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; a parameter without a gradient stays, and the updates see 0 for it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        names = {f"{place}": theta for place, theta in enumerate(self.param_groups[0]["params"])}
        gradients = {
            name: torch.zeros_like(theta) if theta.grad is None else theta.grad
            for name, theta in names.items()
        }
        _check_finite(gradients)
        kept: dict[str, Any] = self.state["updates"]  # type: ignore[index]
        if "memory" not in kept:
            kept["memory"] = self.updates.init(names)
        moved, kept["memory"] = self.updates(names, gradients, kept["memory"])
        for name, theta in names.items():
            if theta.grad is not None:
                theta.copy_(moved[name])
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The memory and the one group, as plain containers."""
        found = super().state_dict()
        return {**found, "state": _plain(found["state"])}


def _check_finite(gradients: Mapping[str, Tensor]) -> None:
    """Raise for a gradient that is not finite, which an LSTM may turn into a finite update."""
    for place, gradient in gradients.items():
        if not bool(torch.isfinite(gradient).all()):
            raise FloatingPointError(
                f"Optimizer.step: the gradient of parameter {place}, of shape "
                f"{tuple(gradient.shape)}, has NaN or infinite entries. Check the loss; clip "
                "gradients that overflow, or skip this step."
            )


def _plain(state: Any) -> Any:
    """A state with plain tuples instead of named ones."""
    if isinstance(state, dict):
        return {key: _plain(part) for key, part in state.items()}
    if isinstance(state, tuple):
        return tuple(_plain(part) for part in state)
    return [_plain(part) for part in state] if isinstance(state, list) else state
