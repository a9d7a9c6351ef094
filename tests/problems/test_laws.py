"""Laws that hold for every problem, against the same objective in plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fwnet
from cases import F64, csr, normal, seeded
from fwnet.iterates import Iterate, Move, Term
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Dense, OneHot, Rank1, Vertex
from problem_cases import ProblemCase, problems

every = pytest.mark.parametrize("case", problems(), ids=str)
QUADRATICS = [case for case in problems() if case.problem.quadratic]
quadratics = pytest.mark.parametrize("case", QUADRATICS, ids=str)


def close(actual: Tensor, wanted: Tensor, tol: float = 1e-11) -> None:
    torch.testing.assert_close(actual, wanted, rtol=tol, atol=tol)


def true_gradient(case: ProblemCase, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(case.value(x).sum(), x)[0]


def hessians(case: ProblemCase, x: Tensor) -> Tensor:
    """∇²f of each problem, `(batch, N, N)`, by autograd twice; batch is 1 for a single one."""
    full = torch.autograd.functional.hessian(lambda v: case.value(v).sum(), x)
    assert isinstance(full, Tensor)
    size = x[0].numel() if case.batched else x.numel()
    count = x.shape[0] if case.batched else 1
    blocks = full.reshape(count, size, count, size)
    return torch.stack([blocks[i, :, i] for i in range(count)])


def vertices(case: ProblemCase) -> list[Vertex]:
    """A structured and a dense one that fit the problem."""
    assert case.problem.shape is not None
    lead = tuple(case.problem.shape[: case.problem.batch_dims])
    dense = Dense(normal(41, *lead, *case.point), len(case.point))
    if len(case.point) == 2:
        return [Rank1(normal(42, *lead, case.point[0]), normal(43, *lead, case.point[1])), dense]
    index = torch.randint(0, case.point[0], lead, generator=seeded(44))
    return [OneHot(index, normal(45, *lead) if lead else normal(45, 1)[0], case.point[0]), dense]


def move_toward(case: ProblemCase, it: Iterate, vertex: Vertex) -> Move:
    first = case.problem.first_order(it)
    slope = vertex.inner(first.gradient) - first.along
    term = Term(1.0, vertex, case.problem.vertex_image(vertex))
    return Move(it, -1.0, (term,), first.value, slope)


@every
def test_value_and_gradient(case: ProblemCase) -> None:
    x = case.sample(1)
    it = case.problem.at(x)
    close(case.problem.value(it), case.value(x))
    gradient = dense_gradient(case.problem.gradient(it))
    assert gradient.shape == x.shape
    close(gradient, true_gradient(case, x))


@every
def test_gradient_against_finite_differences(case: ProblemCase) -> None:
    x, h = case.sample(2), 1e-5
    gradient = dense_gradient(case.problem.gradient(case.problem.at(x))).flatten()
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = h
        rise = case.problem.value(case.problem.at(x + step)).sum()
        fall = case.problem.value(case.problem.at(x - step)).sum()
        # the error of a central difference is h² f'''/6 + eps f/h
        assert float((rise - fall) / (2 * h) - gradient[i]) == pytest.approx(0, abs=1e-8)


@every
def test_first_order_is_all_three(case: ProblemCase) -> None:
    x = case.sample(3)
    value, gradient, along = case.problem.first_order(case.problem.at(x))
    wanted = true_gradient(case, x)
    close(value, case.value(x))
    close(dense_gradient(gradient), wanted)
    dims = tuple(range(case.problem.batch_dims, x.ndim))
    close(along, (wanted * x).sum(dims))


@every
def test_vertex_image_is_the_image_of_the_vertex(case: ProblemCase) -> None:
    for vertex in vertices(case):
        image = case.problem.vertex_image(vertex)
        assert image is not None
        wanted = case.problem.image(vertex.dense())
        assert wanted is not None
        close(image, wanted)


@every
def test_slope_and_curvature_along_a_move(case: ProblemCase) -> None:
    x = case.sample(4)
    it = case.problem.at(x)
    for vertex in vertices(case):
        move = move_toward(case, it, vertex)
        direction = vertex.dense() - x
        close(move.direction, direction)
        dims = tuple(range(case.problem.batch_dims, x.ndim))
        close(move.slope, (true_gradient(case, x) * direction).sum(dims))
        gamma = torch.full_like(move.slope, 0.3)
        there = move.trial(gamma)
        close(there.x, x + 0.3 * direction)
        assert there.image is not None
        image = case.problem.image(there.x)
        assert image is not None
        close(there.image, image)
        slope = case.problem.slope(there, move)
        close(slope, (true_gradient(case, there.x) * direction).sum(dims))
        curvature = case.problem.curvature(there, move)
        assert curvature is not None
        flat = direction.reshape(-1, curvature_size(case))
        wanted = torch.einsum("bi,bij,bj->b", flat, hessians(case, there.x), flat)
        close(curvature.reshape(-1), wanted, 1e-10)


def curvature_size(case: ProblemCase) -> int:
    return torch.Size(case.point).numel()


@every
def test_gram_is_the_hessian_between_directions(case: ProblemCase) -> None:
    x, count = case.sample(5), 4
    it = case.problem.at(x)
    lead = x.shape[: case.problem.batch_dims]
    directions = normal(51, *lead, count, *case.point)
    b = case.problem.batch_dims
    images = torch.stack([case.problem.image(d) for d in directions.unbind(b)], b)
    gram = case.problem.gram(it, directions, images)
    flat = directions.reshape(-1, count, curvature_size(case))
    wanted = torch.einsum("bki,bij,blj->bkl", flat, hessians(case, x), flat)
    close(gram, wanted.reshape(*lead, count, count), 1e-10)


@quadratics
def test_second_order_products(case: ProblemCase) -> None:
    x = case.sample(6)
    hessian = hessians(case, x)
    for vertex in vertices(case):
        product = case.problem.hessian_vertex(vertex, case.problem.vertex_image(vertex))
        assert product is not None
        flat = vertex.dense().reshape(-1, curvature_size(case))
        wanted = torch.einsum("bij,bj->bi", hessian, flat)
        close(dense_gradient(product), wanted.reshape(x.shape), 1e-10)
        atoms = vertex.as_atoms()
        own = case.problem.curvatures(atoms)
        assert own is not None
        wanted = torch.einsum("bi,bij,bj->b", flat, hessian, flat)
        close(own.reshape(-1), wanted, 1e-10)


@quadratics
def test_curvatures_of_several_atoms(case: ProblemCase) -> None:
    lead = case.problem.shape[: case.problem.batch_dims]
    points = normal(61, *lead, 5, *case.point)
    own = case.problem.curvatures(Dense(points, len(case.point)))
    assert own is not None
    flat = points.reshape(-1, 5, curvature_size(case))
    wanted = torch.einsum("bki,bij,bkj->bk", flat, hessians(case, case.sample(7)), flat)
    close(own, wanted.reshape(*lead, 5), 1e-10)
    if len(case.point) == 1:
        index = torch.randint(0, case.point[0], (*lead, 5), generator=seeded(62))
        hot = OneHot(index, normal(63, *lead, 5), case.point[0])
        as_hot, as_dense = case.problem.curvatures(hot), case.problem.curvatures(Dense(hot.dense()))
        assert as_hot is not None
        assert as_dense is not None
        close(as_hot, as_dense)


@every
def test_smoothness_bounds_the_curvature(case: ProblemCase) -> None:
    known = case.problem.smoothness()
    assert known is not None
    for seed in range(3):
        top = float(torch.linalg.eigvalsh(hessians(case, case.sample(70 + seed))).max())
        assert known >= top * (1 - 1e-12)
        if case.problem.quadratic:
            assert known <= 1.03 * top


@every
def test_blocks_of_the_gradient(case: ProblemCase) -> None:
    if len(case.point) == 1:
        it = case.problem.at(case.sample(8))
        whole = dense_gradient(case.problem.gradient(it))
        close(case.problem.gradient_block(it, 2, 6), whole[..., 2:6])


SUMS = [
    case
    for case in problems()
    if case.problem.terms() is not None and not case.tags & {"csr", "coo", "scipy", "free"}
    if "shared-" not in case.name
]


@pytest.mark.parametrize("case", SUMS, ids=str)
def test_minibatches_are_unbiased(case: ProblemCase) -> None:
    terms = case.problem.terms()
    assert terms == (8 if isinstance(case.problem, fwnet.SVMDual) else 9)  # its coordinates
    x = case.sample(9)
    order = torch.randperm(terms, generator=seeded(90))
    samples = [case.problem.minibatch(rows) for rows in order.split(4 if terms == 8 else 3)]
    values = torch.stack([sample.value(sample.at(x)) for sample in samples])
    gradients = [dense_gradient(sample.gradient(sample.at(x))) for sample in samples]
    close(values.mean(0), case.value(x))
    close(torch.stack(gradients).mean(0), true_gradient(case, x))


@pytest.mark.parametrize("case", [c for c in problems() if c.batched], ids=str)
def test_a_batch_has_no_crosstalk(case: ProblemCase) -> None:
    x = case.sample(10)
    moved = x.clone()
    moved[1] += 1.0
    before = case.problem.first_order(case.problem.at(x))
    after = case.problem.first_order(case.problem.at(moved))
    for a, b in ((before.value, after.value), (before.along, after.along)):
        assert torch.equal(a[[0, 2]], b[[0, 2]])
        assert a[1] != b[1]
    close(dense_gradient(before.gradient)[[0, 2]], dense_gradient(after.gradient)[[0, 2]])


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    A, b = normal(1, 4, 3).to(dtype), normal(2, 4).to(dtype)
    y = torch.tensor([1, -1, 1, 1])
    for problem in (
        fwnet.LeastSquares(A, b, 0.5),
        fwnet.LeastSquares(csr(A), b, 0.5),
        fwnet.LogisticRegression(A, y),
        fwnet.SVMDual(y=y[:4], features=A),
        fwnet.Quadratic(A.T @ A),
    ):
        assert problem.dtype == dtype
        x = torch.zeros(tuple(problem.shape or ()), dtype=dtype)
        value, gradient, along = problem.first_order(problem.at(x))
        assert {value.dtype, dense_gradient(gradient).dtype, along.dtype} == {dtype}


def test_the_logistic_loss_of_a_wrong_side_is_not_cut_off() -> None:
    """log(1 + eᶻ) − z is 2e-9 at 20, where torch's softplus leaves it out unless asked."""
    z = torch.linspace(-60.0, 60.0, 241, dtype=F64)
    problem = fwnet.LogisticRegression(z[:, None, None], -torch.ones(241, 1, dtype=F64))
    value = problem.value(problem.at(torch.ones(241, 1, dtype=F64)))
    wanted = torch.logaddexp(z, torch.zeros_like(z))
    torch.testing.assert_close(value, wanted, rtol=4e-16, atol=0)
