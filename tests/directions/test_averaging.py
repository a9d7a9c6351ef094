"""Averaging against plain Frank-Wolfe, whose iterates it averages."""

from __future__ import annotations

import pytest
import torch

import fwnet
from cases import DOMAINS, DomainCase, problem_for, walk
from fwnet.problems.base import dense_gradient

EVERY = pytest.mark.parametrize("case", DOMAINS, ids=str)


def path(case: DomainCase, steps: int) -> list[torch.Tensor]:
    """z_1, z_2, … by the solver with 2/(t + 2)."""
    solver = fwnet.FrankWolfe(case.domain)
    x0 = case.domain.start(case.shape, torch.float64)
    return [there.x for *_, there in walk(solver, problem_for(case), x0, steps)]


@EVERY
def test_a_step_of_one_is_the_path_itself(case: DomainCase) -> None:
    solver = fwnet.FrankWolfe(case.domain, fwnet.Constant(1.0), direction=fwnet.Averaging())
    x0 = case.domain.start(case.shape, torch.float64)
    steps = walk(solver, problem_for(case), x0, 30)
    for (_, lin, move, _, there), z in zip(steps, path(case, 30), strict=True):
        torch.testing.assert_close(there.x, z)
        slope = (dense_gradient(lin.gradient) * move.direction).sum()
        assert float(move.slope) == pytest.approx(float(slope), abs=1e-9)


@EVERY
def test_the_default_rule_averages_with_growing_weights(case: DomainCase) -> None:
    """γ = 2/(t + 2) from t = 0 on: z_k has the weight 2k / (T (T + 1))."""
    solver = fwnet.FrankWolfe(case.domain, direction=fwnet.Averaging())
    x0 = case.domain.start(case.shape, torch.float64)
    *_, (_, _, _, _, last) = walk(solver, problem_for(case), x0, 40)
    weights = 2 * torch.arange(1, 41, dtype=torch.float64) / (40 * 41)
    mean = torch.tensordot(weights, torch.stack(path(case, 40)), 1)
    torch.testing.assert_close(last.x, mean)


def test_a_path_is_refreshed_as_the_solver_refreshes() -> None:
    """After 2500 steps in float32 the path is still that of the plain solver."""
    root = torch.randn(12, 12, generator=torch.Generator().manual_seed(0))
    problem = fwnet.Quadratic(root @ root.mT)
    budget = {"max_steps": 2500, "tol": 0.0}
    plain = fwnet.FrankWolfe(fwnet.Simplex(), **budget)(problem)
    same = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.Constant(1.0), direction=fwnet.Averaging(), **budget
    )(problem)
    assert torch.allclose(plain.x, same.x, atol=1e-6)


def test_averaging_needs_true_gradients() -> None:
    problem = fwnet.LeastSquares(torch.eye(6), torch.ones(6))
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), oracle=fwnet.Stochastic(batch_size=2), direction=fwnet.Averaging()
    )
    with pytest.raises(TypeError, match="Averaging needs the true gradient"):
        solver(problem)
