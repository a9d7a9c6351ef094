"""Matrix completion over factored matrices: the core's problem, seen through thin products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from fwnet.estimators.low_rank.problems import FactoredProblem, Look
from fwnet.iterates import Iterate
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.problems import MatrixCompletion

_ENTRIES = 1 << 20  # of gathered factor rows at a time


@final
class CompletionProblem(FactoredProblem):
    """f(W) = ½ Σ over seen (i, j) of (W_ij − M_ij)²: here X is the identity, and scores are L.

    Arguments:
        core: the entries that were seen.
        scale: of f, where the entries stand for more.

    Example:
        >>> from fwnet.low_rank import CompletionProblem, solve
        >>> i, j = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
        >>> seen = MatrixCompletion(i, j, torch.tensor([1.0, 2.0, 2.0]), (2, 2))
        >>> solve(CompletionProblem(seen), radius=3.0).status
        'converged'
    """

    batch_size = None  # a pass over sparse entries is cheap as it is

    def __init__(self, core: MatrixCompletion, scale: float = 1.0) -> None:
        self.core, self.scale = core, scale
        self.shape, self.n, self.dtype = core.shape_pair, len(core.values), core.values.dtype

    def scores(self, L: Tensor) -> Tensor:
        return L

    def look(self, scores: Tensor, V: Tensor, probe: Tensor) -> Look:
        value, gradient, _ = self.core.first_order(Iterate(V, self._entries(scores, V)))
        assert isinstance(gradient, ImplicitMatrix)
        product = self.scale * gradient.matmul(probe)
        return Look(
            self.scale * float(value),
            gradient,
            lambda image: self.scale * gradient.rmatmul(image),
            product,
        )

    def value(self, scores: Tensor, V: Tensor) -> float:
        return self.scale * float(self.core.value(Iterate(V, self._entries(scores, V))))

    def sample(self, count: int, generator: torch.Generator) -> CompletionProblem:
        count = min(self.n, 64 * count)  # entries are cheaper than rows
        index = torch.randperm(self.n, generator=generator)[:count]
        return self._some(index, torch.float64, self.n / count)

    def split(
        self, count: int, share: float, generator: torch.Generator
    ) -> tuple[CompletionProblem, CompletionProblem]:
        """Two problems over all entries; the second has a share of them."""
        order = torch.randperm(self.n, generator=generator)
        held = max(1, round(share * self.n))
        return self._some(order[held:], self.dtype), self._some(order[:held], self.dtype)

    def _some(self, index: Tensor, dtype: torch.dtype, scale: float = 1.0) -> CompletionProblem:
        core = self.core
        values = core.values[index].to(dtype)
        part = MatrixCompletion(core.rows[index], core.cols[index], values, core.shape_pair)
        return CompletionProblem(part, scale)

    def _entries(self, L: Tensor, V: Tensor) -> Tensor:
        """W at the seen positions, some at a time."""
        return torch.cat(list(entries(L, V, self.core.rows, self.core.cols)))


def entries(L: Tensor, V: Tensor, rows: Tensor, cols: Tensor) -> Iterator[Tensor]:
    """(L Vᵀ)[rows, cols], in parts."""
    height = max(1, _ENTRIES // L.shape[1])
    for lo in range(0, len(rows), height):
        i, j = rows[lo : lo + height], cols[lo : lo + height]
        yield torch.linalg.vecdot(L[i], V[j])
