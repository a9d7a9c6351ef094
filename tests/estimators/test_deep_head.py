import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

import fwnet
from fwnet.estimators.deep.head import head_of, solve_head, with_bias
from fwnet.estimators.deep.modes import ExactMode, NetMode

SHAPES = [(80, 3, 1), (80, 5, 4), (30, 60, 3), (2, 2, 1)]


def sample(n: int, d: int, problems: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n + d)
    H = torch.randn(n, d, dtype=torch.float64, generator=generator)
    Y = torch.randn(problems, n, dtype=torch.float64, generator=generator).sign()
    Y[:, 0], Y[:, 1] = 1.0, -1.0
    return with_bias(H), Y


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_the_head_is_exact_and_certified(shape, C):
    H, Y = sample(*shape)
    head = solve_head(H, Y, C)
    assert float(head.gap.abs().max()) <= 1e-10
    # Stationary: w = Σ βᵢyᵢhᵢ with β = C·slack, in the units of the largest term.
    slack = (1 - Y * (head.weights @ H.mT)).clamp_min(0)
    size = (C * slack).sum() * H.abs().max()
    torch.testing.assert_close(
        head.weights, (C * slack * Y) @ H, atol=1e-9 * float(size), rtol=1e-9
    )


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_the_head_is_that_of_liblinear_and_of_svm_dual(shape):
    H, Y = sample(*shape)
    head = solve_head(H, Y, 2.0)
    for k in range(shape[2]):
        peer = LinearSVC(C=1.0, tol=1e-10, max_iter=100_000, random_state=0)  # C/2, bias penalised
        peer.fit(H[:, :-1].numpy(), Y[k].numpy())
        found = np.append(peer.coef_, peer.intercept_)
        np.testing.assert_allclose(head.weights[k].numpy(), found, atol=1e-6)
    problem = fwnet.SVMDual(features=H[:, :-1].expand(shape[2], -1, -1), y=Y, C=2.0)
    alpha = head.beta / head.beta.sum(-1, keepdim=True)
    it = problem.at(alpha)
    torch.testing.assert_close(head.primal, 1 / (4 * problem.value(it)), rtol=1e-9, atol=0)
    assert float(problem.hinge_gap(it)[0].max()) <= 1e-9 * float(head.primal.max())


def test_bad_scales_are_solved():
    H, Y = sample(80, 5, 4)
    scales = torch.tensor([1e6, 1.0, 1e-6, 1e3, 1e-3, 1.0], dtype=torch.float64)
    for C in (1e-4, 1e6):
        assert float(solve_head(H * scales, Y, C).gap.max()) <= 1e-6


def test_any_multipliers_give_a_true_bound():
    H, Y = sample(80, 5, 4)
    best = solve_head(H, Y, 1.0).primal
    beta = torch.rand(Y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    head = head_of(H, Y, 1.0, beta)
    assert bool((head.primal >= best).all())
    assert bool((head.primal * (1 - head.gap) <= best * (1 + 1e-12)).all())
    for factor in (0.9, 1.1):  # the multiple of the weights is the best one
        slack = (1 - factor * Y * (head.weights @ H.mT)).clamp_min(0)
        there = 0.5 * (factor * head.weights).square().sum(-1) + 0.5 * slack.square().sum(-1)
        assert bool((there > head.primal).all())


def test_the_envelope_gradient_is_that_of_the_optimum():
    H, Y = sample(40, 3, 3)
    features = H[:, :-1].clone().requires_grad_()
    loss, _ = ExactMode().loss(features, Y, 0.7, torch.arange(40))
    (gradient,) = torch.autograd.grad(loss, features)

    def optimum(X: torch.Tensor) -> float:
        return float(2 * solve_head(with_bias(X), Y, 0.7).primal.mean() / (0.7 * 40))

    assert float(loss.detach()) == pytest.approx(optimum(H[:, :-1]), rel=1e-12)
    for i, j in ((0, 0), (7, 1), (20, 2), (39, 0)):
        step = torch.zeros(40, 3, dtype=torch.float64)
        step[i, j] = 1e-5
        difference = (optimum(H[:, :-1] + step) - optimum(H[:, :-1] - step)) / 2e-5
        assert float(gradient[i, j]) == pytest.approx(difference, abs=1e-9)


def test_unrolled_gradients_are_those_of_finite_differences():
    H, Y = sample(12, 2, 1)
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.Constant(0.3), oracle=fwnet.Softmin(3.0, relative=True), max_steps=4
    )
    start = solve_head(H, Y, 1.0)

    def loss_at(X: torch.Tensor) -> torch.Tensor:
        mode = NetMode(fwnet.FWNet(solver), unrolled=True)
        mode.begin(start)
        return mode.loss(X, Y, 1.0, torch.arange(12))[0]

    features = H[:, :-1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_at(features), features)
    differences = torch.zeros_like(features)
    for i in range(12):
        for j in range(2):
            step = torch.zeros(12, 2, dtype=torch.float64)
            step[i, j] = 1e-6
            ahead, behind = loss_at(H[:, :-1] + step), loss_at(H[:, :-1] - step)
            differences[i, j] = float(ahead - behind) / 2e-6
    torch.testing.assert_close(gradient, differences, atol=1e-6, rtol=1e-5)


def test_enough_forward_steps_reach_the_solution():
    H, Y = sample(60, 3, 2)
    solver = fwnet.Corrective(fwnet.Simplex(), max_steps=60)
    mode = NetMode(fwnet.FWNet(solver), unrolled=False)
    wrong = Y.clamp_min(0)
    mode.begin(head_of(H, Y, 1.0, wrong))
    _, head = mode.loss(H[:, :-1], Y, 1.0, torch.arange(60))
    assert float(head.gap.max()) <= 1e-6
    torch.testing.assert_close(head.weights, solve_head(H, Y, 1.0).weights, atol=1e-3, rtol=1e-3)
