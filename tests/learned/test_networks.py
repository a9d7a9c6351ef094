"""Learned updates of networks."""

import pytest
import torch

from fwnet.learned import LSTMUpdates


def test_kinds_have_lstms_of_their_own() -> None:
    torch.manual_seed(0)
    updates = LSTMUpdates(hidden=5)
    theta = {"conv": torch.ones(2, 1, 3, 3), "dense": torch.ones(4, 3), "bias": torch.ones(4)}
    gradients = {name: torch.full_like(value, 0.3) for name, value in theta.items()}
    moved, state = updates(theta, gradients, updates.init(theta))
    assert {name: value.shape for name, value in moved.items()} == {
        name: value.shape for name, value in theta.items()
    }
    assert set(state) == {"convolution", "dense"}
    torch.testing.assert_close(moved["dense"][0, 0], moved["bias"][0])  # one LSTM, one gradient
    assert not torch.allclose(moved["conv"].flatten()[0], moved["bias"][0])


def test_coordinates_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    updates = LSTMUpdates(hidden=5)
    both = {"a": torch.zeros(3), "b": torch.zeros(2)}
    gradients = {"a": torch.tensor([1.0, -2.0, 0.0]), "b": torch.tensor([5.0, 1e-6])}
    state, alone_state = updates.init(both), updates.init({"a": both["a"]})
    alone = {"a": both["a"]}
    for _ in range(3):
        both, state = updates(both, gradients, state)
        alone, alone_state = updates(alone, gradients, alone_state)
    torch.testing.assert_close(both["a"], alone["a"])


def test_it_learns_to_descend() -> None:
    torch.manual_seed(0)
    updates = LSTMUpdates()
    optimizer = torch.optim.Adam(updates.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        theta = {"w": torch.ones(3, 2)}
        state, total = updates.init(theta), torch.zeros(())
        for _ in range(10):
            theta, state = updates(theta, {"w": 2 * theta["w"]}, state)
            total = total + theta["w"].square().sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    assert losses[-1] < 0.3 * losses[0]


def test_arguments() -> None:
    with pytest.raises(ValueError, match="must be a positive finite number"):
        LSTMUpdates(scale=0.0)
