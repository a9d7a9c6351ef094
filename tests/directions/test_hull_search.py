"""The minimum over a hull of a function that is no quadratic: against SciPy, and never worse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

import fwnet
from cases import F64, normal
from fwnet.directions import Corrections, ProjectedStep, SingularVertices
from fwnet.directions.hull_search import hull_weights
from fwnet.iterates import Iterate

BALL = fwnet.TraceNormBall(4.0)


def softmax_problem(seed: int, batch: tuple[int, ...] = ()) -> fwnet.SoftmaxRegression:
    X = normal(seed, *batch, 40, 6)
    y = (X[..., :4] + 0.5 * normal(seed + 1, *batch, 40, 4)).argmax(-1)
    return fwnet.SoftmaxRegression(X, y, 4)


def points_of_the_ball(seed: int, *batch: int, count: int = 5) -> Tensor:
    x = normal(seed, *batch, count, 6, 4)
    return 4.0 * x / torch.linalg.svdvals(x).sum(-1)[..., None, None]


def at(problem: fwnet.SoftmaxRegression, x: Tensor, points: Tensor) -> tuple[Iterate, Tensor]:
    it = problem.at(x)
    return it, problem.images(points) - it.image.unsqueeze(problem.batch_dims)


@pytest.mark.parametrize("seed", range(4))
def test_the_weights_are_scipys(seed: int) -> None:
    problem, points = softmax_problem(seed), points_of_the_ball(10 + seed)
    x = 0.3 * points[0] + 0.2 * points[1]
    it, changes = at(problem, x, points)
    weights = hull_weights(problem, it, points - x, changes, rounds=25)

    def f(w: np.ndarray) -> float:
        there = x + (torch.as_tensor(w)[:, None, None] * (points - x)).sum(0)
        return float(problem.value(problem.at(there)))

    inside = {"type": "ineq", "fun": lambda w: 1 - w.sum()}
    found = minimize(
        f, np.full(5, 0.1), bounds=[(0, 1)] * 5, constraints=[inside], options={"ftol": 1e-13}
    )
    assert bool((weights >= 0).all())
    assert float(weights.sum()) <= 1 + 1e-12
    assert f(weights.numpy()) == pytest.approx(found.fun, rel=1e-9)  # SLSQP's own differences


@pytest.mark.parametrize("rounds", [1, 3])
def test_never_worse_than_the_line_search_toward_the_vertex(rounds: int) -> None:
    problem = softmax_problem(3)
    hull = Corrections(3, [ProjectedStep(), SingularVertices()], rounds)
    solver = fwnet.FrankWolfe(BALL, direction=hull)
    plain = fwnet.FrankWolfe(BALL, fwnet.LineSearch(tol=1e-10))
    it, slots = solver.begin(problem, None)
    net, rival = fwnet.FWNet(solver), fwnet.FWNet(plain)
    with torch.no_grad():
        for _ in range(25):
            cell = net.cell(problem, it, slots)
            theirs = rival.cell(problem, *plain.begin(problem, it.x))
            assert problem.value(cell.it) <= problem.value(theirs.it) + 1e-12
            it, slots = cell.it, cell.slots


def test_a_batch_equals_a_loop() -> None:
    problem, points = softmax_problem(5, (3,)), points_of_the_ball(6, 3)
    x = 0.5 * points[:, 0]
    it, changes = at(problem, x, points)
    together = hull_weights(problem, it, points - x.unsqueeze(1), changes, rounds=8)
    for k in range(3):
        one = fwnet.SoftmaxRegression(problem.X[k], problem.y[k], 4)
        single, images = at(one, x[k], points[k])
        own = hull_weights(one, single, points[k] - x[k], images, rounds=8)
        assert torch.allclose(own, together[k], atol=1e-8)


def test_weights_move_with_the_points() -> None:
    """The derivative on the face, against central differences."""
    problem, points = softmax_problem(7), points_of_the_ball(8)
    way = normal(9, *points.shape)

    def weights(t: Tensor) -> Tensor:
        moved = points + t * way
        it, changes = at(problem, torch.zeros(6, 4, dtype=F64), moved)
        return hull_weights(problem, it, moved, changes, rounds=30)

    t = torch.zeros((), dtype=F64, requires_grad=True)
    (slope,) = torch.autograd.grad(weights(t)[weights(t).argmax()], t)
    h = torch.tensor(1e-5, dtype=F64)
    with torch.no_grad():
        place = weights(0 * h).argmax()
        difference = (weights(h)[place] - weights(-h)[place]) / (2 * h)
    assert slope.item() == pytest.approx(difference.item(), rel=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_network_that_ends_at_a_vertex_does_not_move(steps: int, dtype: torch.dtype) -> None:
    K = torch.diag(torch.tensor([1.0, 2, 3], dtype=dtype)).requires_grad_()
    c = torch.tensor([-9.0, 0, 0], dtype=dtype, requires_grad=True)
    network = fwnet.FWNet(fwnet.Corrective(fwnet.Simplex(), max_steps=steps))
    x = network(fwnet.Quadratic(K, c)).x
    assert x.tolist() == [1.0, 0.0, 0.0]
    for entry in x:
        for gradient in torch.autograd.grad(entry, (K, c), retain_graph=True):
            assert float(gradient.abs().max()) == 0


def test_rounds_save_steps_where_f_is_no_quadratic() -> None:
    problem = softmax_problem(11)
    after = {}
    for rounds in (0, 3):
        hull = Corrections(3, [ProjectedStep(), SingularVertices()], rounds)
        solver = fwnet.FrankWolfe(BALL, direction=hull, max_steps=200, tol=1e-6)
        result = solver(problem)
        assert result.status == "converged"
        after[rounds] = result.steps
    assert after[3] <= after[0]


def test_rounds_are_checked() -> None:
    with pytest.raises(ValueError, match=r"Corrections\(rounds=...\) must be a whole number"):
        Corrections(2, rounds=-1)
