"""A in f(x) = φ(Ax): dense, sparse or matrix-free, by its products and its columns."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.numerics.tensors import taken


class LinearMap(ABC):
    """A linear map Rⁿ -> Rᵐ, or one for each problem of a batch.

    Attributes:
        shape: `(*batch, m, n)`, as of a matrix.

    Example:
        >>> A = MatrixFree(lambda x: 2 * x, lambda z: 2 * z, (3, 3))
        >>> isinstance(A, LinearMap)
        True
        >>> A.apply(torch.ones(3)), A.adjoint(torch.ones(3))
        (tensor([2., 2., 2.]), tensor([2., 2., 2.]))
    """

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    has_blocks: ClassVar[bool] = False  # `block` works

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """A x: `(*batch, n)` -> `(*batch, m)`."""

    @abstractmethod
    def adjoint(self, z: Tensor) -> Tensor:
        """Aᵀ z: `(*batch, m)` -> `(*batch, n)`."""

    def columns(self, index: Tensor) -> Tensor:
        """A e_i for an index `(*batch,)`: `(*batch, m)`."""
        units = torch.zeros(*index.shape, self.shape[-1], dtype=self.dtype, device=self.device)
        return self.apply(units.scatter_(-1, index.unsqueeze(-1), 1.0))

    def rows(self, index: Tensor, scale: float = 1.0) -> LinearMap:
        """scale · the map of the given rows only."""
        raise TypeError(f"{type(self).__name__} gives no access to its rows; use a dense matrix.")

    def block(self, start: int, stop: int) -> LinearMap:
        """The map of the coordinates start, …, stop − 1 of x only."""
        raise TypeError(f"{type(self).__name__} gives no access to blocks; use a dense matrix.")

    def norm(self) -> float:
        """The spectral norm, at most 1 % too large: 30 Lanczos steps on AᵀA, then a margin."""
        n, tiny = self.shape[-1], torch.finfo(self.dtype).tiny
        start = torch.randn(n, dtype=self.dtype, generator=torch.Generator().manual_seed(0))
        v = start.to(self.device).expand(*self.shape[:-2], -1)
        before, size = torch.zeros_like(v), v.norm(dim=-1, keepdim=True)
        v, steps = v / size, min(30, n)
        small = v.new_zeros(*v.shape[:-1], steps + 1, steps + 1)
        size = torch.zeros_like(size)
        for k in range(steps):
            w = self.adjoint(self.apply(v)) - size * before
            along = (w * v).sum(-1, keepdim=True)
            w = w - along * v
            size = w.norm(dim=-1, keepdim=True)
            small[..., k, k] = along[..., 0]
            small[..., k, k + 1] = small[..., k + 1, k] = size[..., 0]
            before, v = v, w / size.clamp_min(tiny)
        largest = torch.linalg.eigvalsh(small[..., :-1, :-1])[..., -1].max()
        return 1.01 * float(largest.clamp_min(0).sqrt())


@final
class DenseMap(LinearMap):
    """A as a tensor `(m, n)`, shared by a batch, or `(batch, m, n)`.

    Arguments:
        symmetric: A is known to be symmetric, so that nobody needs to check it.
    """

    has_blocks: ClassVar[bool] = True

    def __init__(self, matrix: Tensor, *, symmetric: bool = False) -> None:
        self.matrix, self.symmetric = matrix, symmetric
        self.transposed = matrix.mT
        self.shape, self.dtype, self.device = matrix.shape, matrix.dtype, matrix.device

    def apply(self, x: Tensor) -> Tensor:
        if self.matrix.ndim == 3:  # a row vector times Aᵀ: twice as fast on CPU as A times x
            return torch.bmm(x.unsqueeze(1), self.transposed).squeeze(1)
        return torch.mv(self.matrix, x) if x.ndim == 1 else x @ self.transposed

    def adjoint(self, z: Tensor) -> Tensor:
        if self.matrix.ndim == 3:  # a row vector times A: 3-6 times faster on CPU than Aᵀ times z
            return torch.bmm(z.unsqueeze(1), self.matrix).squeeze(1)
        return torch.mv(self.transposed, z) if z.ndim == 1 else z @ self.matrix

    def rows(self, index: Tensor, scale: float = 1.0) -> LinearMap:
        some = self.matrix[..., index, :]
        return DenseMap(some if scale == 1 else scale * some)

    def block(self, start: int, stop: int) -> LinearMap:
        return DenseMap(self.matrix[..., start:stop])

    def norm(self) -> float:
        return float(torch.linalg.matrix_norm(self.matrix, 2).max())

    def columns(self, index: Tensor) -> Tensor:
        if index.ndim and self.matrix.ndim == 2:
            return self.matrix.index_select(1, index).mT
        return taken(self.transposed, index)


@final
class SparseMap(LinearMap):
    """A in sparse CSR form; its transpose is kept too, for Aᵀz and for columns."""

    def __init__(self, matrix: Tensor) -> None:
        with warnings.catch_warnings():  # torch calls its CSR tensors a beta, once per process
            warnings.simplefilter("ignore", UserWarning)
            self.matrix = matrix.to_sparse_csr()
            self.transpose = matrix.to_sparse_coo().t().coalesce().to_sparse_csr()
        self.starts = self.transpose.crow_indices()
        self.shape, self.dtype, self.device = matrix.shape, matrix.dtype, matrix.device

    def apply(self, x: Tensor) -> Tensor:
        return self.matrix @ x if x.ndim == 1 else (self.matrix @ x.mT).mT

    def adjoint(self, z: Tensor) -> Tensor:
        return self.transpose @ z if z.ndim == 1 else (self.transpose @ z.mT).mT

    def rows(self, index: Tensor, scale: float = 1.0) -> LinearMap:
        starts = self.matrix.crow_indices()
        low, count = starts[index], starts[index + 1] - starts[index]
        row = torch.repeat_interleave(torch.arange(len(index), device=self.device), count)
        first = torch.cumsum(count, 0) - count
        place = low[row] + torch.arange(len(row), device=self.device) - first[row]
        column, value = self.matrix.col_indices()[place], scale * self.matrix.values()[place]
        m, n = len(index), self.shape[-1]

        def apply(x: Tensor) -> Tensor:
            return x.new_zeros(m).index_add(0, row, value * x[column])

        def adjoint(z: Tensor) -> Tensor:
            return z.new_zeros(n).index_add(0, column, value * z[row])

        return MatrixFree(apply, adjoint, (m, n), self.dtype, self.device)

    def columns(self, index: Tensor) -> Tensor:
        if index.ndim:
            return torch.stack([self.columns(i) for i in index])
        low, high = self.starts[index], self.starts[index + 1]
        column = torch.zeros(self.shape[0], dtype=self.dtype, device=self.device)
        column[self.transpose.col_indices()[low:high]] = self.transpose.values()[low:high]
        return column


@final
class MatrixFree(LinearMap):
    """A as two functions.

    Arguments:
        matvec: x `(n,)` -> A x `(m,)`.
        rmatvec: z `(m,)` -> Aᵀ z `(n,)`.
        shape: `(m, n)`.
        dtype, device: of the vectors.

    Example:
        >>> double = MatrixFree(lambda x: 2 * x, lambda z: 2 * z, (3, 3))
        >>> problem = LeastSquares(double, torch.tensor([1.0, 1.0, 0.0]))
        >>> PairwiseFrankWolfe(Simplex(), tol=1e-4)(problem).x
        tensor([0.5000, 0.5000, 0.0000])
    """

    def __init__(
        self,
        matvec: Callable[[Tensor], Tensor],
        rmatvec: Callable[[Tensor], Tensor],
        shape: tuple[int, int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        checks.a_function("MatrixFree(matvec)", matvec)
        checks.a_function("MatrixFree(rmatvec)", rmatvec)
        self.apply_one, self.adjoint_one = matvec, rmatvec
        if not isinstance(shape, Sequence) or len(shape) != 2:
            raise TypeError(f"MatrixFree(shape) must be (rows, columns); got {shape!r}.")
        for size in shape:
            checks.at_least("MatrixFree(shape)", size, 1)
        self.shape, self.dtype, self.device = torch.Size(shape), dtype, torch.device(device)

    def apply(self, x: Tensor) -> Tensor:
        rows = [self.apply_one(v) for v in (x.unbind() if x.ndim > 1 else (x,))]
        return self._stacked("matvec", rows, self.shape[0], x)

    def adjoint(self, z: Tensor) -> Tensor:
        rows = [self.adjoint_one(v) for v in (z.unbind() if z.ndim > 1 else (z,))]
        return self._stacked("rmatvec", rows, self.shape[1], z)

    def _stacked(self, name: str, rows: list[Tensor], size: int, like: Tensor) -> Tensor:
        for row in rows:
            if not isinstance(row, Tensor) or row.shape != (size,) or row.dtype != like.dtype:
                got = f"{tuple(row.shape)}, {row.dtype}" if isinstance(row, Tensor) else type(row)
                raise ValueError(
                    f"MatrixFree({name}) must return a tensor ({size},), {like.dtype}; got {got}."
                )
        return rows[0] if like.ndim == 1 else torch.stack(rows)


def as_linear_map(name: str, matrix: Any) -> LinearMap:
    """A tensor (dense or sparse), a SciPy sparse matrix or a `LinearMap`, as a `LinearMap`."""
    if isinstance(matrix, LinearMap):
        return matrix
    if hasattr(matrix, "tocsr"):  # SciPy, without importing it
        csr = matrix.tocsr()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            starts, places, values = map(torch.as_tensor, (csr.indptr, csr.indices, csr.data))
            matrix = torch.sparse_csr_tensor(starts, places, values, size=csr.shape)
    if isinstance(matrix, Tensor) and matrix.layout in (torch.sparse_bsr, torch.sparse_bsc):
        raise TypeError(f"{name} must be dense, COO, CSR or CSC; got {matrix.layout}.")
    if isinstance(matrix, Tensor) and matrix.layout is not torch.strided:
        if matrix.ndim != 2:
            raise ValueError(f"{name}: a sparse matrix is (m, n); got {tuple(matrix.shape)}.")
        if matrix.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} must be float32 or float64; got {matrix.dtype}.")
        sparse = SparseMap(matrix)
        checks.finite(name, sparse.matrix)
        return sparse
    matrix = checks.real_tensor(name, matrix)
    if matrix.ndim not in (2, 3):
        raise ValueError(f"{name} must be (m, n) or (batch, m, n); got {tuple(matrix.shape)}.")
    return DenseMap(matrix)
