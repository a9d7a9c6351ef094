"""The hierarchical RNN: batches, blocks, permutations, and its place in three optimizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.learned.controllers import HierarchicalRNN
from learned_cases import seeded, svm_family


def network(blocks: int = 2) -> HierarchicalRNN:
    torch.manual_seed(0)
    net = HierarchicalRNN(hidden=6, blocks=blocks)
    torch.nn.init.normal_(net.rate.weight)
    return net


def gradients(*shape: int) -> list[torch.Tensor]:
    generator = seeded(1)
    return [torch.randn(*shape, generator=generator) for _ in range(4)]


def run(net: HierarchicalRNN, inputs: list[torch.Tensor], **options: object) -> torch.Tensor:
    memory, out = None, []
    for entries in inputs:
        answer, memory = net(entries, memory, **options)
        out.append(answer)
    return torch.stack(out)


def test_a_batch_equals_a_loop() -> None:
    net, inputs = network(), gradients(3, 8)
    together = run(net, inputs)
    alone = torch.stack([run(net, [entry[k] for entry in inputs]) for k in range(3)], 1)
    assert torch.allclose(together, alone, atol=1e-6)


def test_permuting_a_block_permutes_its_answers() -> None:
    net, inputs = network(), gradients(8)
    order = torch.tensor([3, 1, 0, 2, 6, 7, 5, 4])  # within either half
    assert torch.allclose(run(net, [g[order] for g in inputs]), run(net, inputs)[:, order])


def test_blocks_and_the_whole_matter() -> None:
    """A coordinate hears of its own block at once, of another block a step later."""
    net, inputs = network(), gradients(8)
    other = [g.clone() for g in inputs]
    other[0][6] += 3.0  # in the second block
    before, after = run(net, inputs), run(net, other)
    own, far = (before - after)[:, 5].abs(), (before - after)[:, 0].abs()
    assert own[0] > 0
    assert far[0] == 0
    assert far[1] > 0


def test_sizes_are_blocks() -> None:
    net, inputs = network(), gradients(8)
    assert torch.allclose(run(net, inputs), run(net, inputs, sizes=[4, 4]))
    assert not torch.allclose(run(net, inputs), run(net, inputs, sizes=[2, 6]))
    with pytest.raises(ValueError, match="must be positive and sum to 8; got"):
        net(inputs[0], None, sizes=[3, 4])


def test_gradients_reach_every_weight() -> None:
    net, inputs = network(), gradients(8)
    run(net, inputs).square().sum().backward()
    assert all(bool(w.grad is not None and w.grad.abs().sum() > 0) for w in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [learned.HierarchicalDirection, learned.HierarchicalL2L])
def test_it_is_trained_saved_and_loaded(kind: type[learned.Controller], tmp_path: Path) -> None:
    torch.manual_seed(0)
    family = svm_family()
    config = learned.MetaConfig(steps=12, unroll=8, batch=4, learning_rate=1e-2, validate_every=4)
    first = kind(hidden=5, blocks=2)
    trained, history = learned.meta_train(first, family, config)
    judged = [record.validation for record in history if record.validation is not None]
    assert min(judged) < judged[0] or judged[-1] < judged[0]
    learned.save(trained, tmp_path / "mine.fwnet")
    loaded = learned.load(tmp_path / "mine.fwnet")
    problem = family.sample(2, seeded(4))
    one, other = (c.solver(fwnet.Simplex(), max_steps=6, tol=0.0) for c in (trained, loaded))
    assert torch.equal(one(problem).x, other(problem).x)
    assert sum(w.numel() for w in kind().parameters()) < 2500


def test_updates_of_a_network_learn_to_descend() -> None:
    torch.manual_seed(0)
    updates = learned.HierarchicalUpdates()
    optimizer = torch.optim.Adam(updates.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        theta = {"w": torch.ones(3, 2), "b": 0.5 * torch.ones(4)}
        state, total = updates.init(theta), torch.zeros(())
        for _ in range(8):
            theta, state = updates(theta, {k: 2 * t for k, t in theta.items()}, state)
            total = total + sum(t.square().sum() for t in theta.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    assert losses[-1] < 0.5 * losses[0]
    assert {name: t.shape for name, t in theta.items()} == {"w": (3, 2), "b": (4,)}


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match=r"HierarchicalRNN\(hidden=...\) must be a whole number"):
        learned.HierarchicalDirection(hidden=0)
    with pytest.raises(ValueError, match=r"HierarchicalRNN\(blocks=...\) must be a whole number"):
        learned.HierarchicalL2L(blocks=0)
    with pytest.raises(ValueError, match="must be a positive finite number"):
        learned.HierarchicalUpdates(scale=0.0)
