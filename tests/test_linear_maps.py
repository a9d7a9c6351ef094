"""Linear maps of every form against the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor

import fwnet
from cases import F64, csr, forms, normal, seeded, sparse_like
from fwnet.numerics.linear_maps import DenseMap, LinearMap, SparseMap, as_linear_map
from fwnet.vertices import Dense, OneHot, Slice

A = sparse_like(1, 7, 5)
FORMS = [*forms(A)]
every = pytest.mark.parametrize("form", FORMS)


def made(form: str) -> LinearMap:
    return as_linear_map("A", forms(A)[form])


@every
def test_products(form: str) -> None:
    linear, x, z = made(form), normal(2, 5), normal(3, 7)
    assert tuple(linear.shape) == (7, 5)
    torch.testing.assert_close(linear.apply(x), A @ x)
    torch.testing.assert_close(linear.adjoint(z), A.T @ z)
    xs, zs = normal(4, 3, 5), normal(5, 3, 7)
    torch.testing.assert_close(linear.apply(xs), xs @ A.T)
    torch.testing.assert_close(linear.adjoint(zs), zs @ A)


@every
def test_columns_and_vertices(form: str) -> None:
    linear = made(form)
    for i in range(5):
        torch.testing.assert_close(linear.columns(torch.tensor(i)), A[:, i])
    index = torch.tensor([4, 0, 2])
    torch.testing.assert_close(linear.columns(index), A[:, index].T)
    one = OneHot(torch.tensor(3), torch.tensor(-2.0, dtype=F64), 5)
    many = OneHot(index, normal(6, 3), 5)
    block = Slice(normal(7, 2), 1, 5)
    for vertex in (one, many, block, Dense(normal(8, 5)), Dense(normal(9, 3, 5))):
        torch.testing.assert_close(vertex.image(linear), linear.apply(vertex.dense()))


def test_a_matrix_for_each_problem() -> None:
    As = normal(10, 3, 7, 5)
    linear = as_linear_map("A", As)
    x, z, index = normal(11, 3, 5), normal(12, 3, 7), torch.tensor([1, 4, 1])
    torch.testing.assert_close(linear.apply(x), torch.einsum("bmn,bn->bm", As, x))
    torch.testing.assert_close(linear.adjoint(z), torch.einsum("bmn,bm->bn", As, z))
    wanted = torch.stack([As[b, :, i] for b, i in enumerate(index)])
    torch.testing.assert_close(linear.columns(index), wanted)
    block = Slice(normal(13, 3, 2), 2, 5)
    torch.testing.assert_close(block.image(linear), linear.apply(block.dense()))
    assert linear.norm() == pytest.approx(float(torch.linalg.matrix_norm(As, 2).max()))


def test_rows_and_blocks() -> None:
    linear, rows = as_linear_map("A", A), torch.tensor([3, 3, 0])
    assert isinstance(linear, DenseMap)
    for form in ("dense", "csr"):
        some = made(form).rows(rows, 2.0)
        torch.testing.assert_close(some.apply(normal(2, 5)), 2 * A[rows] @ normal(2, 5))
        torch.testing.assert_close(some.adjoint(normal(3, 3)), 2 * A[rows].mT @ normal(3, 3))
    torch.testing.assert_close(linear.block(1, 3).apply(normal(2, 2)), A[:, 1:3] @ normal(2, 2))
    with pytest.raises(TypeError, match="gives no access to its rows; use a dense matrix"):
        made("free").rows(rows)
    for form in ("csr", "free"):
        with pytest.raises(TypeError, match="gives no access to blocks; use a dense matrix"):
            made(form).block(0, 2)


DIFFERENCES = torch.eye(300, dtype=F64) - torch.diag(torch.ones(299, dtype=F64), 1)
MATRICES = {
    "random": normal(14, 60, 80),
    "tall": normal(15, 400, 3),
    "one column": normal(16, 5, 1),
    "one row": normal(17, 1, 5),
    "differences": DIFFERENCES,  # singular values crowd below 2
    "rank one": torch.outer(normal(18, 6), normal(19, 8)),
    "zero": torch.zeros(3, 4, dtype=F64),
    "orthogonal to a ramp": torch.outer(
        torch.ones(4, dtype=F64), torch.tensor([2.0, -1.0], dtype=F64)
    )
    + 1e-3 * normal(20, 4, 2),
    "tiny": 1e-12 * normal(21, 20, 20),
    "huge": 1e12 * normal(22, 20, 20),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("form", ["dense", "csr", "free"])
def test_the_norm_is_an_upper_bound_and_tight(name: str, form: str) -> None:
    matrix = MATRICES[name]
    wanted = float(torch.linalg.matrix_norm(matrix, 2))
    found = as_linear_map("A", forms(matrix)[form]).norm()
    assert wanted * (1 - 1e-12) <= found <= 1.0101 * wanted


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "lil"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scipy_formats(kind: str, dtype: type) -> None:
    matrix = scipy.sparse.coo_matrix(A.numpy().astype(dtype)).asformat(kind)
    linear = as_linear_map("A", matrix)
    assert isinstance(linear, SparseMap)
    assert linear.dtype == (torch.float32 if dtype is np.float32 else F64)
    x = normal(2, 5).to(linear.dtype)
    torch.testing.assert_close(linear.apply(x), A.to(linear.dtype) @ x)
    result = fwnet.FrankWolfe(fwnet.L1Ball(), max_steps=3)(
        fwnet.LeastSquares(matrix, torch.ones(7, dtype=linear.dtype))
    )
    assert result.x.dtype == linear.dtype


def test_scipy_sparse_arrays_and_duplicates() -> None:
    rows, cols, values = [0, 0, 1, 0], [1, 1, 0, 2], [1.0, 2.0, 3.0, 4.0]
    dense = torch.tensor([[0.0, 3.0, 4.0], [3.0, 0.0, 0.0]], dtype=F64)
    coo = scipy.sparse.coo_array((values, (rows, cols)), shape=(2, 3))
    unsorted = scipy.sparse.csr_array(
        (np.array([4.0, 1.0, 2.0, 3.0]), np.array([2, 1, 1, 0]), np.array([0, 3, 4])), shape=(2, 3)
    )
    torch_coo = torch.sparse_coo_tensor(
        torch.tensor([rows, cols]), torch.tensor(values).double(), (2, 3)
    )
    for matrix in (coo, unsorted, torch_coo):
        linear = as_linear_map("A", matrix)
        for i in range(3):
            unit = torch.zeros(3, dtype=F64)
            unit[i] = 1.0
            torch.testing.assert_close(linear.apply(unit), dense[:, i])
            torch.testing.assert_close(linear.columns(torch.tensor(i)), dense[:, i])
        torch.testing.assert_close(linear.adjoint(torch.ones(2).double()), dense.sum(0))


def test_empty_columns_and_rows_of_a_sparse_matrix() -> None:
    matrix = torch.zeros(4, 3, dtype=F64)
    matrix[1, 1] = 2.0
    linear = as_linear_map("A", csr(matrix))
    for i in range(3):
        torch.testing.assert_close(linear.columns(torch.tensor(i)), matrix[:, i])


def test_errors() -> None:
    for wrong in (3, (3,), "x", None):
        with pytest.raises(TypeError, match=r"MatrixFree\(shape\) must be \(rows, columns\); got"):
            fwnet.MatrixFree(torch.neg, torch.neg, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"MatrixFree\(shape\) must be a whole number of at least"):
        fwnet.MatrixFree(torch.neg, torch.neg, (3, -1))
    bad = A.clone()
    bad[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"A must be finite; entry .* is nan"):
        as_linear_map("A", csr(bad))
    with pytest.raises(TypeError, match=r"A must be float32 or float64; got torch\.int64"):
        as_linear_map("A", scipy.sparse.coo_matrix(np.eye(3, dtype=np.int64)))
    with pytest.raises(ValueError, match=r"A must be \(m, n\) or \(batch, m, n\); got \(5,\)"):
        as_linear_map("A", normal(1, 5))
    with pytest.raises(TypeError, match=r"A must be a torch\.Tensor; got list"):
        as_linear_map("A", [[1.0]])


def test_a_linear_map_passes_through() -> None:
    linear = made("free")
    assert as_linear_map("A", linear) is linear


def test_linear_time_in_the_columns() -> None:
    """A one-hot vertex costs one column: nothing of the size of A is made."""
    calls: list[Tensor] = []

    class Spy(LinearMap):
        shape, dtype, device = torch.Size((7, 5)), F64, torch.device("cpu")

        def apply(self, x: Tensor) -> Tensor:
            calls.append(x)
            return A @ x if x.ndim == 1 else x @ A.T

        def adjoint(self, z: Tensor) -> Tensor:
            return A.T @ z if z.ndim == 1 else z @ A

        def columns(self, index: Tensor) -> Tensor:
            return A[:, index]

    problem = fwnet.LeastSquares(Spy(), normal(3, 7))
    solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), max_steps=50, tol=0.0)
    solver(problem, torch.rand(5, generator=seeded(1)).double().softmax(0))
    assert len(calls) <= 3  # the start and the certificate at the end
