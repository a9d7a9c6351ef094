"""The learned step on the trace-norm ball: feasible, never worse than Frank-Wolfe, worth it."""

from __future__ import annotations

import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.learned.baselines import FISTA, ProjectedMomentum
from fwnet.learned.families.real import all_digits
from learned_cases import seeded, values, with_random_weights

BALL = fwnet.TraceNormBall(5.0)


def softmax_problem(seed: int = 0, batch: int = 2) -> fwnet.SoftmaxRegression:
    X = torch.randn(batch, 40, 6, generator=seeded(seed), dtype=torch.float64)
    y = (X[..., :4] + 0.5 * torch.randn(batch, 40, 4, generator=seeded(seed + 1))).argmax(-1)
    return fwnet.SoftmaxRegression(X, y, 4)


@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0])
def test_every_iterate_is_feasible_and_f_never_rises(scale: float) -> None:
    problem = softmax_problem()
    controller = with_random_weights(learned.LearnedLowRank(memory=2), 1, scale)
    net = fwnet.FWNet(controller.solver(BALL, max_steps=20))
    with torch.no_grad():
        cells = list(net.cells(problem))
    assert bool(torch.stack([BALL.contains(cell.it.x) for cell in cells]).all())
    f = torch.stack([problem.value(cell.it) for cell in cells])
    assert bool((f[1:] <= f[:-1] + 1e-12).all())


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_never_worse_than_the_line_search_it_contains(scale: float) -> None:
    problem = softmax_problem(3)
    controller = with_random_weights(learned.LearnedLowRank(memory=2), 2, scale)
    solver = controller.solver(BALL)
    plain = fwnet.FrankWolfe(BALL, fwnet.LineSearch(tol=1e-10))
    it, slots = solver.begin(problem, None)
    with torch.no_grad():
        for _ in range(15):
            cell = fwnet.FWNet(solver).cell(problem, it, slots)
            theirs = fwnet.FWNet(plain).cell(problem, *plain.begin(problem, it.x))
            assert bool((problem.value(cell.it) <= problem.value(theirs.it) + 1e-12).all())
            it, slots = cell.it, cell.slots


def test_a_batch_equals_a_loop() -> None:
    problem = softmax_problem(5, 3)
    # Of four classes the gradient has rank 3: along a fourth direction f does not change, and the
    # best point of the hull would not be unique.
    controller = with_random_weights(learned.LearnedLowRank(directions=3, memory=2), 3, 0.3)
    solver = controller.solver(BALL, max_steps=8, tol=0.0)
    together = solver(problem).value
    for k in range(3):
        one = fwnet.SoftmaxRegression(problem.X[k], problem.y[k], 4)
        assert solver(one).value.item() == pytest.approx(together[k].item(), rel=1e-7)


def test_the_untrained_point_is_a_projected_gradient_step_of_exact_length() -> None:
    problem = softmax_problem(7, 1)
    it = problem.at(BALL.start((1, 6, 4), torch.float64))
    lin = fwnet.oracles.linearize(problem, BALL, it)
    step = learned.LearnedLowRank().hull.proposals[0]
    (first, vertices), state = step(problem, BALL, it, lin, None)
    G = lin.gradient.dense()
    P = torch.softmax(it.image, -1)
    Z = problem.X @ G
    curvature = ((P * Z * Z).sum(-1) - (P * Z).sum(-1) ** 2).mean(-1)
    length = (G * G).sum((-2, -1)) / curvature
    assert torch.allclose(state.length, length)
    wanted = BALL.project(it.x - length[:, None, None] * G)
    assert torch.allclose(first.points[:, 0], wanted)
    assert vertices.points.shape[1] == 4


def test_it_trains() -> None:
    class Small(learned.ProblemFamily):
        domain = BALL

        def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
            seed = int(torch.randint(1000, (), generator=generator))
            return softmax_problem(seed, batch)

        def best_values(self, problem: fwnet.Problem) -> torch.Tensor:
            return FISTA().run(problem, BALL, 200).values.amin(0)

    config = learned.MetaConfig(
        steps=2,
        unroll=4,
        batch=2,
        gradient=learned.EvolutionStrategies(1, 0.1),
        validate_every=1,
        validation_problems=2,
    )
    controller, history = learned.meta_train(learned.LearnedLowRank(memory=1), Small(), config)
    assert len(history) == 2
    assert all(bool(torch.isfinite(weight).all()) for weight in controller.parameters())


def test_nan_and_foreign_domains_are_sentences() -> None:
    controller = learned.LearnedLowRank()
    with pytest.raises(TypeError, match="was made for TraceNormBall; got Simplex"):
        controller.solver(fwnet.Simplex())(fwnet.Quadratic(torch.eye(3)))
    with torch.no_grad():
        next(iter(controller.parameters())).view(-1)[0] = torch.nan
    with pytest.raises(ValueError, match="has a NaN or infinite weight in"):
        controller.solver(BALL)(softmax_problem())
    with pytest.raises(ValueError, match=r"LearnedLowRank\(rounds=...\) must be a whole number"):
        learned.LearnedLowRank(rounds=0)


def test_the_shipped_one_on_held_out_digits() -> None:
    """Rows that no recipe drew: ahead of momentum with the better of two constants, and safe."""
    X, y = all_digits()
    rows = torch.randperm(len(y), generator=seeded(0))[int(0.8 * len(y)) :]
    problem = fwnet.SoftmaxRegression(X[rows], y[rows], 10)
    ball = fwnet.TraceNormBall(30.0)
    solver = learned.load("low-rank-softmax").solver(ball, max_steps=40, tol=0.0)
    ours = values(solver(problem))
    for rate in (2.0, 5.0):
        theirs = ProjectedMomentum(rate, 0.8).run(problem, ball, 40).values
        assert all(ours[t] < theirs[t] for t in (10, 20, 40))
    best = FISTA().run(problem, ball, 400).values.min()
    assert ours[-1] < best * (1 + 1e-3)


def test_momentum_is_the_formula() -> None:
    """Two steps by hand."""
    problem = softmax_problem(9, 1)
    run = ProjectedMomentum(0.7, 0.5).run(problem, BALL, 2)
    x = m = torch.zeros(1, 6, 4, dtype=torch.float64)
    for t in range(2):
        m = 0.5 * m - 0.7 * problem.gradient(problem.at(x)).dense()
        x = BALL.project(x + m)
        assert torch.allclose(run.values[t + 1], problem.value(problem.at(x)))
    with pytest.raises(ValueError, match=r"ProjectedMomentum\(momentum=...\) must be in \[0, 1\)"):
        ProjectedMomentum(1.0, 1.0)


def test_arguments_of_projected_methods() -> None:
    with pytest.raises(ValueError, match=r"FISTA\(forget=...\) must be at most 1; got 1.5"):
        FISTA(1.5)
    with pytest.raises(ValueError, match=r"ProjectedMomentum\(rows=...\) must be a whole number"):
        ProjectedMomentum(1.0, rows=0)
    whole = fwnet.Quadratic(torch.eye(3).unsqueeze(0))  # no sum of terms to draw from
    with pytest.raises(TypeError, match=r"projected SGD .* does not fit Quadratic"):
        ProjectedMomentum(1.0, rows=2).run(whole, fwnet.Simplex(), 3)


def test_a_length_that_overflows_leaves_the_rest_of_the_hull() -> None:
    X = torch.randn(40, 6, generator=seeded(2))
    problem = fwnet.SoftmaxRegression(1e15 * X, X[:, :4].argmax(-1), 4)
    result = learned.load("low-rank-softmax").solver(BALL, max_steps=10)(problem)
    assert bool(BALL.contains(result.x))
    assert float(result.value) < float(problem.value(problem.at(torch.zeros(6, 4))))
