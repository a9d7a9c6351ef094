"""Trace-norm steps and softmax runs."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fwnet import TraceNormBall
from fwnet.lab.paper.softmax_runs import Images, curves
from fwnet.lab.paper.updates import Adam, SplitUpdates, TraceNormSteps
from fwnet.learned.controllers.entrywise import EntrywiseLSTM
from fwnet.learned.families.training_runs import NetworkTraining
from fwnet.learned.training.recurrences import OptimizerRun


def test_steps_go_to_the_best_vertex_and_stay_inside() -> None:
    generator = torch.Generator().manual_seed(0)
    G = torch.randn(6, 4, generator=generator, dtype=torch.float64).float()
    steps = TraceNormSteps(radius=3.0, step_size=0.25, iterations=300)
    W = {"W": torch.zeros(6, 4)}
    moved, state = steps(W, {"W": G}, steps.init(W))
    u, _, vt = torch.linalg.svd(G)
    torch.testing.assert_close(moved["W"], -0.25 * 3.0 * u[:, :1] @ vt[:1], rtol=1e-4, atol=1e-4)
    for _ in range(20):
        moved, state = steps(moved, {"W": G}, state)
    assert bool(TraceNormBall(3.0).contains(moved["W"]))


def test_split_moves_each_part_by_its_own_rule() -> None:
    theta = {"W": torch.eye(3), "b": torch.ones(3)}
    gradients = {"W": torch.eye(3), "b": torch.ones(3)}
    both = SplitUpdates(("W",), TraceNormSteps(1.0, 0.5), Adam(0.1))
    moved, _ = both(theta, gradients, both.init(theta))
    bias = {"b": theta["b"]}
    adam, _ = Adam(0.1)(bias, {"b": gradients["b"]}, Adam(0.1).init(bias))
    assert torch.equal(moved["b"], adam["b"])
    assert torch.linalg.matrix_rank(moved["W"] - 0.5 * theta["W"]) == 1


@pytest.fixture
def images() -> Images:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 3
    X = torch.randn(60, 5, generator=generator) + 3 * nn.functional.one_hot(y, 5)
    return Images(X, y)


def test_a_run_learns_and_repeats(images: Images) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    before = [p.clone() for p in net.parameters()]
    run = NetworkTraining(net, images.X, images.y, Adam(0.05), 20, 0)
    first = curves(OptimizerRun(run), net, 43, 10, images)
    again = curves(OptimizerRun(run), net, 43, 10, images)
    assert first == again
    assert len(first["accuracy"]) == 5
    assert len(first["train"]) == 43
    assert first["accuracy"][-1] > 0.9
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_the_slope_has_the_gradient_of_the_loss(images: Images) -> None:
    """d slope / d weights of the LSTM = d loss(W after a step) / d weights, with ∇W held fixed."""
    torch.manual_seed(0)
    lstm = EntrywiseLSTM(4, 1, preprocess=True)
    net = nn.Sequential(nn.Linear(5, 3))
    updates = SplitUpdates(("0.weight",), TraceNormSteps(2.0, 0.3, lstm=lstm), Adam(0.01))
    run = OptimizerRun(NetworkTraining(net, images.X, images.y, updates, 60, 3))
    run.advance()
    after = dict(run.state.parameters)
    slope = run.advance().objective
    found = torch.autograd.grad(slope, list(lstm.parameters()), retain_graph=True)
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(60, (60,), generator=generator) for _ in range(2)][1]
    loss = cross_entropy(functional_call(net, after, (images.X[rows],)), images.y[rows])
    expected = torch.autograd.grad(loss, list(lstm.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)
