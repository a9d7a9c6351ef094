"""The sharded loss against autograd on dense matrices, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from distributed.cases import folder, rows
from fwnet.distributed import Team, open_shards
from fwnet.estimators.low_rank.distributed.rows import WorkerRows
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.iterates import ActiveSet
from fwnet.low_rank import Factors, RowProblem, SoftmaxLoss
from fwnet.vertices import Rank1

RADIUS = 6.0


@pytest.fixture
def problem(tmp_path: Path) -> ShardedSoftmax:
    shards = open_shards(folder(tmp_path, 150, 7, 5))
    return ShardedSoftmax(WorkerRows(shards, 5, 32, Team()), 5, RADIUS, Team())


@pytest.fixture
def active() -> ActiveSet:
    generator = torch.Generator().manual_seed(3)
    u, v = (torch.randn(4, n, generator=generator, dtype=torch.float64) for n in (7, 5))
    u, v = RADIUS * u / u.norm(dim=-1, keepdim=True), v / v.norm(dim=-1, keepdim=True)
    return ActiveSet(Rank1(u, v), torch.tensor([0.4, 0.0, 0.3, 0.2], dtype=torch.float64))


def dense_loss(W: Tensor) -> Tensor:
    X, y = (torch.from_numpy(array) for array in rows(150, 7, 5))
    return cross_entropy(X @ W, y)


def test_value_and_products_of_the_gradient(problem: ShardedSoftmax, active: ActiveSet) -> None:
    W = active.point().requires_grad_()
    value = dense_loss(W)
    (gradient,) = torch.autograd.grad(value, W)
    first = problem.first_order(problem.at_atoms(active))
    torch.testing.assert_close(first.value, value.detach())
    torch.testing.assert_close(first.along, (gradient * W).sum().detach())
    torch.testing.assert_close(first.gradient.dense(), gradient)
    v, u = torch.arange(5.0, dtype=torch.float64), torch.arange(7.0, dtype=torch.float64)
    torch.testing.assert_close(first.gradient.matvec(v), gradient @ v)
    torch.testing.assert_close(first.gradient.rmatvec(u), gradient.mT @ u)
    thin = torch.eye(7, dtype=torch.float64)[:, :3]
    torch.testing.assert_close(first.gradient.rmatmul(thin), gradient.mT @ thin)


def test_derivatives_in_several_directions_and_along_a_segment(
    problem: ShardedSoftmax, active: ActiveSet
) -> None:
    W, atoms = active.point(), active.atoms
    basis = torch.cat([W.unsqueeze(0), atoms.dense()])
    it = problem.at_atoms(active)
    scores = torch.stack([problem.scores(u) for u in atoms.u], -1)
    found_slopes, found_gram = problem.second_order(it, scores, atoms.v, stride=1)

    def along(q: Tensor) -> Tensor:
        return dense_loss(W + (q[:, None, None] * basis).sum(0))

    zero = torch.zeros(5, dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(along, zero)
    torch.testing.assert_close(found_slopes, slopes)
    torch.testing.assert_close(found_gram, torch.autograd.functional.hessian(along, zero))

    change = torch.tensor([-0.7, 0.1, 0.2, -0.1, 0.5], dtype=torch.float64)
    segment = (scores, change[1:, None] * atoms.v, float(change[0]))
    at = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(along(at * change), at, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, at)
    first, second = problem.derivatives(it, segment, 0.3, stride=1)
    torch.testing.assert_close(first, slope.detach())
    torch.testing.assert_close(second, curvature)


def test_rows_on_shards_are_rows_as_any_others(problem: ShardedSoftmax, active: ActiveSet) -> None:
    X, y = (torch.from_numpy(array) for array in rows(150, 7, 5))
    thin = torch.arange(14.0, dtype=torch.float64).reshape(7, 2)
    torch.testing.assert_close(problem.rows.times(thin), X @ thin)
    index = torch.tensor([149, 3, 100, 99])
    assert torch.equal(problem.rows.some(index).data, X[index])
    loss = SoftmaxLoss(torch.cat(list(problem.rows.labels)), 5, torch.ones(150).double())
    assert torch.equal(loss.y, y)
    W = active.point()
    in_memory = RowProblem(problem.rows, loss)
    look = in_memory.look(in_memory.scores(W), torch.eye(5).double(), torch.eye(5).double())
    first = problem.first_order(problem.at_atoms(active))
    assert look.value == pytest.approx(float(first.value), rel=1e-12)
    torch.testing.assert_close(look.gradient.dense(), first.gradient.dense())


def test_scores_after_a_product_are_those_of_a_pass(problem: ShardedSoftmax) -> None:
    generator = torch.Generator().manual_seed(3)
    u = torch.randn(7, generator=generator, dtype=torch.float64)
    active = ActiveSet(Rank1(u[None], torch.ones(1, 5).double()), torch.ones(1).double())
    fresh = problem.scores(-RADIUS * u)
    problem.first_order(problem.at_atoms(active)).gradient.rmatvec(u)
    torch.testing.assert_close(problem.scores(-RADIUS * u), fresh)


def test_compressing_keeps_the_matrix(active: ActiveSet) -> None:
    small = Factors.of_atoms(active, RADIUS).atoms(RADIUS)
    torch.testing.assert_close(small.point(), active.point())
    expected = torch.linalg.svdvals(active.point())[:3]
    torch.testing.assert_close(RADIUS * small.weights, expected)
