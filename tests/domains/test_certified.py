"""Bounds on extreme singular values and eigenvalues against LAPACK in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import fwnet
from domains.cases import implicit
from domains.test_singular import matrix_of
from fwnet.domains import Spectraplex, TraceNormBall
from fwnet.numerics import bounds
from fwnet.numerics.bounds import bounded_eigenpair, bounded_singular_pair
from fwnet.numerics.lanczos import SingularPair
from fwnet.numerics.singular import top_singular_pair
from fwnet.numerics.tensors import ImplicitMatrix

F64 = torch.float64


def hard_spectrum(kind: str, n: int, generator: torch.Generator) -> Tensor:
    """Singular values that iterations get wrong, the largest first."""
    below = 0.9 * torch.rand(n, generator=generator, dtype=F64)
    tie = 10.0 ** -float(torch.randint(3, 13, (), generator=generator))
    few = min(n, 8)
    if kind == "near tie":
        below[:few] = 1 + tie * torch.rand(few, generator=generator, dtype=F64)
    elif kind == "two":
        below[:2] = torch.tensor([1 + tie, 1.0], dtype=F64)[:n]
    elif kind == "equal":
        below[:] = 1.0
    elif kind == "cluster":
        below = 1 + 1e-3 * below
    elif kind == "rank 3":
        below[3:] = 0.0
    elif kind == "outlier":
        below[0] = 1e4
    elif kind == "zero":
        below[:] = 0.0
    return below.sort(descending=True).values


KINDS = ["near tie", "two", "equal", "cluster", "rank 3", "outlier", "zero", "uniform"]


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_largest_singular_value_holds(kind: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(len(kind))
    shapes = [(1, 1), (2, 3), (127, 150), (192, 192), (193, 193), (230, 200), (520, 513)]
    for seed, (d, m) in enumerate(shapes):
        values = hard_spectrum(kind, min(d, m), generator)
        for scale in (1e-30, 1e30) if d == 230 else (1.0,):
            matrix = (scale * matrix_of(values, d, m, seed)).to(dtype)
            exact = torch.linalg.svd(matrix.double())
            second = exact[2][min(1, m - 1)].to(dtype)
            for cost, start in (
                (implicit(matrix), second),
                (matrix, second),
                (matrix, None),
                (torch.stack([torch.ones_like(matrix), matrix]), None),
            )[: 4 if d < 300 else 1]:
                pair, upper = bounded_singular_pair(cost, start)
                low, high = float(pair.sigma.flatten()[-1]), float(upper.flatten()[-1])
                top = float(exact[1][0])
                assert high >= top * (1 - 1e-13)
                assert high <= top * (1 + 16 * torch.finfo(dtype).eps + 2e-11)
                assert low == pytest.approx(top, rel=1e-6 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("n", [193, 230])
@pytest.mark.parametrize("tie", [1e-3, 1e-6, 1e-9])
def test_the_bounds_hold_whatever_the_iterations_find(
    n: int, tie: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iterations that end at the second vector, and call it the first, are refuted."""
    values = torch.linspace(0.9, 0.1, n, dtype=F64)
    values[0], values[1] = 1 + tie, 1.0
    u, s, vh = torch.linalg.svd(matrix_of(values, n + 5, n), full_matrices=False)
    matrix = (u * s) @ vh

    def second_pair(cost: Tensor, start: Tensor | None = None, tol: float = 0.0) -> SingularPair:
        return SingularPair(u[:, 1], s[1] * matrix.abs().max().reciprocal(), vh[1])

    monkeypatch.setattr(bounds, "top_singular_pair", second_pair)
    pair, upper = bounded_singular_pair(matrix)
    assert 1 + tie - 1e-12 <= float(upper) <= (1 + tie) * (1 + 1e-10)
    assert float(pair.sigma) == pytest.approx(1 + tie, rel=1e-12)

    def second_bottom(cost: Tensor) -> tuple[Tensor, Tensor]:
        return -s[1], vh[1]

    monkeypatch.setattr(bounds, "bottom_eigenpair", second_bottom)
    v, lower = bounded_eigenpair(-(vh.mT * s) @ vh)
    assert -(1 + tie) - 1e-9 <= float(lower) <= -(1 + tie) + 1e-12
    assert float((v @ vh[0]).abs()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("tie", [1e-3, 1e-5, 1e-7])
def test_a_start_at_the_second_vector_does_not_hide_the_first(tie: float) -> None:
    """Large and known by its products: the bound by Lanczos polynomials alone."""
    values = torch.linspace(0.9, 0.1, 600, dtype=F64)
    values[0], values[1] = 1 + tie, 1.0
    matrix = matrix_of(values, 700, 600)

    def refuse() -> Tensor:
        raise AssertionError("the bound needs no dense matrix")

    cost = ImplicitMatrix(
        matrix.shape, matrix.matmul, matrix.mT.matmul, refuse, matrix.dtype, matrix.device
    )
    start = torch.linalg.svd(matrix)[2][1]
    for tol in (1e-2, 1e-4, 1e-8):
        pair, upper = bounded_singular_pair(cost, start, tol)
        assert 1 + tie - 1e-12 <= float(upper) <= (1 + tol) * float(pair.sigma) * (1 + 1e-12)


def test_a_cost_orthogonal_to_a_fixed_start_is_handled() -> None:
    generator = torch.Generator().manual_seed(2016)
    fixed = torch.randn(300, generator=generator, dtype=F64)
    fixed = fixed / fixed.norm()
    hidden = torch.randn(300, generator=generator, dtype=F64)
    hidden = hidden - (hidden @ fixed) * fixed
    hidden = hidden / hidden.norm()
    cost = torch.outer(fixed, fixed) + 10 * torch.outer(hidden, hidden)
    assert float(top_singular_pair(cost).sigma) == pytest.approx(10.0)
    assert float(top_singular_pair(implicit(cost)).sigma) == pytest.approx(10.0)


@pytest.mark.parametrize("n", [160, 230])
def test_the_spectraplex_never_answers_with_the_top_eigenvector(n: int) -> None:
    """Eigenvalues whose spread is small beside their size."""
    generator = torch.Generator().manual_seed(0)
    base = 1 + 1e-3 * torch.rand(n, generator=generator, dtype=F64)
    for place in range(0, n, 1 if n == 160 else 5):
        diagonal = base.clone()
        diagonal[place] = 1.0022
        cost = torch.diag(diagonal)
        inner = float(Spectraplex().vertex(cost).inner(cost))
        assert inner == pytest.approx(float(diagonal.min()), abs=1e-10)


@pytest.mark.parametrize("shift", [0.0, 1e3, -1e3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_smallest_eigenvalue_holds(kind: str, shift: float) -> None:
    generator = torch.Generator().manual_seed(1 + len(kind))
    for n in (1, 2, 150, 193, 240):
        basis = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=F64))[0]
        values = hard_spectrum(kind, n, generator) * (-1.0 if shift >= 0 else 1.0) + shift
        turned = torch.randn(n, n, generator=generator, dtype=F64)
        cost = (basis * values) @ basis.mT + (turned - turned.mT)
        symmetric = (cost + cost.mT) / 2
        exact = torch.linalg.eigvalsh(symmetric)
        size = max(float(exact.abs().max()), 1e-300)
        for given in (cost, implicit(cost), torch.stack([cost.mT, cost])):
            v, lower = bounded_eigenpair(given)
            v, low = v.reshape(-1, n)[-1], float(lower.flatten()[-1])
            assert low <= float(exact[0]) + 1e-13 * size
            assert low >= float(exact[0]) - 1e-9 * size
            assert float(v @ symmetric @ v) == pytest.approx(float(exact[0]), abs=1e-10 * size)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
def test_the_bound_sees_what_is_left_after_steps_along_its_own_vectors(step: float) -> None:
    """σ₁ of Q − Σ step uᵢvᵢᵀ, Q orthogonal, is 1: all other directions still have that value."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.linalg.qr(torch.randn(200, 200, generator=generator, dtype=F64)).Q
    for _ in range(4):
        pair, upper = bounded_singular_pair(implicit(matrix))
        top = float(torch.linalg.svdvals(matrix)[0])
        assert top * (1 - 1e-13) <= float(upper) <= top * (1 + 3e-11)
        matrix = matrix - step * torch.outer(pair.u, pair.v)


def test_a_large_implicit_spectraplex_has_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwnet.numerics.bounds._FACTORED", 0)
    monkeypatch.setattr("fwnet.numerics.bounds._DENSE", 0)
    diagonal = 5 + torch.linspace(0, 1, 250, dtype=F64) ** 2
    v, lower = bounded_eigenpair(implicit(torch.diag(diagonal)))
    assert 5 - 1e-3 <= float(lower) <= 5
    assert float((diagonal * v.square()).sum()) == pytest.approx(5.0, abs=1e-4)


def test_a_product_adds_the_bounds_of_its_blocks() -> None:
    domain = fwnet.Product((TraceNormBall(2.0), fwnet.Simplex()), ((200, 210), (3,)))
    matrix = matrix_of(torch.linspace(3.0, 1.0, 200, dtype=F64), 200, 210)
    cost = torch.cat([matrix.flatten(), torch.tensor([5.0, 4.0, 6.0], dtype=F64)])
    vertex, bound = domain.certified_vertex(cost)
    assert float(bound) == pytest.approx(-6.0 + 4.0, abs=1e-9)
    assert float(bound) <= float(vertex.inner(cost))


def test_nan_is_no_bound() -> None:
    for n in (5, 250):
        matrix = torch.eye(n, dtype=F64)
        matrix[1, 2] = math.nan
        assert math.isnan(float(bounded_singular_pair(matrix).upper))
        assert math.isnan(float(bounded_eigenpair(matrix).lower))
