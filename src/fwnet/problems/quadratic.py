"""Quadratic and LeastSquares."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move, image_of
from fwnet.numerics import checks
from fwnet.numerics.linear_maps import DenseMap, LinearMap, SparseMap, as_linear_map
from fwnet.problems.base import FirstOrder, LinearLoss, Problem
from fwnet.vertices import OneHot, Vertex


@final
class Quadratic(Problem):
    """Quadratic form.

        f(x) = ½ xᵀK x + cᵀx,   ∇f(x) = Kx + c

    Its image is Kx, so a step toward a one-hot vertex costs one column of K.

    Arguments:
        K: symmetric `(n, n)` or `(batch, n, n)`: a tensor (dense, sparse), a SciPy sparse matrix
            or a `LinearMap`.
        c: `(n,)` or `(batch, n)`, zero by default.

    Example:
        >>> import torch, fwnet
        >>> problem = fwnet.Quadratic(torch.eye(3))
        >>> fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch())(problem).x
        tensor([0.3333, 0.3333, 0.3333])
    """

    quadratic: ClassVar[bool] = True
    shape: torch.Size

    def __init__(self, K: Tensor | LinearMap | Any, c: Tensor | None = None) -> None:
        self.matrix = as_linear_map("Quadratic(K)", K)
        shape = self.matrix.shape
        if shape[-1] != shape[-2]:
            raise ValueError(f"Quadratic(K): K must be square; got shape {tuple(shape)}.")
        if isinstance(self.matrix, SparseMap):
            check_symmetric("Quadratic(K)", self.matrix.matrix, self.matrix.transpose)
        elif isinstance(self.matrix, DenseMap) and not self.matrix.symmetric:
            check_symmetric("Quadratic(K)", self.matrix.matrix)
        batch = tuple(shape[:-2])
        if c is not None:
            c = checks.real_tensor("Quadratic(c)", c)
            batch = batch or tuple(c.shape[:-1])
            fits = c.shape[-1:] == shape[-1:] and c.shape[:-1] in ((), batch)
            if not fits or len(batch) > 1:
                raise ValueError(
                    f"Quadratic(c) must be ({shape[-1]},) or (batch, {shape[-1]}) for K of "
                    f"shape {tuple(shape)}; got {tuple(c.shape)}."
                )
            checks.same_kind("Quadratic(c)", c, "K", self.matrix)
        self.c = c
        self.shape = torch.Size((*batch, shape[-1]))
        self.batch_dims = len(batch)
        self.dtype, self.device = self.matrix.dtype, self.matrix.device

    def value(self, it: Iterate) -> Tensor:
        z = image_of(it)
        value = 0.5 * torch.linalg.vecdot(it.x, z)
        return value if self.c is None else value + torch.linalg.vecdot(it.x, self.c)

    def gradient(self, it: Iterate) -> Tensor:
        z = image_of(it)
        return z if self.c is None else z + self.c

    def first_order(self, it: Iterate) -> FirstOrder:
        z = image_of(it)
        form = torch.linalg.vecdot(it.x, z)
        if self.c is None:
            return FirstOrder(0.5 * form, z, form)
        tilt = torch.linalg.vecdot(it.x, self.c)
        return FirstOrder(0.5 * form + tilt, z + self.c, form + tilt)

    def image(self, x: Tensor) -> Tensor:
        return self.matrix.apply(x)

    def vertex_image(self, vertex: Vertex) -> Tensor:
        return vertex.image(self.matrix)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        return torch.linalg.vecdot(move.direction, move.image)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        return directions @ images.mT

    def hessian_vertex(self, vertex: Vertex, image: Tensor | None) -> Tensor | None:
        return image

    def curvatures(self, atoms: Vertex) -> Tensor | None:
        if isinstance(atoms, OneHot) and isinstance(self.matrix, DenseMap):
            diagonal = self.matrix.matrix.diagonal(dim1=-2, dim2=-1).expand(self.shape)
            return atoms.value**2 * diagonal.gather(-1, atoms.index)
        return torch.linalg.vecdot(atoms.dense(), self.vertex_images(atoms))

    def smoothness(self) -> float:
        return self.matrix.norm()


@final
class LeastSquares(LinearLoss):
    """Least squares, with an optional ridge.

        f(x) = ½ ‖Ax − b‖² + ½ Σ ridge_i x_i²,   ∇f(x) = Aᵀ(Ax − b) + ridge x

    Its image is Ax: the gradient costs one pass over A, a one-hot vertex one column.

    Arguments:
        A: `(m, n)` or `(batch, m, n)`: a tensor (dense, sparse), a SciPy sparse matrix or a
            `LinearMap`.
        b: `(m,)` or `(batch, m)`; a batch of b may share one A.
        ridge: weight of the squared norm, a number or one for each coordinate `(n,)`.

    Example:
        >>> problem = LeastSquares(torch.eye(2), torch.tensor([3.0, 1.0]))
        >>> FrankWolfe(L1Ball(1.0), tol=1e-4)(problem).x
        tensor([1., 0.])
    """

    quadratic: ClassVar[bool] = True

    def __init__(self, A: Tensor | LinearMap | Any, b: Tensor, ridge: float | Tensor = 0.0) -> None:
        matrix = as_linear_map("LeastSquares(A)", A)
        b = checks.real_tensor("LeastSquares(b)", b)
        batch = tuple(matrix.shape[:-2]) or tuple(b.shape[:-1])
        if tuple(b.shape) != (*batch, matrix.shape[-2]) or len(batch) > 1:
            raise ValueError(
                f"LeastSquares(A, b): b must be ({matrix.shape[-2]},) or "
                f"(batch, {matrix.shape[-2]}) for A of shape {tuple(matrix.shape)}; "
                f"got {tuple(b.shape)}."
            )
        checks.same_kind("LeastSquares(b)", b, "A", matrix)
        super().__init__(matrix, batch, _ridge(ridge, matrix))
        self.b = b

    def loss(self, z: Tensor) -> Tensor:
        residual = z - self.b
        return 0.5 * torch.linalg.vecdot(residual, residual)

    def loss_gradient(self, z: Tensor) -> Tensor:
        return z - self.b

    def loss_gram(self, z: Tensor, images: Tensor) -> Tensor:
        return images @ images.mT

    def loss_curvature(self, z: Tensor, dz: Tensor) -> Tensor:
        return torch.linalg.vecdot(dz, dz)

    def hessian_vertex(self, vertex: Vertex, image: Tensor | None) -> Tensor | None:
        assert image is not None
        product = self.matrix.adjoint(image)
        return product if self.ridge is None else product + self.ridge * vertex.dense()

    def curvatures(self, atoms: Vertex) -> Tensor | None:
        if isinstance(atoms, OneHot) and isinstance(self.matrix, DenseMap):
            squares = self.matrix.matrix.square().sum(-2)
            if self.ridge is not None:
                squares = squares + self.ridge
            squares = squares.expand(*atoms.leading[:-1], squares.shape[-1])
            return atoms.value**2 * squares.gather(-1, atoms.index)
        images = self.vertex_images(atoms)
        own = torch.linalg.vecdot(images, images)
        if self.ridge is None:
            return own
        points = atoms.dense()
        return own + torch.linalg.vecdot(self.ridge * points, points)

    def smoothness(self) -> float:
        ridge = 0.0 if self.ridge is None else float(self.ridge.max())
        return self.matrix.norm() ** 2 + ridge

    def minibatch(self, rows: Tensor) -> LeastSquares:
        scale = (self.matrix.shape[-2] / rows.shape[0]) ** 0.5
        part = copy(self)  # without the checks of its parts, which are this problem's
        part.matrix, part.b = self.matrix.rows(rows, scale), scale * self.b[..., rows]
        return part


def _ridge(ridge: float | Tensor, matrix: LinearMap) -> Tensor | None:
    if not isinstance(ridge, Tensor):
        if checks.non_negative("LeastSquares(ridge=...)", ridge) == 0:
            return None
        return torch.full((), ridge, dtype=matrix.dtype, device=matrix.device)
    checks.real_tensor("LeastSquares(ridge=...)", ridge)
    checks.same_kind("LeastSquares(ridge=...)", ridge, "A", matrix)
    if tuple(ridge.shape) not in ((), (matrix.shape[-1],)) or bool((ridge < 0).any()):
        raise ValueError(
            f"LeastSquares(ridge=...) must hold {matrix.shape[-1]} numbers of at least 0; "
            f"got shape {tuple(ridge.shape)}, smallest {ridge.min().item()}."
        )
    return ridge


def check_symmetric(name: str, matrix: Tensor, transpose: Tensor | None = None) -> None:
    """Raise unless K, dense or CSR, is symmetric; for CSR, pass the transpose too."""
    if torch.compiler.is_compiling():  # a check of values would break the graph
        return
    with torch.no_grad():
        if transpose is None:
            change, entries = matrix - matrix.mT, matrix
        else:
            change = (matrix.to_sparse_coo() - transpose.to_sparse_coo()).coalesce().values()
            entries = matrix.values()
        # K − Kᵀ is antisymmetric: its largest entry is its largest size.
        difference = float(change.max()) if change.numel() else 0.0
        low, high = torch.aminmax(entries) if entries.numel() else (entries.new_zeros(1),) * 2
        size = max(float(high), -float(low))
    # A computed Gram matrix is symmetric only up to rounding.
    if difference > (1e-4 if matrix.dtype == torch.float32 else 1e-10) * size:
        raise ValueError(
            f"{name}: K must be symmetric; the largest difference |K - Kᵀ| is {difference:.3g}. "
            "Pass (K + K.mT) / 2, which gives the same f."
        )
