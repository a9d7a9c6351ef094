"""Points that the corrective hull takes in: feasible, with the images they claim, and worth it."""

from __future__ import annotations

import pytest
import torch

import fwnet
from cases import F64, normal, spd
from fwnet.directions import Corrections, Exchanges, ProjectedStep
from fwnet.directions.proposals import next_step
from fwnet.oracles import linearize

PROBLEMS = {
    "quadratic": (fwnet.Quadratic(spd(1, 9, 9), normal(2, 9)), 1.0),
    "batch": (fwnet.Quadratic(torch.stack([spd(3, 9, 9), spd(4, 9, 9)])), 1.0),
    "least squares": (fwnet.LeastSquares(normal(5, 6, 9), normal(6, 6)), 2.5),
    "batch of least squares": (fwnet.LeastSquares(normal(7, 3, 6, 9), normal(8, 3, 6)), 2.5),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("start", ["centre", "vertex", "face"])
def test_exchanges_are_points_with_their_images(name: str, start: str) -> None:
    problem, radius = PROBLEMS[name]
    simplex = fwnet.Simplex(radius)
    x = simplex.start(tuple(problem.shape), F64)
    if start != "centre":
        x = torch.zeros_like(x)
        x[..., 2] = radius
    if start == "face":
        x[..., 2], x[..., 5] = 0.7 * radius, 0.3 * radius
    it = problem.at(x)
    lin = linearize(problem, simplex, it)
    ((points, images, lasting),), _ = Exchanges(3)(problem, simplex, it, lin, None)
    assert points.shape[problem.batch_dims] == 6
    assert not lasting
    assert bool(simplex.contains(points).all())
    for point, image in zip(
        points.unbind(problem.batch_dims), images.unbind(problem.batch_dims), strict=True
    ):
        assert torch.allclose(image, problem.image(point), atol=1e-12)


def test_what_enters_and_what_leaves() -> None:
    """g = (1, 2, 3, 4): after the vertex e_0, e_1 should enter, and x without e_3."""
    simplex, x = fwnet.Simplex(), torch.full((4,), 0.25, dtype=F64)
    problem = fwnet.Quadratic(1e-9 * torch.eye(4, dtype=F64), torch.arange(1.0, 5.0, dtype=F64))
    it = problem.at(x)
    lin = linearize(problem, simplex, it)
    ((points, _, _),), _ = Exchanges(1)(problem, simplex, it, lin, None)
    third = 1 / 3
    wanted = [[0.0, 1.0, 0.0, 0.0], [third, third, third, 0.0]]
    assert torch.allclose(points, torch.tensor(wanted, dtype=F64))


def test_exchanges_save_steps() -> None:
    X = normal(9, 80, 6)
    y = torch.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0).to(F64)
    problem = fwnet.SVMDual(X @ X.T, y, C=20.0)
    steps = {}
    for name, proposals in {
        "without": [ProjectedStep()],
        "with": [ProjectedStep(), Exchanges(4)],
    }.items():
        direction = Corrections(6, proposals)
        result = fwnet.FrankWolfe(fwnet.Simplex(), direction=direction, tol=1e-7)(problem)
        assert result.status == "converged"
        steps[name] = result.steps
    assert steps["with"] < steps["without"]


@pytest.mark.parametrize("batch", [(), (3,)])
def test_one_coordinate_has_nothing_to_exchange(batch: tuple[int, ...]) -> None:
    problem = fwnet.Quadratic(torch.ones(*batch, 1, 1), torch.ones(*batch, 1))
    solver = fwnet.FrankWolfe(fwnet.Simplex(), direction=Corrections(2, [Exchanges()]), max_steps=3)
    result = fwnet.FWNet(solver)(problem)  # takes all steps, also at the minimum
    torch.testing.assert_close(result.value, torch.full(batch, 1.5))


def test_exchanges_are_for_the_simplex() -> None:
    solver = fwnet.FrankWolfe(fwnet.L1Ball(), direction=Corrections(2, [Exchanges()]))
    with pytest.raises(TypeError, match="Exchanges is for Simplex only; got L1Ball"):
        solver(fwnet.Quadratic(torch.eye(3)))
    with pytest.raises(ValueError, match=r"Exchanges\(count=...\) must be a whole number"):
        Exchanges(0)
    for wrong in (Exchanges(), [Exchanges], 3, "x"):
        with pytest.raises(TypeError, match=r"proposals=...\) must be a list of proposals such as"):
            Corrections(2, wrong)  # type: ignore[arg-type]


def test_the_length_is_barzilai_and_borweins_and_survives_a_step_of_zero() -> None:
    problem = fwnet.Quadratic(torch.diag(torch.tensor([1.0, 4.0, 9.0], dtype=F64)))
    simplex = fwnet.Simplex()
    here, there = torch.tensor([[0.2, 0.3, 0.5], [0.5, 0.4, 0.1]], dtype=F64)
    views = [(problem.at(x), linearize(problem, simplex, problem.at(x))) for x in (here, there)]
    first = next_step(problem, *views[0], None)
    second = next_step(problem, *views[1], first)
    step = there - here
    bend = step @ (torch.tensor([1.0, 4.0, 9.0], dtype=F64) * step)
    assert second.length.item() == pytest.approx((step @ step / bend).item())
    assert next_step(problem, *views[1], second).length == second.length  # Δx = 0


def test_a_direction_made_for_a_line_search_gets_one() -> None:
    simplex = fwnet.Simplex()
    made = fwnet.FrankWolfe(simplex, direction=Corrections(2))
    assert isinstance(made.rule, fwnet.LineSearch)
    assert isinstance(fwnet.FrankWolfe(simplex, direction=fwnet.Toward()).rule, fwnet.OpenLoop)


@pytest.mark.parametrize("batch", [(), (3,), (40,)])
@pytest.mark.parametrize("radius", [1e-6, 1.0, 37.5])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("bend", [0.0, 1.0, 1e6])
def test_a_hull_along_which_f_does_not_curve(
    bend: float, dtype: torch.dtype, radius: float, batch: tuple[int, ...]
) -> None:
    """Its curvatures are rounding, of any sign, and η overflows; f is linear there."""
    c = normal(11, *batch, 7).to(dtype)
    problem = fwnet.Quadratic(torch.full((*batch, 7, 7), bend, dtype=dtype), c)
    direction = Corrections(6, [ProjectedStep(), Exchanges(4)])
    simplex = fwnet.Simplex(radius)
    result = fwnet.FrankWolfe(simplex, direction=direction, max_steps=20, tol=0.0)(problem)
    lowest = c.amin(-1) * radius
    slack = 8 * torch.finfo(dtype).eps * (bend * radius**2 + lowest.abs())
    assert bool(simplex.contains(result.x).all())
    assert bool((result.value - (bend * radius**2 / 2 + lowest) <= slack).all())
