"""Runs on the simplex against closed forms, autograd and the exact optimum."""

import numpy as np
import pytest
import torch

from fwnet import FrankWolfe, Simplex, Softmin, SVMDual
from fwnet.lab.paper.simplex_runs import (
    Cell,
    Coordinates,
    Descent,
    Lagrangian,
    Mover,
    Reparameterised,
    SimplexDescent,
    SimplexTasks,
    curve,
)
from fwnet.lab.paper.updates import Adam
from fwnet.numerics.linear_maps import DenseMap


@pytest.fixture
def problem() -> SVMDual:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 12, 4, generator=generator)
    y = torch.where(torch.arange(12) < 6, 1.0, -1.0).expand(3, -1)
    return SVMDual(x @ x.mT, y, C=1.0)


@pytest.mark.parametrize("coordinates", [Reparameterised(), Lagrangian()], ids=str)
def test_gradients_are_those_of_the_objective(problem: SVMDual, coordinates: Coordinates) -> None:
    kernel = problem.form.matrix
    assert isinstance(kernel, DenseMap)
    Q = kernel.matrix
    theta = torch.rand(3, 12, generator=torch.Generator().manual_seed(1)).requires_grad_()
    if isinstance(coordinates, Lagrangian):
        objective = 0.5 * torch.einsum("bi,bij,bj->", theta, Q, theta) - theta.sum()
    else:
        alpha = torch.softmax(theta, -1)
        objective = 0.5 * torch.einsum("bi,bij,bj->", alpha, Q, alpha)
    (expected,) = torch.autograd.grad(objective, theta)
    torch.testing.assert_close(coordinates.gradient(problem, theta.detach()), expected)


@pytest.mark.parametrize(
    ("coordinates", "lr"), [(Reparameterised(), 0.1), (Lagrangian(), 0.02)], ids=str
)
def test_unconstrained_optimizers_find_the_optimum(
    problem: SVMDual, coordinates: Coordinates, lr: float
) -> None:
    excess = curve(
        SimplexDescent(SimplexTasks.solved(problem), Descent(coordinates, Adam(lr))), 800
    )
    assert excess.shape == (3, 801)
    assert (excess[:, -1] < 2e-2).all()  # Adam keeps a distance of its lr
    assert (excess.min(1) >= -1e-5).all()


def test_all_runs_start_alike(problem: SVMDual) -> None:
    solver = FrankWolfe(Simplex(), oracle=Softmin(10.0))
    movers: list[Mover] = [
        Descent(Reparameterised(), Adam(0.1)),
        Descent(Lagrangian(), Adam(0.1)),
        Cell(solver),
    ]
    starts = [
        curve(SimplexDescent(SimplexTasks.solved(problem), mover), 0)[:, 0] for mover in movers
    ]
    np.testing.assert_allclose(starts[1], starts[0], rtol=1e-5)
    np.testing.assert_allclose(starts[2], starts[0], rtol=1e-5)


def test_frank_wolfe_run_is_the_solver(problem: SVMDual) -> None:
    solver = FrankWolfe(Simplex(), oracle=Softmin(10.0), max_steps=25, tol=0.0)
    solved = SimplexTasks.solved(problem)
    excess = curve(SimplexDescent(solved, Cell(solver)), 25)
    values = solved.best.numpy() * (1 + excess.T)
    np.testing.assert_allclose(values, solver(problem).trace.column("value"), rtol=1e-4)


def test_scores_count_both_criteria(problem: SVMDual) -> None:
    run = SimplexDescent(SimplexTasks.solved(problem), Descent(Reparameterised(), Adam(0.1)))
    losses = [torch.tensor([4.0, 2.0, 0.0]), torch.tensor([1.0, 1.0, 1.0])]
    assert run.score(losses) == pytest.approx(np.sqrt(1.5 * 1.0))  # area · end


def test_points_are_on_the_simplex() -> None:
    theta = torch.tensor([[0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    for coordinates in (Reparameterised(), Lagrangian()):
        point = coordinates.point(theta)
        assert (point >= 0).all()
        torch.testing.assert_close(point.sum(-1), torch.ones(2))
