"""Optimizers as functions, against torch's own."""

from collections.abc import Callable

import pytest
import torch

from fwnet.lab.paper.updates import Adam, GradientDescent
from fwnet.learned.networks import Updates


@pytest.mark.parametrize(
    ("updates", "make"),
    [
        (Adam(0.05), lambda p: torch.optim.Adam(p, lr=0.05)),
        (GradientDescent(0.05), lambda p: torch.optim.SGD(p, lr=0.05)),
    ],
    ids=["adam", "gradient descent"],
)
def test_updates_are_those_of_torch(
    updates: Updates, make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
) -> None:
    start = torch.linspace(-1, 2, 6, dtype=torch.float64).reshape(2, 3)
    theirs = start.clone().requires_grad_()
    optimizer = make([theirs])
    ours = {"w": start.clone()}
    state = updates.init(ours)
    for _ in range(30):
        optimizer.zero_grad()
        (theirs**4).sum().backward()
        optimizer.step()
        ours, state = updates(ours, {"w": 4 * ours["w"] ** 3}, state)
    torch.testing.assert_close(ours["w"], theirs.detach(), rtol=1e-10, atol=1e-12)
