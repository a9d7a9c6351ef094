"""Runs of deep SVMs: losses, gradients of the learned parts, and both movers of α."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fwnet import (
    Constant,
    FrankWolfe,
    LineSearch,
    PairwiseFrankWolfe,
    Simplex,
    Softmin,
    StepRule,
    SVMDual,
)
from fwnet.data import load
from fwnet.lab.paper.configs import CIRCLES
from fwnet.lab.paper.deep_methods import step_near
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, ExactSVM, decide
from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.kernel_nets import image_kernel, rings_net
from fwnet.lab.paper.simplex_runs import Cell, Descent, Mover, Reparameterised
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMStep, LSTMUpdates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed


@pytest.fixture
def rings() -> DeepSVM:
    return several(1)


def several(batch: int) -> DeepSVM:
    sets = [load("circles", seed=3 + k) for k in range(batch)]
    x = torch.stack([torch.tensor(each.x[:120]) for each in sets])
    y = torch.stack([torch.tensor(2.0 * each.y[:120] - 1).float() for each in sets])
    return DeepSVM(x, y, [with_seed(rings_net, 1 + k) for k in range(batch)])


def cell(rule: StepRule) -> Cell:
    return Cell(FrankWolfe(Simplex(), rule, oracle=Softmin(1.0)))


def test_the_loss_is_that_of_the_classifier(rings: DeepSVM) -> None:
    step = OptimizerRun(DeepTraining(rings, cell(LineSearch()), Adam(0.05))).record(5)[-1]
    f = decide(rings.nets, step, rings.X)
    w = step.weights
    hinge = (1 - rings.y * f).clamp_min(0).square()
    expected = (w.square().sum() / rings.C + hinge.sum()) / f.shape[1]
    assert float(step.loss) == pytest.approx(expected.item(), rel=1e-5)
    assert float(step.accuracy) == pytest.approx((f.sign() == rings.y).float().mean().item())


def test_a_batch_is_the_runs_one_by_one() -> None:
    three = several(3)
    torch.manual_seed(0)
    updates = LSTMUpdates(hidden=4)
    together = OptimizerRun(DeepTraining(three, cell(LineSearch()), updates))
    steps = together.record(6)
    for k in range(3):
        alone = DeepSVM(three.X[k : k + 1], three.y[k : k + 1], three.nets[k : k + 1])
        found = OptimizerRun(DeepTraining(alone, cell(LineSearch()), updates)).record(6)
        for one, every in zip(found, steps, strict=True):
            torch.testing.assert_close(one.loss[0], every.loss[k], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(
            decide(alone.nets, found[-1], alone.X)[0],
            decide(three.nets, steps[-1], three.X)[k],
            rtol=1e-2,
            atol=1e-3,
        )


def test_points_that_are_repeated_are_fewer_points_with_a_larger_C() -> None:
    """The loss depends on C n and on the distribution of the points, not on their number."""
    config = replace(CIRCLES[Profile.PAPER], points=480, meta_points=120)
    few = replace(several(2), C=config.in_training.C)
    many = replace(several(2), X=few.X.repeat(1, 4, 1), y=few.y.repeat(1, 4), C=config.C)
    assert config.in_training.points == 120
    mover = cell(Constant(0.3))
    runs = [OptimizerRun(DeepTraining(svm, mover, Adam(0.1))).record(20) for svm in (few, many)]
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one.loss, other.loss, rtol=1e-4, atol=0)


def test_an_untrained_step_is_near_that_of_fwnet(rings: DeepSVM) -> None:
    torch.manual_seed(0)
    steps = OptimizerRun(DeepTraining(rings, cell(step_near(0.01)), Adam(0.01))).record(30)
    assert all(0.007 < step.step_size < 0.014 for step in steps)


def test_scores_count_iterations_to_the_levels() -> None:
    two = replace(several(2), levels=np.array([0.5, 0.1]))
    run = DeepTraining(two, cell(Constant(0.1)), Adam(0.1))
    losses = [torch.tensor(pair) for pair in ((1.0, 1.0), (0.4, 1.0), (0.3, 0.05), (0.3, 0.2))]
    assert run.score(losses) == pytest.approx((1 + 2) / 2)
    assert run.score([*losses, torch.tensor([float("nan"), 1.0])]) == float("inf")
    missed = 1 * (1 + np.log([1 / 0.5, 1 / 0.1])).mean()
    assert run.score(losses[:1]) == pytest.approx(missed)  # nobody arrived
    assert [run.decided(losses[:t]) for t in range(5)] == [False, False, False, True, True]


def test_a_score_stops_where_it_is_decided_and_is_that_of_a_whole_run() -> None:
    svm = several(2)
    first = OptimizerRun(DeepTraining(svm, cell(Constant(0.1)), Adam(0.1)))
    levels = torch.stack([step.loss for step in first.record(8)]).amin(0).double().numpy()
    recurrence = DeepTraining(replace(svm, levels=levels), cell(Constant(0.1)), Adam(0.1))
    short, whole = OptimizerRun(recurrence), OptimizerRun(recurrence)
    found = short.score(30)
    whole.record(30)
    assert len(short.losses) <= 8
    assert found == recurrence.score(whole.losses)


def test_an_exact_svm_has_no_smaller_dual(rings: DeepSVM) -> None:
    run = OptimizerRun(DeepTraining(rings, ExactSVM(), Adam(0.05)))
    run.record(1)
    best = run.state.alpha
    H = torch.cat([rings.nets[0](rings.X[0]), torch.ones(120, 1)], 1).detach()
    dual = SVMDual(features=H[:, :-1], y=rings.y[0], C=rings.C)
    exact = PairwiseFrankWolfe(Simplex(), tol=1e-8, max_steps=20_000)(dual)
    assert float(dual.value(dual.at(best[0]))) == pytest.approx(float(exact.value), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mover", ["frank-wolfe", "adam", "exact"])
def test_deep_svms_train(rings: DeepSVM, mover: str) -> None:
    moves: dict[str, Mover] = {
        "frank-wolfe": cell(LineSearch()),
        "adam": Descent(Reparameterised(), Adam(0.02)),
        "exact": ExactSVM(),
    }
    run = OptimizerRun(DeepTraining(rings, moves[mover], Adam(0.05)))
    steps = run.record(200)
    assert float(min(step.loss for step in steps)) < 0.1 * float(steps[0].loss)
    assert float(max(step.accuracy for step in steps)) > 0.98
    alpha = run.state.alpha
    assert bool((alpha >= 0).all())
    assert float(alpha.sum()) == pytest.approx(1.0, abs=1e-5)


def test_the_slope_has_the_gradient_of_the_loss(rings: DeepSVM) -> None:
    """Σ⟨∇θ log P, θ⟩ differentiates as log P at the present w does, through a learned update."""
    torch.manual_seed(0)
    updates = LSTMUpdates(hidden=4)
    run = OptimizerRun(DeepTraining(rings, cell(Constant(0.1)), updates))
    run.advance()
    parameters = dict(run.state.parameters)
    step = run.advance()
    found = torch.autograd.grad(step.objective, list(updates.dense.parameters()), retain_graph=True)
    H = torch.func.functional_call(rings.nets[0], parameters, (rings.X[0],))
    w = step.weights[0]
    f = H @ w[:-1] + w[-1]
    loss = ((1 - rings.y[0] * f).clamp_min(0).square().mean() + w.square().sum() / 120).log()
    expected = torch.autograd.grad(loss, list(updates.dense.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_the_step_size_has_the_gradient_of_the_loss(rings: DeepSVM) -> None:
    """d log P(w(α), θ)/dγ by the objective of one step, against differences of log P."""
    torch.manual_seed(0)
    rule = LSTMStep(hidden=4)
    run = OptimizerRun(DeepTraining(rings, cell(rule), Adam(0.0)))
    run.record(1)
    with torch.enable_grad():
        step = run.advance()
    (slope,) = torch.autograd.grad(step.objective, rule.network.head.bias)
    gamma, width = step.step_size, 1e-2
    ahead = []
    for sign in (1, -1):
        both = OptimizerRun(DeepTraining(rings, cell(rule), Adam(0.0)))
        both.record(1)
        fixed = OptimizerRun(DeepTraining(rings, cell(Constant(gamma + sign * width)), Adam(0.0)))
        fixed.state = both.state._replace(slots=None)
        ahead.append(float(fixed.record(1)[-1].loss.double().log()))
    difference = (ahead[0] - ahead[1]) / (2 * width)
    assert float(slope) == pytest.approx(difference * gamma * (1 - gamma), rel=0.1, abs=1e-4)


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
    run = OptimizerRun(
        DeepTraining(DeepSVM(X[None], y[None], [net]), cell(Constant(0.01)), Adam(0.01))
    )
    run.record(2)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert int(run.state.nets[0][1].num_batches_tracked) == 2  # batch norm counts in the copy
