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
    Reparameterised,
    SimplexDescent,
    curve,
)
from fwnet.lab.paper.updates import Adam
from fwnet.quadratic.solve import simplex_qp


@pytest.fixture
def problem() -> SVMDual:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 12, 4, generator=generator)
    y = torch.where(torch.arange(12) < 6, 1.0, -1.0).expand(3, -1)
    return SVMDual(x @ x.mT, y, C=1.0)


def best(problem: SVMDual) -> np.ndarray:
    Q = problem.form.matrix.matrix.double()
    alpha = simplex_qp(Q)
    return (0.5 * torch.einsum("bi,bij,bj->b", alpha, Q, alpha)).numpy()


@pytest.mark.parametrize("coordinates", [Reparameterised(), Lagrangian(0.7)], ids=str)
def test_gradients_are_those_of_the_objective(problem: SVMDual, coordinates: Coordinates) -> None:
    Q = problem.form.matrix.matrix
    theta = torch.rand(3, 12, generator=torch.Generator().manual_seed(1)).requires_grad_()
    if isinstance(coordinates, Lagrangian):
        objective = 0.5 * torch.einsum("bi,bij,bj->", theta, Q, theta) - 0.7 * theta.sum()
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
    values = curve(SimplexDescent(problem, Descent(coordinates, Adam(lr))), 800)
    assert values.shape == (801, 3)
    assert values[-1] == pytest.approx(best(problem), rel=2e-2)  # Adam keeps a distance of its lr
    assert (values.min(0) >= best(problem) * (1 - 1e-5)).all()


def test_all_runs_start_alike(problem: SVMDual) -> None:
    solver = FrankWolfe(Simplex(), oracle=Softmin(10.0))
    movers = [
        Descent(Reparameterised(), Adam(0.1)),
        Descent(Lagrangian(), Adam(0.1)),
        Cell(solver),
    ]
    starts = [curve(SimplexDescent(problem, mover), 0)[0] for mover in movers]
    np.testing.assert_allclose(starts[1], starts[0], rtol=1e-5)
    np.testing.assert_allclose(starts[2], starts[0], rtol=1e-5)


def test_frank_wolfe_run_is_the_solver(problem: SVMDual) -> None:
    solver = FrankWolfe(Simplex(), oracle=Softmin(10.0), max_steps=25, tol=0.0)
    values = curve(SimplexDescent(problem, Cell(solver)), 25)
    np.testing.assert_allclose(values, solver(problem).trace.column("value"), rtol=1e-4)


def test_points_are_on_the_simplex() -> None:
    theta = torch.tensor([[0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    for coordinates in (Reparameterised(), Lagrangian()):
        point = coordinates.point(theta)
        assert (point >= 0).all()
        torch.testing.assert_close(point.sum(-1), torch.ones(2))
