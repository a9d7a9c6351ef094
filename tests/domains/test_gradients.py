"""Derivatives of projections and of decompositions, against differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import fwnet
from domains.cases import CASES, Case, normal

F64 = torch.float64
PROJECTING = [
    case
    for case in CASES
    if max(case.shape) < 20 and case.domain.project(torch.zeros(case.shape, dtype=F64)) is not None
]


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("case", PROJECTING, ids=str)
def test_projections(case: Case, size: float) -> None:
    """Inside and outside, where all entries differ."""
    x = size * normal(torch.Generator().manual_seed(7), 2, *case.shape)
    assert gradcheck(case.domain.project, (x.requires_grad_(),))


@pytest.mark.parametrize("case", PROJECTING, ids=str)
def test_projections_of_zero_have_finite_derivatives(case: Case) -> None:
    x = torch.zeros(case.shape, dtype=F64, requires_grad=True)
    (gradient,) = torch.autograd.grad(case.domain.project(x).sum(), x)
    assert bool(torch.isfinite(gradient).all())


def test_a_projection_onto_a_hull_moves_with_its_vertices() -> None:
    generator = torch.Generator().manual_seed(3)
    x, vertices = 2 * normal(generator, 4, 3), normal(generator, 7, 3)
    assert gradcheck(
        lambda x, vertices: fwnet.ConvexHull(vertices).project(x),
        (x.requires_grad_(), vertices.requires_grad_()),
    )


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_atoms_of_a_matrix_of_low_rank(shape: tuple[int, int]) -> None:
    """Its zero singular values are tied: torch's own derivative is NaN there."""
    generator = torch.Generator().manual_seed(4)
    d, m = shape
    left, right = normal(generator, d, 2), normal(generator, 2, m)
    weights = normal(generator, d, m)

    def first_atom(left: Tensor, right: Tensor) -> Tensor:
        x = left @ right
        atoms, shares = fwnet.TraceNormBall(20.0).decompose(x)
        return (atoms.dense()[0] * weights).sum() + shares[1]

    assert gradcheck(first_atom, (left.requires_grad_(), right.requires_grad_()))


def test_atoms_of_a_semidefinite_matrix_of_low_rank() -> None:
    generator = torch.Generator().manual_seed(5)
    root, weights = normal(generator, 4, 2), normal(generator, 4, 4)

    def first_atom(root: Tensor) -> Tensor:
        x = root @ root.mT
        atoms, shares = fwnet.Spectraplex().decompose(x / x.trace())
        return (atoms.dense()[0] * weights).sum() + shares[1]

    assert gradcheck(first_atom, (root.requires_grad_(),))


@pytest.mark.parametrize("domain", [fwnet.TraceNormBall(1.3), fwnet.Spectraplex(1.3)], ids=str)
def test_networks_that_start_from_a_vertex(domain: fwnet.Domain) -> None:
    """Its atoms are found from x, a matrix of rank 1."""
    generator = torch.Generator().manual_seed(6)
    X, y = normal(generator, 9, 4), torch.arange(9) % 4
    network = fwnet.FWNet(fwnet.PairwiseFrankWolfe(domain, fwnet.Constant(0.2), max_steps=3))
    assert gradcheck(lambda X: network(fwnet.SoftmaxRegression(X, y, 4)).x, (X.requires_grad_(),))


def test_schatten_balls_between_the_others() -> None:
    C = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frobenius = fwnet.SchattenBall(2.0, 1.5).lmo(C).dense()
    torch.testing.assert_close(frobenius, -1.5 * C / torch.linalg.matrix_norm(C, keepdim=True))
    nearly = fwnet.SchattenBall(1.001, 1.5).lmo(C).dense()
    torch.testing.assert_close(nearly, fwnet.TraceNormBall(1.5).lmo(C).dense(), atol=1e-9, rtol=0)
    large = fwnet.SchattenBall(1e6, 1.5).lmo(C).dense()
    torch.testing.assert_close(large, fwnet.SpectralBall(1.5).lmo(C).dense(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
def test_the_vertex_of_a_schatten_ball_is_differentiable(p: float) -> None:
    ball = fwnet.SchattenBall(p, 1.5)
    C = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert gradcheck(lambda c: ball.lmo(c).dense(), (C.requires_grad_(),))
    low = (C[:, :1] @ C[:1]).detach().requires_grad_()  # of rank 1
    ball.lmo(low).dense().sum().backward()
    assert bool(low.grad.isfinite().all())


VERTEX_CASES = [case for case in CASES if max(case.shape) < 20]


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
@pytest.mark.parametrize("case", VERTEX_CASES, ids=str)
def test_vertices_have_finite_derivatives(case: Case, dtype: torch.dtype) -> None:
    """Where entries of the cost are 0, where all are, and where their squares overflow."""
    dense = normal(torch.Generator().manual_seed(8), *case.shape)
    sparse = dense.clone()
    sparse.view(-1)[::2] = 0.0
    for cost in (dense, 1e30 * dense, sparse, 0.0 * dense, 1e-30 * torch.ones_like(dense)):
        leaf = cost.to(dtype, copy=True).requires_grad_()
        vertex = case.domain.vertex(leaf).dense()
        assert bool(vertex.isfinite().all())
        if vertex.requires_grad:
            (gradient,) = torch.autograd.grad((vertex * dense.to(dtype)).sum(), leaf)
            assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_the_vertex_of_an_lp_ball_is_differentiable(p: float) -> None:
    cost = normal(torch.Generator().manual_seed(9), 5).requires_grad_()
    assert gradcheck(lambda c: fwnet.LpBall(p, 1.5).vertex(c).dense(), (cost,))


def test_a_projection_onto_a_hull_has_the_same_bits_each_time() -> None:
    """A network that recomputes its cells for the backward pass must take the same branches."""
    generator = torch.Generator().manual_seed(10)
    hull, x = fwnet.ConvexHull(normal(generator, 7, 4)), 0.3 * normal(generator, 4)
    first, kept = hull.project(x), []
    for k in range(100):
        kept.append(torch.full((37 * k + 1,), float(k), dtype=F64))  # other memory than before
        assert torch.equal(hull.project(x), first)
