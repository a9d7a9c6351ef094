"""Learned updates of a network's weights: the paper's LSTMs, and a hierarchical RNN."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn

from fwnet.learned.controllers.base import Learned
from fwnet.learned.controllers.entrywise import EntrywiseLSTM, Memory
from fwnet.learned.controllers.hierarchical import HierarchicalRNN, Memories
from fwnet.numerics import checks

Parameters = dict[str, Tensor]


class Updates(Protocol):
    """How a network's weights move: state in, state out."""

    def init(self, parameters: Parameters) -> Any:
        """The state before the first update."""

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        """The next weights and state."""


class LearnedUpdates(Learned, ABC):
    """Learned updates of a network's weights, an `Updates` that is trained by `TrainingRuns`.

    Example:
        >>> from fwnet import learned
        >>> isinstance(learned.LSTMUpdates(), learned.LearnedUpdates)
        True
    """

    @abstractmethod
    def init(self, parameters: Parameters) -> Any:
        """The state before the first update."""

    @abstractmethod
    def forward(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        """The next weights and the next state; nothing flows back through the gradients.

        Arguments:
            state: from `init` or the last call. Its named tuples are plain ones if it comes from
                the `state_dict()` of an `Optimizer` or from a checkpoint of `DeepSVC`.
        """


@final
class LSTMUpdates(LearnedUpdates):
    """θ <- θ + scale · LSTM(∇θ), coordinate by coordinate, one LSTM a kind of layer.

        o_t, h_{t+1} = LSTM_kind(log|g_t| and sign g_t, h_t);   θ_{t+1} = θ_t + scale · o_t

    Weights of convolutions (four dimensions) share one LSTM, all others another, as in the paper.
    Gradients of θ are inputs: nothing flows back through them.

    Arguments:
        hidden: units of each of the two layers.
        scale: of the output, so that an untrained LSTM moves little.

    Example:
        >>> import torch
        >>> from fwnet.learned import LSTMUpdates
        >>> updates, theta = LSTMUpdates(), {"weight": torch.ones(2, 3)}
        >>> theta, state = updates(theta, {"weight": torch.ones(2, 3)}, updates.init(theta))
        >>> theta["weight"].shape
        torch.Size([2, 3])

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016); Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018).
    """

    def __init__(self, hidden: int = 20, scale: float = 0.1) -> None:
        super().__init__(hidden=hidden, scale=scale)
        self.hidden = checks.at_least("LSTMUpdates(hidden=...)", hidden, 1)
        self.scale = checks.positive("LSTMUpdates(scale=...)", scale)
        self.dense = EntrywiseLSTM(hidden, layers=2, preprocess=True)
        self.convolution = EntrywiseLSTM(hidden, layers=2, preprocess=True)

    def init(self, parameters: Parameters) -> dict[str, Memory | None]:
        """The memories before the first update, by the kind of layer."""
        return dict.fromkeys(_kinds(parameters))

    def forward(
        self, parameters: Parameters, gradients: Parameters, state: dict[str, Memory | None]
    ) -> tuple[Parameters, dict[str, Memory | None]]:
        """The next weights and the next states."""
        moved = dict(parameters)
        following: dict[str, Memory | None] = {}
        for kind, names in _kinds(parameters).items():
            seen = torch.cat([gradients[name].detach().flatten() for name in names])
            lstm = self.dense if kind == "dense" else self.convolution
            out, following[kind] = lstm(seen, state[kind])
            parts = out.split([parameters[name].numel() for name in names])
            for name, part in zip(names, parts, strict=True):
                moved[name] = parameters[name] + self.scale * part.view_as(parameters[name])
        return moved, following


@final
class HierarchicalUpdates(LearnedUpdates):
    """θ <- θ + scale · RNN(∇θ), every parameter tensor a block of one hierarchical RNN.

    The same protocol as `LSTMUpdates`; the tensors know of each other through the network's state.

    Arguments:
        hidden: units of each level.
        scale: of the output, so that an untrained RNN moves little.

    Example:
        >>> from fwnet import learned
        >>> network = torch.nn.Linear(3, 2)
        >>> updates: learned.LearnedUpdates = learned.HierarchicalUpdates()
        >>> sum(weight.numel() for weight in updates.parameters()) > 0
        True

    Reference: Wichrowska et al., Learned optimizers that scale and generalize (2017).
    """

    def __init__(self, hidden: int = 10, scale: float = 0.1) -> None:
        super().__init__(hidden=hidden, scale=scale)
        self.scale = checks.positive("HierarchicalUpdates(scale=...)", scale)
        self.network = HierarchicalRNN(hidden)

    def init(self, parameters: Parameters) -> Memories | None:
        """The memory before the first update."""
        return None

    def forward(
        self, parameters: Parameters, gradients: Parameters, state: Memories | None
    ) -> tuple[Parameters, Memories | None]:
        """The next weights and the next state."""
        sizes = [theta.numel() for theta in parameters.values()]
        seen = torch.cat([gradients[name].detach().flatten() for name in parameters])
        out, state = self.network(seen, state, sizes)
        parts = zip(parameters.items(), out.split(sizes), strict=True)
        moved = {name: theta + self.scale * part.view_as(theta) for (name, theta), part in parts}
        return moved, state


def _kinds(parameters: Parameters) -> dict[str, list[str]]:
    """Names by the LSTM that moves them."""
    kinds: dict[str, list[str]] = {}
    for name, theta in parameters.items():
        kinds.setdefault("convolution" if theta.ndim == 4 else "dense", []).append(name)
    return kinds


def first_parameters(net: nn.Module) -> Parameters:
    """A copy of the network's weights, where a run starts."""
    return {name: theta.detach().clone() for name, theta in net.named_parameters()}
