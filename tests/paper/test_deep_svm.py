"""Runs of deep SVMs: losses, gradients of the learned parts, and both movers of α."""

import copy

import pytest
import torch
from torch import nn

from fwnet import Constant, FrankWolfe, LineSearch, Simplex, Softmin
from fwnet.data import load
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, decide
from fwnet.lab.paper.kernel_nets import image_kernel, rings_net
from fwnet.lab.paper.simplex_runs import Cell, Descent, Reparameterised
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMStep, LSTMUpdates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed


@pytest.fixture
def rings() -> DeepSVM:
    data = load("circles", seed=3)
    x, y = torch.tensor(data.x[:120]), torch.tensor(2.0 * data.y[:120] - 1).float()
    return DeepSVM(x, y, with_seed(rings_net, 1))


def cell(rule: object) -> Cell:
    return Cell(FrankWolfe(Simplex(), rule, oracle=Softmin(1.0)))


def test_the_loss_is_that_of_the_classifier(rings: DeepSVM) -> None:
    step = OptimizerRun(DeepTraining(rings, cell(LineSearch()), Adam(0.05))).record(5)[-1]
    f = decide(rings.net, step, rings.X)
    w = step.weights
    hinge = (1 - rings.y * f).clamp_min(0).square()
    expected = (w.square().sum() / rings.C + hinge.sum()) / len(f)
    assert step.loss == pytest.approx(expected.item(), rel=1e-5)
    assert step.accuracy == pytest.approx((f.sign() == rings.y).float().mean().item())


@pytest.mark.parametrize("mover", ["frank-wolfe", "adam"])
def test_deep_svms_train(rings: DeepSVM, mover: str) -> None:
    moves = {
        "frank-wolfe": cell(LineSearch()),
        "adam": Descent(Reparameterised(), Adam(0.02)),
    }
    run = OptimizerRun(DeepTraining(rings, moves[mover], Adam(0.05)))
    steps = run.record(200)
    assert min(step.loss for step in steps) < 0.1 * steps[0].loss
    assert max(step.accuracy for step in steps) > 0.98
    alpha = run.state.alpha
    assert bool((alpha >= 0).all())
    assert float(alpha.sum()) == pytest.approx(1.0, abs=1e-5)


def test_the_slope_has_the_gradient_of_the_loss(rings: DeepSVM) -> None:
    """Σ⟨∇θ, θ⟩ differentiates as P at the present w does, through a learned update."""
    torch.manual_seed(0)
    updates = LSTMUpdates(hidden=4)
    run = OptimizerRun(DeepTraining(rings, cell(Constant(0.1)), updates))
    run.advance()
    parameters = dict(run.state.parameters)
    step = run.advance()
    found = torch.autograd.grad(step.objective, list(updates.dense.parameters()), retain_graph=True)
    H = torch.func.functional_call(rings.net, parameters, (rings.X,))
    f = H @ step.weights[:-1] + step.weights[-1]
    loss = (1 - rings.y * f).clamp_min(0).square().mean()
    expected = torch.autograd.grad(loss, list(updates.dense.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_gradients_reach_a_learned_step_size(rings: DeepSVM) -> None:
    torch.manual_seed(0)
    rule = LSTMStep(hidden=4)
    run = OptimizerRun(DeepTraining(rings, cell(rule), Adam(0.05)))
    loss = run.run(4)
    loss.backward()
    assert sum(float(p.grad.abs().sum()) for p in rule.parameters() if p.grad is not None) > 0
    assert run.state.alpha.requires_grad
    run.detach()
    assert not run.state.alpha.requires_grad
    assert not any(p.requires_grad for p in run.state.parameters.values())


def test_a_run_leaves_the_network_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(20, 1, 8, 8, generator=generator)
    y = torch.where(torch.arange(20) < 10, 1.0, -1.0)
    net: nn.Module = with_seed(lambda: image_kernel((1, 8, 8), 2), 0)
    before = copy.deepcopy(net.state_dict())
    run = OptimizerRun(DeepTraining(DeepSVM(X, y, net), cell(Constant(0.01)), Adam(0.01)))
    run.record(2)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert int(run.state.net[1].num_batches_tracked) == 2  # batch norm counts in the copy
