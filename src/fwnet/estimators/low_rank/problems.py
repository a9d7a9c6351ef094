"""Problems over factored matrices: f(W) = φ(XW) at W = L Vᵀ, seen through thin products.

A point of the trace-norm ball is certified by the Frank-Wolfe gap of the true gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, final

import torch
from torch import Tensor

from fwnet.estimators.low_rank.block_gradient import block_gradient
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.losses import Loss
from fwnet.estimators.low_rank.rows import ArrayRows, Block, Rows
from fwnet.numerics.bounds import bounded_singular_pair
from fwnet.numerics.tensors import ImplicitMatrix

_ENTRIES = 1 << 19  # of a block of rows: 2 MB of float32, which stay in the cache
_CACHED = 1 << 30  # bytes of errors that are kept; larger ones are recomputed


class Look(NamedTuple):
    """What one pass over the data computes of f at a point.

    Valid until the next look, which overwrites the errors that the gradient is made of.
    """

    value: float  # f(W)
    gradient: ImplicitMatrix  # G = ∇f(W), (d, m)
    pull: Callable[[Tensor], Tensor]  # scores X Q (n, k) -> GᵀQ (m, k), without a pass over X
    product: Tensor  # G · probe, (d, k)


# L (d, k), R (m, k) -> estimates of the gradients G R and Gᵀ L of the factors at W = L Rᵀ
Minibatch = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class FactoredProblem(ABC):
    """A smooth f of a matrix W that is given by factors.

    Attributes:
        shape: `(d, m)` of W.
        dtype: of everything.
        n: how many terms f sums.
        batch_size: of minibatches; None where they are not worth it.

    Example:
        >>> from fwnet.low_rank import ArrayRows, FactoredProblem, RowProblem, SquaredLoss
        >>> loss = SquaredLoss(torch.ones(3, 2), torch.ones(3))
        >>> problem: FactoredProblem = RowProblem(ArrayRows(torch.eye(3)), loss)
        >>> problem.shape
        (3, 2)
    """

    shape: tuple[int, int]
    dtype: torch.dtype
    n: int
    batch_size: int | None = 512

    @abstractmethod
    def scores(self, L: Tensor) -> Tensor:  # (d, k) -> (n, k)
        """X L, the thin image of the left factor."""

    @abstractmethod
    def look(self, scores: Tensor, V: Tensor, probe: Tensor) -> Look:
        """f, its gradient G and G · probe at the W whose logits are scores · Vᵀ."""

    @abstractmethod
    def value(self, scores: Tensor, V: Tensor) -> float:
        """f at the W whose logits are scores · Vᵀ."""

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """One pass over the terms in random batches."""
        raise TypeError(f"{type(self).__name__} has no minibatches.")

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> FactoredProblem:
        """f over some of its terms, or all if they are few, in float64.

        Curvatures are taken from differences that would be rounding errors in float32.
        """

    @abstractmethod
    def split(
        self, count: int, share: float, generator: torch.Generator
    ) -> tuple[FactoredProblem, FactoredProblem]:
        """Two disjoint problems in memory, at most `count` rows; the second has this share."""


@final
class RowProblem(FactoredProblem):
    """f(W) = Σ wᵢ ℓ(xᵢW) over rows that come in blocks.

    One pass fuses logits, losses, errors E and the product Xᵀ(E · probe) block by block, so that
    a block of logits never leaves the cache before it is used.

    Arguments:
        rows: X.
        loss: ℓ, its targets and its weights.

    Example:
        >>> from fwnet.low_rank import ArrayRows, RowProblem, SquaredLoss
        >>> loss = SquaredLoss(torch.ones(3, 2), torch.ones(3))
        >>> problem = RowProblem(ArrayRows(torch.eye(3)), loss)
        >>> problem.shape, problem.n
        ((3, 2), 3)
    """

    def __init__(self, rows: Rows, loss: Loss) -> None:
        if len(loss.weight) != rows.n:
            raise ValueError(f"X has {rows.n} rows, and the loss has {len(loss.weight)}.")
        self.rows, self.loss = rows, loss
        self.shape, self.n, self.dtype = (rows.d, loss.m), rows.n, rows.dtype
        size = rows.n * loss.m * (8 if rows.dtype == torch.float64 else 4)
        self.errors = torch.empty(rows.n, loss.m, dtype=rows.dtype) if size <= _CACHED else None
        self.height = max(64, min(4096, _ENTRIES // max(self.shape)))

    def scores(self, L: Tensor) -> Tensor:
        return self.rows.times(L)

    def look(self, scores: Tensor, V: Tensor, probe: Tensor) -> Look:
        total = torch.zeros(probe.shape[1], self.shape[0], dtype=self.dtype)
        value = 0.0
        for lo, block in self.rows.blocks(self.height):
            rows = slice(lo, lo + len(block))
            Z = self._logits(scores, V, rows)
            value += self.loss.errors_(Z, rows)
            block.add_adjoint(Z @ probe, total)
        gradient = block_gradient(total, self.shape, partial(self._blocks, scores, V))
        return Look(value, gradient, self._puller(scores, V), total.mT)

    def value(self, scores: Tensor, V: Tensor) -> float:
        value = 0.0
        for lo in range(0, self.n, self.height):
            rows = slice(lo, min(self.n, lo + self.height))
            value += self.loss.errors_(scores[rows] @ V.mT, rows)
        return value

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        for index, block in self.rows.batches(size, generator):
            yield partial(self._batch, index, block)

    def sample(self, count: int, generator: torch.Generator) -> RowProblem:
        return self._some(torch.randperm(self.n, generator=generator)[:count], torch.float64)

    def split(
        self, count: int, share: float, generator: torch.Generator
    ) -> tuple[RowProblem, RowProblem]:
        # Rows of weight 0 do not count.
        rows = self.loss.weight.nonzero().squeeze(-1)
        rows = rows[torch.randperm(len(rows), generator=generator)[:count]]
        held = max(1, round(share * len(rows)))
        return self._some(rows[held:], self.dtype), self._some(rows[:held], self.dtype)

    def _some(self, index: Tensor, dtype: torch.dtype) -> RowProblem:
        index = index.sort().values
        block = self.rows.some(index)
        data = block.data if dtype == self.dtype else block.double()
        return RowProblem(ArrayRows(data, block.constant), self.loss.some(index, dtype))

    def _batch(self, index: Tensor, block: Block, L: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
        scores = block.times(L)
        Z = scores @ R.mT
        share = float(self.loss.weight[index].sum())
        self.loss.errors_(Z, index, 1.0 / max(share, 1e-30))
        left = torch.zeros(L.shape[1], L.shape[0], dtype=self.dtype)
        block.add_adjoint(Z @ R, left)
        return left.mT, Z.mT @ scores

    def _logits(self, scores: Tensor, V: Tensor, rows: slice) -> Tensor:
        if self.errors is None:
            return scores[rows] @ V.mT
        return torch.mm(scores[rows], V.mT, out=self.errors[rows])

    def _blocks(self, scores: Tensor, V: Tensor) -> Iterator[tuple[Block, Tensor]]:
        """Blocks of rows with their errors, kept or computed again."""
        for lo, block in self.rows.blocks(self.height):
            yield block, self._errors(scores, V, slice(lo, lo + len(block)))

    def _errors(self, scores: Tensor, V: Tensor, rows: slice) -> Tensor:
        if self.errors is not None:
            return self.errors[rows]
        Z = self._logits(scores, V, rows)
        self.loss.errors_(Z, rows)
        return Z

    def _puller(self, scores: Tensor, V: Tensor) -> Callable[[Tensor], Tensor]:
        def pull(image: Tensor) -> Tensor:  # (n, k) -> (m, k)
            if self.errors is not None:
                return self.errors.mT @ image
            total = torch.zeros(self.shape[1], image.shape[1], dtype=self.dtype)
            for lo in range(0, self.n, self.height):
                rows = slice(lo, min(self.n, lo + self.height))
                total.addmm_(self._errors(scores, V, rows).mT, image[rows])
            return total

        return pull


class Certificate(NamedTuple):
    """f(W), its duality gap, and the right singular vector v `(m,)` of the oracle's vertex.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Factors, RowProblem, SquaredLoss, certify, solve
        >>> loss = SquaredLoss(torch.ones(3, 2), torch.ones(3))
        >>> problem = RowProblem(ArrayRows(torch.eye(3)), loss)
        >>> W = Factors.of_result(solve(problem, radius=1.0))
        >>> certificate = certify(problem, W, radius=1.0)
        >>> bool(certificate.gap <= 1e-3 * certificate.value)
        True
    """

    value: float
    gap: float
    v: Tensor


def certify(
    problem: FactoredProblem, W: Factors, radius: float, accuracy: float = 1e-6
) -> Certificate:
    """f and its gap at W: f(W) − min f is at most the gap, up to rounding.

        gap = ⟨G, W⟩ + radius · upper,   upper >= σ₁(G),   G = ∇f(W)

    The upper bound, and how sure it is, are those of `fwnet.numerics.bounds`.

    Arguments:
        accuracy: relative error of σ₁ that is small enough; an error of 1 % of the gap is, too.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Factors, RowProblem, SquaredLoss, certify, solve
        >>> loss = SquaredLoss(torch.ones(3, 2), torch.ones(3))
        >>> problem = RowProblem(ArrayRows(torch.eye(3)), loss)
        >>> W = Factors.of_result(solve(problem, radius=1.0))
        >>> certify(problem, W, radius=1.0).gap < 1e-3
        True
    """
    left = W.left
    look = problem.look(problem.scores(left), W.V, W.V)
    along = (look.product.double() * left.double()).sum()
    pair, upper = bounded_singular_pair(look.gradient, W.V[:, 0], accuracy, along / radius)
    return Certificate(look.value, float(along + radius * upper), pair.v)
