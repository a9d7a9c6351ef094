"""A solve converges only on a gap that holds; an oracle that fails is named."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import pytest
import torch
from torch import Tensor

import fwnet
from fwnet.domains import Cost, Domain
from fwnet.numerics.tensors import dense_cost
from fwnet.oracles import certify
from fwnet.vertices import OneHot, Vertex

F64 = torch.float64


@final
@dataclass(frozen=True)
class WorstOfSimplex(Domain):
    """The simplex with an oracle that maximises where the first cost is the largest."""

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        wrong = cost[..., 0] >= cost.amax(-1)
        index = torch.where(wrong, cost.argmax(-1), cost.argmin(-1))
        return OneHot(index, torch.ones_like(cost[..., 0]), cost.shape[-1])

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        return fwnet.Simplex().contains(x, tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return fwnet.Simplex().diameter(shape)


X0 = torch.tensor([0.2, 0.3, 0.5], dtype=F64)


def test_an_oracle_that_is_worse_than_x_does_not_converge() -> None:
    cost = torch.tensor([3.0, 1.0, 2.0], dtype=F64)
    result = fwnet.FrankWolfe(WorstOfSimplex())(lambda x: cost @ x, X0)
    assert (result.status, result.steps) == ("oracle_failed", 0)
    assert float(result.gap) == math.inf
    assert torch.equal(result.x, X0)
    assert "worse than x itself" in result.message


def test_a_failed_oracle_in_a_batch_leaves_the_others_alone() -> None:
    costs = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], dtype=F64)
    x0 = torch.stack([X0, X0])
    solver = fwnet.FrankWolfe(WorstOfSimplex())
    result = solver(fwnet.Function(lambda x: (costs * x).sum(-1), batched=True), x0)
    assert result.status == ("converged", "oracle_failed")
    assert result.steps == (1, 0)
    assert result.gap.tolist() == [0.0, math.inf]
    assert torch.equal(result.x[1], X0)
    assert "in problems [1]: the oracle" in result.message
    problem = fwnet.Function(lambda x: (costs[1] * x).sum(-1), batched=True)
    assert solver(problem, x0).status == ("oracle_failed", "oracle_failed")


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_rounding_below_zero_is_no_failure(dtype: torch.dtype) -> None:
    """At the optimum of a problem with large numbers that cancel."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(40, 30, generator=generator, dtype=dtype) + 1e3
    x = torch.zeros(30, dtype=dtype)
    x[3] = 1.0
    problem = fwnet.LeastSquares(A, A @ x)
    for domain in (fwnet.Simplex(), fwnet.L2Ball(1.0), fwnet.L1Ball(1.0)):
        for scale in (1.0, 1.0 - 1e-10, 1.0 + 1e-10):
            gap = certify(problem, domain, problem.at(scale * x)).gap
            assert gap is not None
            assert bool(gap.isfinite())


@pytest.mark.parametrize("n", [160, 200])
@torch.no_grad()
def test_gaps_over_the_spectraplex_hold_where_eigenvalues_are_close(n: int) -> None:
    """½‖X − B‖² with eigenvalues of B whose spread is small beside their size."""
    generator = torch.Generator().manual_seed(0)
    base = 1 + 1e-3 * torch.rand(n, generator=generator, dtype=F64)
    domain = fwnet.Spectraplex()
    x0 = domain.start((n, n), F64)
    for place in range(0, n, 1 if n == 160 else 8):
        diagonal = base.clone()
        diagonal[place] = 1.0022
        B = -1e4 * torch.diag(diagonal)
        target = domain.project(B)
        least = 0.5 * float((target - B).square().sum())
        problem = fwnet.Function(lambda X, B=B: 0.5 * (X - B).square().sum())
        gap = certify(problem, domain, problem.at(x0)).gap
        assert gap is not None
        assert float(gap) >= 0.5 * float((x0 - B).square().sum()) - least - 1e-12 * least


@pytest.mark.parametrize("relative", [False, True])
def test_tol_bounds_the_gap_whatever_the_softmin_is_relative_to(relative: bool) -> None:
    """f = ½ s |x|² over the simplex: at a vertex f = s/2 and the gap is s."""
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), oracle=fwnet.Softmin(relative=relative), tol=3.0, max_steps=0
    )
    result = solver(fwnet.Quadratic(100.0 * torch.eye(3)), torch.tensor([1.0, 0.0, 0.0]))
    assert float(result.gap) == pytest.approx(100.0)
    assert result.status == "max_steps"
