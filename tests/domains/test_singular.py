"""Extreme singular and eigenvectors against the full decompositions of LAPACK."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from domains.cases import implicit
from fwnet.domains import TraceNormBall
from fwnet.numerics.singular import bottom_eigenpair, power_iteration, top_singular_pair
from fwnet.numerics.tensors import ImplicitMatrix

SPECTRA = {
    "flat": 1.0 - 0.3 * torch.linspace(0, 1, 200, dtype=torch.float64),
    "equal": torch.ones(200, dtype=torch.float64),
    "decaying": 0.8 ** torch.arange(200, dtype=torch.float64),
    "tied": torch.tensor(
        [1.0, 1.0, 1.0] + [0.9 - 0.004 * i for i in range(197)], dtype=torch.float64
    ),
    "almost tied": torch.tensor(
        [1.0, 1 - 1e-7] + [0.9 - 0.004 * i for i in range(198)], dtype=torch.float64
    ),
    "cluster": torch.cat(
        [1 - 1e-4 * torch.linspace(0, 1, 9, dtype=torch.float64), torch.ones(191) * 0.5]
    ),
    "crowded edge": (1 - torch.linspace(0, 1, 200, dtype=torch.float64) ** 2).sqrt(),
    "rank 1": torch.tensor([1.0] + [0.0] * 199, dtype=torch.float64),
    "rank 3": torch.tensor([3.0, 2.0, 1.0] + [0.0] * 197, dtype=torch.float64),
    "zero": torch.zeros(200, dtype=torch.float64),
}
SHAPES = {"square": (200, 200), "tall": (400, 200), "wide": (200, 300), "small": (30, 20)}


def matrix_of(values: Tensor, d: int, m: int, seed: int = 0) -> Tensor:
    """A random d × m matrix with these singular values."""
    generator = torch.Generator().manual_seed(seed)
    k = min(d, m, len(values))
    left = torch.linalg.qr(torch.randn(d, k, generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(m, k, generator=generator, dtype=torch.float64))[0]
    matrix: Tensor = (left * values[:k]) @ right.mT
    return matrix


def counted(matrix: Tensor, calls: list[int] | None = None) -> ImplicitMatrix:
    """The matrix, known by its products only; `calls` counts them."""

    def noted(product: Tensor) -> Tensor:
        if calls is not None:
            calls.append(1 if product.ndim == 1 else product.shape[-1])
        return product

    def dense() -> Tensor:
        one = matrix.ndim == 2  # a batch is as large as its points, which are dense
        assert not one or min(matrix.shape) < 100, "a large implicit matrix is never made dense"
        return matrix

    return ImplicitMatrix(
        matrix.shape,
        lambda v: noted(matrix @ v),
        lambda u: noted(matrix.mT @ u),
        dense,
        matrix.dtype,
        matrix.device,
    )


def check(matrix: Tensor, pair: tuple[Tensor, Tensor, Tensor]) -> None:
    u, sigma, v = pair
    assert u.dtype == v.dtype == sigma.dtype == matrix.dtype
    assert u.shape == matrix.shape[:-1]
    assert v.shape == (*matrix.shape[:-2], matrix.shape[-1])
    assert sigma.shape == matrix.shape[:-2]
    tol = 1e-6 if matrix.dtype == torch.float32 else 1e-10
    ones = torch.ones_like(sigma)
    torch.testing.assert_close(u.norm(dim=-1), ones, atol=tol, rtol=0)
    torch.testing.assert_close(v.norm(dim=-1), ones, atol=tol, rtol=0)
    exact = torch.linalg.svdvals(matrix.double())[..., 0]
    value = torch.einsum("...d,...dm,...m->...", u.double(), matrix.double(), v.double())
    torch.testing.assert_close(value, exact, rtol=tol, atol=1e-300)
    torch.testing.assert_close(sigma.double(), exact, rtol=tol, atol=1e-300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_top_pair_is_that_of_the_full_decomposition(
    spectrum: str, shape: str, dtype: torch.dtype
) -> None:
    matrix = matrix_of(SPECTRA[spectrum], *SHAPES[shape]).to(dtype)
    check(matrix, top_singular_pair(matrix))
    check(matrix, top_singular_pair(counted(matrix)))


def test_entries_whose_products_underflow_beside_large_ones() -> None:
    """G = e₀(e₅ − e₁₀)ᵀ up to entries of 1e-36 to 1e-32: σ₁ = √2; LAPACK fails for some of them."""
    for tiny in torch.logspace(-36, -32, 81).tolist():
        matrix = torch.zeros(17, 15)
        matrix[0] = tiny
        matrix[0, 5], matrix[0, 10] = 1.0, -1.0
        u, sigma, v = top_singular_pair(matrix)
        assert float(sigma) == pytest.approx(2**0.5, rel=1e-6)
        assert abs(float(u[0])) == pytest.approx(1.0, rel=1e-6)
        assert float(v[5] * v[10]) == pytest.approx(-0.5, rel=1e-6)


@pytest.mark.parametrize("kind", ["dense", "implicit"])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_huge_and_tiny_matrices_keep_their_digits(kind: str, scale: float) -> None:
    matrix = (matrix_of(SPECTRA["decaying"], 150, 140) * scale).float()
    check(matrix, top_singular_pair(matrix if kind == "dense" else counted(matrix)))


@pytest.mark.parametrize("kind", ["dense", "implicit"])
def test_a_batch_equals_a_loop(kind: str) -> None:
    names = ["flat", "rank 1", "zero", "decaying", "tied", "equal"]
    matrices = torch.stack([matrix_of(SPECTRA[name], 140, 150) for name in names])
    matrices = matrices.reshape(2, 3, 140, 150)
    pair = top_singular_pair(matrices if kind == "dense" else counted(matrices))
    check(matrices, pair)
    for i in range(2):
        for j in range(3):
            alone = top_singular_pair(matrices[i, j])
            torch.testing.assert_close(alone.sigma, pair.sigma[i, j], rtol=1e-10, atol=1e-300)


def test_a_low_rank_matrix_survives_a_long_run_of_its_batch() -> None:
    """Its bases are complete after 3 steps; the flat one beside it takes many more."""
    flat, low = (matrix_of(SPECTRA[name], 300, 200) for name in ("flat", "rank 3"))
    batch = torch.stack([flat, low])
    check(batch, top_singular_pair(batch))


def test_identity_and_one_row() -> None:
    check(torch.eye(300), top_singular_pair(torch.eye(300)))
    row = torch.arange(1.0, 500.0).reshape(1, -1)
    check(row, top_singular_pair(row))
    check(row.mT, top_singular_pair(counted(row.mT)))


@pytest.mark.parametrize("spectrum", ["flat", "decaying", "tied", "rank 3"])
def test_any_warm_start_finds_the_top(spectrum: str) -> None:
    matrix = matrix_of(SPECTRA[spectrum], 200, 200)
    right = torch.linalg.svd(matrix)[2]
    for guess in (
        right[0],
        right[1],
        right[-1],
        1e-9 * right[0] + 1e-20,
        torch.zeros(200).double(),
    ):
        check(matrix, top_singular_pair(matrix, start=guess))


def test_a_good_warm_start_saves_products() -> None:
    matrix = matrix_of(SPECTRA["flat"], 300, 300) + 0.5 * matrix_of(SPECTRA["rank 1"], 300, 300, 1)
    cold: list[int] = []
    warm: list[int] = []
    pair = top_singular_pair(counted(matrix, cold), tol=1e-4)
    top_singular_pair(counted(matrix, warm), start=pair.v, tol=1e-4)
    assert len(warm) <= len(cold)


def test_a_loose_tolerance_costs_less_and_is_kept() -> None:
    matrix = matrix_of(SPECTRA["flat"], 200, 200)
    counts = []
    for tol in (1e-2, 1e-4, 1e-8):
        calls: list[int] = []
        pair = top_singular_pair(counted(matrix, calls), tol=tol)
        counts.append(len(calls))
        assert float(pair.u @ matrix @ pair.v) >= 1 - tol
    assert counts[0] < counts[1] < counts[2]


def test_a_sparse_residual_costs_a_handful_of_products() -> None:
    """The gradient of matrix completion at 0: a low-rank matrix seen in one place of ten."""
    generator = torch.Generator().manual_seed(1)
    factors = torch.randn(2, 600, 5, generator=generator)
    seen = torch.rand(600, 600, generator=generator) < 0.1
    matrix = (factors[0] @ factors[1].mT) * seen
    calls: list[int] = []
    vertex = TraceNormBall(2.0).vertex(counted(matrix, calls))
    assert len(calls) <= 60
    assert set(calls) == {1}
    wanted = -2.0 * float(torch.linalg.svdvals(matrix)[0])
    assert float(vertex.inner(matrix)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 5, 5)])
def test_gradients_of_the_vertex_match_finite_differences(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    def vertex(cost: Tensor) -> tuple[Tensor, Tensor]:
        pair = top_singular_pair(cost)
        return pair.u.unsqueeze(-1) * pair.v.unsqueeze(-2), pair.sigma

    assert torch.autograd.gradcheck(vertex, (matrix,))


def test_gradients_ignore_ties_of_the_other_values() -> None:
    """A rank-1 matrix: all other singular values are 0, and the vertex is still smooth there."""
    base = torch.outer(torch.arange(1.0, 7.0), torch.arange(1.0, 6.0)).double().requires_grad_()

    def vertex(cost: Tensor) -> Tensor:
        return TraceNormBall(1.0).vertex(cost).dense()

    assert torch.autograd.gradcheck(vertex, (base,))


@pytest.mark.parametrize("kind", ["dense", "implicit"])
@pytest.mark.parametrize("n", [1, 12, 150])
def test_bottom_eigenpair_is_that_of_eigh(n: int, kind: str) -> None:
    generator = torch.Generator().manual_seed(n)
    for matrix in (
        torch.randn(2, n, n, generator=generator, dtype=torch.float64),
        -torch.ones(n, n, dtype=torch.float64),
        torch.ones(n, n, dtype=torch.float64),
        torch.eye(n, dtype=torch.float64),
        torch.zeros(n, n, dtype=torch.float64),
        torch.diag(torch.linspace(5.0, 6.0, n, dtype=torch.float64)),
        -torch.diag(torch.linspace(5.0, 6.0, n, dtype=torch.float64)),
    ):
        value, v = bottom_eigenpair(matrix if kind == "dense" else implicit(matrix))
        symmetric = (matrix + matrix.mT) / 2
        exact = torch.linalg.eigvalsh(symmetric)[..., 0]
        scale = float(torch.linalg.matrix_norm(symmetric, 2).max())
        torch.testing.assert_close(value, exact, atol=1e-10 * max(scale, 1.0), rtol=0)
        quadratic = torch.einsum("...d,...dm,...m->...", v, matrix, v)
        torch.testing.assert_close(quadratic, exact, atol=1e-10 * max(scale, 1.0), rtol=0)
        torch.testing.assert_close(v.norm(dim=-1), torch.ones_like(value))


def test_gradient_of_the_bottom_eigenvector() -> None:
    generator = torch.Generator().manual_seed(4)
    matrix = torch.randn(5, 5, generator=generator, dtype=torch.float64).requires_grad_()

    def vertex(cost: Tensor) -> Tensor:
        _, v = bottom_eigenpair(cost)
        return torch.outer(v, v)

    assert torch.autograd.gradcheck(vertex, (matrix,))


def test_power_iteration_is_the_textbook_one() -> None:
    matrix = matrix_of(SPECTRA["decaying"], 40, 30)
    start = torch.arange(1.0, 31.0, dtype=torch.float64)
    pair = power_iteration(matrix, start, 3)
    v = start
    for _ in range(3):
        v = matrix.mT @ (matrix @ v)
    v = v / v.norm()
    torch.testing.assert_close(pair.v, v)
    torch.testing.assert_close(pair.sigma, pair.u @ matrix @ pair.v)
    assert float(pair.sigma) <= 1.0
    many = power_iteration(matrix, start, 200)
    assert float(many.sigma) == pytest.approx(1.0, abs=1e-12)


def test_power_iteration_batched_implicit_and_differentiable() -> None:
    matrices = torch.stack([matrix_of(SPECTRA["decaying"], 6, 5, seed) for seed in range(3)])
    start = torch.ones(3, 5, dtype=torch.float64)
    batched = power_iteration(matrices, start, 2)
    lazily = power_iteration(counted(matrices), start, 2)
    for i in range(3):
        alone = power_iteration(matrices[i], start[i], 2)
        for one, all_, other in zip(alone, batched, lazily, strict=True):
            torch.testing.assert_close(one, all_[i])
            torch.testing.assert_close(one, other[i])

    def outputs(matrix: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return tuple(power_iteration(matrix, v, 2))

    inputs = (matrices.clone().requires_grad_(), start.clone().requires_grad_())
    assert torch.autograd.gradcheck(outputs, inputs)


def test_power_iteration_on_zero_gives_unit_vectors() -> None:
    matrix = torch.zeros(4, 3, requires_grad=True)
    u, sigma, v = power_iteration(matrix, torch.ones(3), 2)
    assert sigma.item() == 0.0
    assert u.norm().item() == v.norm().item() == 1.0
    (u.sum() + v.sum() + sigma).backward()
    assert matrix.grad is not None
    assert bool(matrix.grad.isfinite().all())


def test_power_iteration_needs_a_step() -> None:
    with pytest.raises(ValueError, match=r"power_iteration\(steps=...\) must be a whole number of"):
        power_iteration(torch.eye(3), torch.ones(3), 0)


def test_nan_flows_through() -> None:
    for n in (5, 200):
        matrix = torch.eye(n)
        matrix[1, 2] = torch.nan
        assert bool(top_singular_pair(matrix).u.isnan().any())
