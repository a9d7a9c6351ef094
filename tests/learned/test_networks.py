"""Learned updates of networks: what they move, how they are trained, as an optimizer of torch."""

import copy
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from fwnet import learned
from fwnet.learned import HierarchicalUpdates, LSTMUpdates
from fwnet.learned.families import TrainingRuns
from fwnet.learned.training.tasks import with_seed


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


def three_classes(seed: int) -> tuple[Tensor, Tensor]:
    y = torch.arange(60) % 3
    noise = torch.randn(60, 5, generator=torch.Generator().manual_seed(seed))
    return noise + 2 * nn.functional.one_hot(y, 5), y


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


RUNS, OTHERS = TrainingRuns(network, three_classes(0), 20), TrainingRuns(network, three_classes(1))
CONFIG = learned.MetaConfig(
    steps=12,
    horizon=20,
    unroll=10,
    batch=1,
    learning_rate=0.01,
    validate_every=3,
    validation_problems=3,
)


def test_a_last_step_alone_teaches_updates_nothing() -> None:
    """The loss of one step after 20 does not depend on the updates, nor does that of one in all."""
    config = dataclasses.replace(CONFIG, steps=1, horizon=21, validate_every=1)
    _, history = learned.meta_train(with_seed(LSTMUpdates, 0), RUNS, config, validation=OTHERS)
    assert len(history) == 1
    with pytest.raises(ValueError, match="finds no path from LSTMUpdates's weights"):
        learned.meta_train(LSTMUpdates(), RUNS, dataclasses.replace(config, horizon=1))


@pytest.mark.slow
@pytest.mark.parametrize("make", [LSTMUpdates, HierarchicalUpdates])
def test_updates_are_trained_on_trainings_of_networks(
    make: Callable[[], nn.Module], tmp_path: Path
) -> None:
    first = with_seed(make, 0)
    before = torch.get_rng_state()
    updates, history = learned.meta_train(first, RUNS, CONFIG, validation=OTHERS)
    assert torch.equal(torch.get_rng_state(), before)
    assert not history.failed
    assert min(history.validations) < 0.9 * history.initial
    assert history[0].horizon == 20
    with pytest.raises(KeyboardInterrupt):
        learned.meta_train(first, Stopped(4), CONFIG, validation=OTHERS, out=tmp_path)
    resumed, _ = learned.meta_train(first, RUNS, CONFIG, validation=OTHERS, out=tmp_path)
    assert torch.equal(*(parameters_to_vector(u.parameters()) for u in (resumed, updates)))
    loaded = learned.load(tmp_path / "controller.fwnet")
    assert type(loaded) is type(updates)
    assert torch.equal(*(parameters_to_vector(u.parameters()) for u in (loaded, updates)))


class Stopped(learned.TrainingTask):
    """The same runs, until some were drawn."""

    def __init__(self, left: int) -> None:
        self.left = left

    def episode(self, learned, config, generator):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return RUNS.episode(learned, config, generator)

    def judge(self, config):  # type: ignore[no-untyped-def]
        return RUNS.judge(config)

    def describe(self, config: learned.MetaConfig, generator: torch.Generator) -> str:
        return RUNS.describe(config, generator)


def test_the_objective_of_a_run_has_the_gradient_of_its_losses() -> None:
    """Against autograd through two updates, the gradients held fixed as the updates do."""
    updates, net = with_seed(lambda: LSTMUpdates(4), 1), with_seed(network, 2)
    runs = TrainingRuns(lambda: copy.deepcopy(net), three_classes(0), 20)
    run = runs.episode(updates, CONFIG, torch.Generator().manual_seed(0))()
    found = torch.autograd.grad(run.run(3), list(updates.dense.parameters()))
    recurrence = runs.draw(updates, torch.Generator().manual_seed(0))
    order = torch.Generator().manual_seed(recurrence.seed)
    theta = {name: weight.detach() for name, weight in net.named_parameters()}
    state, total = updates.init(theta), torch.zeros(())
    for _ in range(3):
        rows = torch.randint(60, (20,), generator=order)
        answers = torch.func.functional_call(net, theta, (runs.X[rows],))
        loss = cross_entropy(answers, runs.y[rows])
        total = total + loss
        leaves = {name: t.detach().requires_grad_() for name, t in theta.items()}
        answers = torch.func.functional_call(net, leaves, (runs.X[rows],))
        gradients = torch.autograd.grad(cross_entropy(answers, runs.y[rows]), [*leaves.values()])
        theta, state = updates(theta, dict(zip(theta, gradients, strict=True)), state)
    expected = torch.autograd.grad(total, list(updates.dense.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_the_objective_of_a_run_is_the_sum_of_its_losses() -> None:
    """So that evolution strategies, which see no gradient, train what back-propagation trains."""
    updates = with_seed(lambda: LSTMUpdates(4), 1)
    for grad in (True, False):
        run = RUNS.episode(updates, CONFIG, torch.Generator().manual_seed(0))()
        with torch.set_grad_enabled(grad):
            total = run.run(5)
        assert total.item() == pytest.approx(sum(run.losses), rel=1e-6)


def test_evolution_strategies_train_updates() -> None:
    strategies = learned.EvolutionStrategies(pairs=4)
    config = dataclasses.replace(CONFIG, gradient=strategies, horizon=8, validate_every=2)
    _, history = learned.meta_train(with_seed(lambda: LSTMUpdates(4), 0), RUNS, config)
    assert not history.failed
    assert all(4.0 < record.loss < 20.0 for record in history)  # eight losses near log 3


def test_as_an_optimizer_they_move_as_the_function_does() -> None:
    updates, net = with_seed(LSTMUpdates, 0), with_seed(network, 0)
    X, y = three_classes(0)
    theta = {name: weight.detach().clone() for name, weight in net.named_parameters()}
    state = updates.init(theta)
    optimizer = learned.Optimizer(net.parameters(), updates)
    for step in range(6):
        if step == 3:  # a checkpoint in between
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = learned.Optimizer(net.parameters(), updates)
            optimizer.load_state_dict(saved)
        leaves = {name: t.detach().requires_grad_() for name, t in theta.items()}
        loss = cross_entropy(torch.func.functional_call(net, leaves, (X,)), y)
        gradients = torch.autograd.grad(loss, [*leaves.values()])
        with torch.no_grad():
            theta, state = updates(theta, dict(zip(theta, gradients, strict=True)), state)
        optimizer.zero_grad()
        cross_entropy(net(X), y).backward()
        optimizer.step()
    for name, weight in net.named_parameters():
        torch.testing.assert_close(weight.detach(), theta[name])


def test_an_optimizer_leaves_parameters_without_a_gradient() -> None:
    """As torch's own optimizers do: layers that are frozen or unused must not drift."""
    updates, net = with_seed(LSTMUpdates, 0), with_seed(network, 0)
    X, y = three_classes(0)
    first = {name: weight.detach().clone() for name, weight in net.named_parameters()}
    optimizer = learned.Optimizer(net.parameters(), updates)
    optimizer.step()  # no gradient at all
    assert all(torch.equal(weight, first[name]) for name, weight in net.named_parameters())
    net.get_submodule("0").requires_grad_(False)
    cross_entropy(net(X), y).backward()
    optimizer.step()
    for name, weight in net.named_parameters():
        assert torch.equal(weight, first[name]) == name.startswith("0")


@pytest.mark.parametrize("make", [LSTMUpdates, HierarchicalUpdates])
def test_an_optimizer_continues_from_a_file_that_torch_reads(
    make: Callable[[], learned.LearnedUpdates],
) -> None:
    updates, net = with_seed(make, 0), with_seed(network, 0)
    X, y = three_classes(0)

    def advance(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            cross_entropy(net(X), y).backward()
            optimizer.step()

    optimizer = learned.Optimizer(net.parameters(), updates)
    advance(net, optimizer)
    file, twin = io.BytesIO(), copy.deepcopy(net)
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = learned.Optimizer(twin.parameters(), updates)
    other.load_state_dict(torch.load(file, weights_only=True))
    advance(net, optimizer)
    advance(twin, other)
    assert torch.equal(*(parameters_to_vector(each.parameters()) for each in (net, twin)))


@pytest.mark.parametrize("entry", [torch.nan, torch.inf])
def test_an_optimizer_refuses_gradients_that_are_not_finite(entry: float) -> None:
    net = with_seed(network, 0)
    optimizer = learned.Optimizer(net.parameters(), LSTMUpdates())
    for weight in net.parameters():
        weight.grad = torch.zeros_like(weight)
    list(net.parameters())[2].grad[1, 0] = entry  # type: ignore[index]
    with pytest.raises(FloatingPointError, match=r"parameter 2, of shape \(3, 4\), has NaN or inf"):
        optimizer.step()


def test_what_updates_and_their_runs_need() -> None:
    net = network()
    for call, text in (
        (lambda: learned.Optimizer(net.parameters(), learned.LSTMStep()), "must be such as LSTMUp"),
        (lambda: learned.meta_train(learned.LSTMStep(), RUNS), "must be a LearnedUpdates"),
        (
            lambda: learned.meta_train(LSTMUpdates(), learned.families.QuadraticFamily()),
            "must be a",
        ),
        (lambda: TrainingRuns(network, (torch.ones(3, 5), torch.zeros(2))), "as many rows"),
        (lambda: TrainingRuns(net(torch.ones(5)), three_classes(0)), "must be a function"),
        (lambda: TrainingRuns(net, three_classes(0)), "a function that builds a network, .* got a"),
        (lambda: TrainingRuns(network, torch.ones(3, 5)), r"must be a pair \(X, y\); got Tensor"),
        (lambda: TrainingRuns(network, (np.ones((3, 5)), np.ones(3))), r"\(X\) must be a torch.T"),
        (
            lambda: TrainingRuns(network, (torch.full((3, 5), torch.nan), torch.zeros(3))),
            r"TrainingRuns\(X\) must be finite; entry \(0, 0\) is nan",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            call()
