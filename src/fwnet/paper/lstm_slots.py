"""Temporary."""

from __future__ import annotations
from typing import Any
import torch
from torch import nn
from fwnet.steps import StepRule
from fwnet.directions import Direction
from fwnet.directions.base import toward
from fwnet.learned.networks import CoordinateLSTM
from fwnet.vertices import Dense
from dataclasses import replace


class LSTMStep(StepRule):
    "tmp"

    def __init__(self, hidden: int = 20) -> None:
        super().__init__()
        self.c = nn.LSTMCell(1, hidden)
        self.d = nn.LSTMCell(hidden, hidden)
        self.h = nn.Linear(hidden, 1)
        nn.init.constant_(self.h.bias, -3.0)

    def init(self, problem: Any, it: Any) -> Any:
        b = it.x.shape[0] if problem.batch_dims else 1
        z = it.x.new_zeros(b, self.h.in_features)
        return (it.x.new_full((b, 1), 1.0), (z, z), (z, z))

    def forward(self, problem: Any, it: Any, move: Any, state: Any) -> Any:
        g, a, b = state
        a = self.c(g, a)
        b = self.d(a[0], b)
        g = torch.sigmoid(self.h(b[0]))
        return g[:, 0], (g, a, b)


class LSTMDirection(Direction):
    "tmp"

    def __init__(self, hidden: int = 20) -> None:
        super().__init__()
        self.lstm = CoordinateLSTM(hidden)

    def init(self, problem: Any, domain: Any, it: Any) -> Any:
        return self.lstm.init(it.x)

    def forward(self, problem: Any, it: Any, lin: Any, state: Any) -> Any:
        out, state = self.lstm(lin.gradient.detach(), state)
        v = Dense(torch.softmax(-out.reshape(it.x.shape), -1))
        return toward(
            problem, it, replace(lin, vertex=v, decrease=lin.along - v.inner(lin.gradient))
        ), state
