"""Learned updates of a network's weights: the paper's LSTMs for the kernel under an SVM."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn

from fwnet import checks

Parameters = dict[str, Tensor]
LSTMState = tuple[tuple[Tensor, Tensor], ...]  # (h, c) of each layer, (coordinates, hidden)
_CUT = 10.0  # gradients below exp(-10) enter as they are


@final
class LSTMUpdates(nn.Module):
    """θ <- θ + scale · LSTM(∇θ), coordinate by coordinate, one LSTM a kind of layer.

        o_t, h_{t+1} = LSTM_kind(log|g_t| and sign g_t, h_t);   θ_{t+1} = θ_t + scale · o_t

    Weights of convolutions (four dimensions) share one LSTM, all others another, as in the paper.
    Gradients of θ are inputs: nothing flows back through them.

    Arguments:
        hidden: units of each of the two layers.
        scale: of the output, so that an untrained LSTM moves little.

    Example:
        >>> import torch
        >>> from fwnet.learned.networks import LSTMUpdates
        >>> updates, theta = LSTMUpdates(), {"weight": torch.ones(2, 3)}
        >>> theta, state = updates(theta, {"weight": torch.ones(2, 3)}, updates.init(theta))
        >>> theta["weight"].shape
        torch.Size([2, 3])

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016); Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018).
    """

    def __init__(self, hidden: int = 20, scale: float = 0.1) -> None:
        super().__init__()
        self.hidden = checks.at_least("LSTMUpdates(hidden=...)", hidden, 1)
        self.scale = checks.positive("LSTMUpdates(scale=...)", scale)
        self.dense, self.convolution = CoordinateLSTM(hidden), CoordinateLSTM(hidden)

    def init(self, parameters: Parameters) -> dict[str, LSTMState]:
        """The states before the first update, by the kind of layer."""
        return {
            kind: self._lstms()[kind].init(torch.cat([parameters[n].flatten() for n in names]))
            for kind, names in _kinds(parameters).items()
        }

    def forward(
        self, parameters: Parameters, gradients: Parameters, state: dict[str, LSTMState]
    ) -> tuple[Parameters, dict[str, LSTMState]]:
        """The next weights and the next states."""
        moved, following = dict(parameters), {}
        for kind, names in _kinds(parameters).items():
            seen = torch.cat([gradients[name].detach().flatten() for name in names])
            out, following[kind] = self._lstms()[kind](seen, state[kind])
            parts = out.split([parameters[name].numel() for name in names])
            for name, part in zip(names, parts, strict=True):
                moved[name] = parameters[name] + self.scale * part.view_as(parameters[name])
        return moved, following

    def _lstms(self) -> dict[str, CoordinateLSTM]:
        return {"dense": self.dense, "convolution": self.convolution}


def _kinds(parameters: Parameters) -> dict[str, list[str]]:
    """Names by the LSTM that moves them."""
    kinds: dict[str, list[str]] = {}
    for name, theta in parameters.items():
        kinds.setdefault("convolution" if theta.ndim == 4 else "dense", []).append(name)
    return kinds


@final
class CoordinateLSTM(nn.Module):
    """Two LSTM layers with shared weights and a state for each coordinate.

        o_t, h_{t+1} = LSTM(log|g_t| and sign g_t, h_t)

    Arguments:
        hidden: units of each layer.
    """

    def __init__(self, hidden: int = 20) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTMCell(2, hidden), nn.LSTMCell(hidden, hidden)])
        self.head = nn.Linear(hidden, 1)
        nn.init.normal_(self.head.weight, std=0.1)
        nn.init.zeros_(self.head.bias)

    def init(self, theta: Tensor) -> LSTMState:
        """The state before the first step, for as many coordinates as theta has."""
        zero = theta.new_zeros(theta.numel(), self.head.in_features)
        return tuple((zero, zero) for _ in self.layers)

    def forward(self, gradient: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """The output `(coordinates,)` for a gradient of any shape, and the next state."""
        signal, following = log_and_sign(gradient.reshape(-1)), []
        for layer, (h, c) in zip(self.layers, state, strict=True):
            h, c = layer(signal, (h, c))
            following.append((h, c))
            signal = h
        return self.head(signal).squeeze(-1), tuple(following)


def log_and_sign(gradient: Tensor) -> Tensor:  # (...,) -> (..., 2)
    """(log|g|/p, sign g) where |g| ≥ e^−p, else (−1, e^p g), with p = 10: any scale is readable."""
    size = gradient.abs()
    large = size >= math.exp(-_CUT)
    logs = torch.where(large, size.clamp_min(math.exp(-_CUT)).log() / _CUT, -1.0)
    signs = torch.where(large, gradient.sign(), math.exp(_CUT) * gradient)
    return torch.stack([logs, signs], -1)
