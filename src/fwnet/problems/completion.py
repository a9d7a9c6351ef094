"""MatrixCompletion."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move, image_of
from fwnet.numerics import checks
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.problems.base import FirstOrder, Gradient, Problem
from fwnet.vertices import Rank1, Vertex


@final
class MatrixCompletion(Problem):
    """Least squares on the observed entries of a matrix.

        f(X) = ½ Σ over observed (i, j) of (X_ij − M_ij)²

    Its image is X at the observed entries; the gradient is a sparse matrix, of which oracles need
    only products with vectors.

    Arguments:
        rows, cols: `(s,)` integer positions; a repeated position counts repeatedly.
        values: `(s,)`.
        shape: `(d, m)` of X.

    Example:
        >>> i, j = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
        >>> problem = MatrixCompletion(i, j, torch.tensor([1.0, 2.0, 2.0]), (2, 2))
        >>> result = FrankWolfe(TraceNormBall(6.0), LineSearch(), tol=1e-3)(problem)
        >>> result.status, result.x.shape
        ('converged', torch.Size([2, 2]))
    """

    quadratic: ClassVar[bool] = True
    shape: torch.Size

    def __init__(self, rows: Tensor, cols: Tensor, values: Tensor, shape: tuple[int, int]) -> None:
        values = checks.real_tensor("MatrixCompletion(values)", values)
        shape = _checked_shape(shape)
        _check_positions("rows", rows, values, shape[0])
        _check_positions("cols", cols, values, shape[1])
        rows, cols = rows.long(), cols.long()  # the product below may overflow a smaller type
        order = torch.argsort(rows * shape[1] + cols)  # by row, then column: the CSR order
        self.rows, self.cols = rows[order], cols[order]
        self.values = values[order]
        self.shape = torch.Size(shape)
        self.dtype, self.device = values.dtype, values.device
        # 32-bit indices if they fit: memory traffic limits a sparse product.
        small = max(values.shape[0], *shape) < 2**31
        self._index = torch.int32 if small else torch.int64
        self._row_starts = _starts(self.rows, shape[0]).to(self._index)
        self._csr_cols = self.cols.to(self._index)
        self._by_column = torch.argsort(self.cols, stable=True)
        self._rows_by_column = self.rows[self._by_column].to(self._index)
        self._column_starts = _starts(self.cols[self._by_column], shape[1]).to(self._index)

    def value(self, it: Iterate) -> Tensor:
        residual = image_of(it) - self.values
        return 0.5 * torch.linalg.vecdot(residual, residual)

    def gradient(self, it: Iterate) -> Gradient:
        return self._sparse(image_of(it) - self.values)

    def first_order(self, it: Iterate) -> FirstOrder:
        z = image_of(it)
        residual = z - self.values
        value = 0.5 * torch.linalg.vecdot(residual, residual)
        return FirstOrder(value, self._sparse(residual), torch.linalg.vecdot(residual, z))

    def _sparse(self, residual: Tensor) -> ImplicitMatrix:
        d, m = self.shape
        with warnings.catch_warnings():  # torch warns once per process that CSR is in beta
            warnings.simplefilter("ignore", UserWarning)
            sparse = torch.sparse_csr_tensor(self._row_starts, self._csr_cols, residual, (d, m))
            transposed = torch.sparse_csr_tensor(
                self._column_starts,
                self._rows_by_column,
                residual.index_select(0, self._by_column),
                (m, d),
            )
        return ImplicitMatrix(
            shape=torch.Size((d, m)),
            matmul=lambda V: sparse @ V,
            rmatmul=lambda U: transposed @ U,
            materialize=lambda: torch.zeros(d, m, dtype=self.dtype, device=self.device).index_put_(
                (self.rows, self.cols), residual, accumulate=True
            ),
            dtype=residual.dtype,
            device=residual.device,
        )

    def image(self, x: Tensor) -> Tensor:
        return x[..., self.rows, self.cols]

    def vertex_image(self, vertex: Vertex) -> Tensor:
        if isinstance(vertex, Rank1):
            return vertex.u.index_select(-1, self.rows) * vertex.v.index_select(-1, self.cols)
        return self.image(vertex.dense())

    def slope(self, it: Iterate, move: Move) -> Tensor:
        return torch.linalg.vecdot(image_of(it) - self.values, move.image)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        return torch.linalg.vecdot(move.image, move.image)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        return images @ images.mT

    def hessian_vertex(self, vertex: Vertex, image: Tensor | None) -> Gradient:
        return self._sparse(self.vertex_image(vertex) if image is None else image)

    def curvatures(self, atoms: Vertex) -> Tensor:
        images = self.vertex_image(atoms)
        return torch.linalg.vecdot(images, images)

    def smoothness(self) -> float:
        positions = self.rows * self.shape[1] + self.cols
        return float(torch.unique(positions, return_counts=True)[1].max())

    @property
    def shape_pair(self) -> tuple[int, int]:
        """(d, m)."""
        d, m = self.shape
        return d, m


def _checked_shape(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, Sequence) or len(shape) != 2:
        raise ValueError(f"MatrixCompletion(shape) must be (d, m); got {shape!r}.")
    d, m = (checks.at_least("MatrixCompletion(shape): d and m", side, 1) for side in shape)
    return d, m


def _check_positions(name: str, positions: Tensor, values: Tensor, limit: int) -> None:
    if not isinstance(positions, Tensor) or not checks.holds_integers(positions):
        kind = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
        raise TypeError(f"MatrixCompletion({name}) must be an integer tensor; got {kind}.")
    if positions.shape != values.shape or values.ndim != 1:
        raise ValueError(
            f"MatrixCompletion: rows, cols and values must be vectors of one length; {name} has "
            f"shape {tuple(positions.shape)}, values {tuple(values.shape)}."
        )
    if positions.device != values.device:
        raise ValueError(
            f"MatrixCompletion({name}) must be on {values.device} like values; "
            f"got {positions.device}."
        )
    low, high = int(positions.min()), int(positions.max())
    if low < 0 or high >= limit:
        raise ValueError(f"MatrixCompletion({name}) must lie in 0..{limit - 1}; got {low}..{high}.")


def _starts(sorted_positions: Tensor, count: int) -> Tensor:
    lengths = torch.bincount(sorted_positions, minlength=count)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
