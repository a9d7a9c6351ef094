"""SVMFamily: duals of SVMs on parts of data sets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import final

import torch
from torch import Tensor

from fwnet.data import splits
from fwnet.domains import Simplex
from fwnet.learned.families.base import ProblemFamily, checked_dataset
from fwnet.learned.ranges import LogUniform, check_limits, sample_size
from fwnet.numerics import checks
from fwnet.problems import Problem, Quadratic
from fwnet.problems.svm import dual_matrix

Kernel = Callable[[Tensor, torch.Generator], Tensor]  # X (n, d) -> k(X, X) (n, n)
_C, _WIDTHS = LogUniform(0.3, 100.0), LogUniform(0.3, 3.0)


@final
@dataclass(frozen=True)
class LinearKernel:
    """k(x, z) = ⟨x, z⟩ / mean ‖x‖²: C means the same at any scale of the data.

    Example:
        >>> from fwnet.learned import families
        >>> X, y = families.digits("train")
        >>> family = families.SVMFamily([(X, y)], kernels=[families.LinearKernel()], n=32)
        >>> family.sample(2, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 32])
    """

    def __call__(self, X: Tensor, generator: torch.Generator) -> Tensor:  # (n, n)
        gram = X @ X.mT
        return gram / gram.diagonal().mean().clamp_min(torch.finfo(X.dtype).tiny)


@final
@dataclass(frozen=True)
class RBFKernel:
    """k(x, z) = exp(−‖x − z‖² / (w² · mean ‖x − z‖²)), w log-uniform.

    Example:
        >>> from fwnet.learned import families
        >>> X, y = families.digits("train")
        >>> family = families.SVMFamily([(X, y)], kernels=[families.RBFKernel()], n=32)
        >>> family.sample(2, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 32])
    """

    width: LogUniform = _WIDTHS

    def __call__(self, X: Tensor, generator: torch.Generator) -> Tensor:  # (n, n)
        width = float(self.width.sample(1, generator))
        squares = X.square().sum(-1)
        apart = (squares.unsqueeze(-1) + squares - 2 * X @ X.mT).clamp_min(0)
        apart = (apart + apart.mT) / 2
        gram = (-apart / (width**2 * apart.mean().clamp_min(torch.finfo(X.dtype).tiny))).exp()
        gram.diagonal().fill_(1.0)
        return gram


@final
@dataclass(frozen=True, eq=False)
class _Source:
    """One data set and the pairs of classes that problems are drawn from."""

    X: Tensor  # (n, d)
    y: Tensor  # (n,) class numbers
    pairs: tuple[tuple[int, int], ...]

    def rows(self, pair: tuple[int, int]) -> tuple[Tensor, Tensor]:
        return tuple((self.y == label).nonzero().squeeze(-1) for label in pair)  # type: ignore[return-value]


@final
@dataclass(frozen=True, eq=False)
class Draw:
    """Two classes of a data set, of which `half` rows each make a problem."""

    X: Tensor  # (n, d)
    positive: Tensor  # rows of one class
    negative: Tensor  # rows of the other
    half: int

    def points(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random rows `(2 half, d)` in float64, and their labels 1 and −1, in this order."""
        rows = [
            side[torch.randperm(len(side), generator=generator)[: self.half]]
            for side in (self.positive, self.negative)
        ]
        X = self.X[torch.cat(rows)].double()
        y = torch.ones(2 * self.half, dtype=X.dtype)
        y[self.half :] = -1.0
        return X, y


@final
class SVMFamily(ProblemFamily):
    """Duals of two-class SVMs: random pair of classes, part of the rows, kernel and C.

        f(α) = ½ αᵀ(yyᵀ ∘ (k(X, X) + 1) + I/C) α   over the unit simplex

    Arguments:
        datasets: `(X, y)` each, X `(n, d)` and y `(n,)` with at least two classes.
        C: distribution of C, or one number.
        n: rows of a problem, log-uniform between two limits, or one number; half of each class,
            fewer where a pair has not enough.
        kernels: drawn from with equal chance, `X, generator -> k(X, X)`.
        dtype: of the problems.

    Example:
        >>> from fwnet import learned
        >>> X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
        >>> family = learned.families.SVMFamily([(X, X[:, 0] > 0)], C=1.0, n=(16, 32))
        >>> family.sample(4, torch.Generator().manual_seed(0)).batch_dims
        1
    """

    def __init__(
        self,
        datasets: Sequence[tuple[Tensor, Tensor]],
        C: LogUniform | float = _C,
        n: tuple[int, int] | int = (64, 512),
        *,
        kernels: Sequence[Kernel] = (LinearKernel(), RBFKernel()),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_limits("SVMFamily(n=...)", n, 4)
        if not datasets or not kernels:
            raise ValueError("SVMFamily needs at least one data set and one kernel; got none.")
        for kernel in kernels:
            checks.a_function("SVMFamily(kernels=...): a kernel", kernel)
        self.C = C if isinstance(C, LogUniform) else LogUniform(C, C)
        self.n, self.kernels, self.dtype = n, tuple(kernels), dtype
        self.domain = Simplex()
        self._sources = tuple(_source(k, dataset) for k, dataset in enumerate(datasets))

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        checks.at_least("batch", batch, 1)
        matrices = [self._matrix(draw, generator) for draw in self.draw(batch, generator)]
        return Quadratic(torch.stack(matrices).to(self.dtype))

    def draw(self, batch: int, generator: torch.Generator) -> list[Draw]:
        """Pairs of classes for a batch of problems of one size; rows are still to be drawn."""
        drawn = [self._pair(generator) for _ in range(batch)]
        most = min(2 * min(len(positive), len(negative)) for _, positive, negative in drawn)
        half = sample_size(self.n, generator, most) // 2
        return [Draw(source.X, positive, negative, half) for source, positive, negative in drawn]

    def split(self, seed: int = 0) -> tuple[SVMFamily, SVMFamily, SVMFamily]:
        """Families for training, validation and test: 60, 20 and 20 % of what can be drawn.

        Of a data set with two classes, no row is in two parts. Of one with three or more, no pair
        of classes is, as in the paper; the pairs 0-1 and 0-2 still share the rows of class 0. For
        parts that share no point either, give each a family of classes or rows of its own. Use
        the test family once, at the end.
        """
        train, validation, test = (copy.copy(self) for _ in range(3))
        parts = zip(*(_split(source, seed) for source in self._sources), strict=True)
        for family, sources in zip((train, validation, test), parts, strict=True):
            family._sources = sources
        return train, validation, test

    def _pair(self, generator: torch.Generator) -> tuple[_Source, Tensor, Tensor]:
        source = self._sources[_pick(len(self._sources), generator)]
        positive, negative = source.rows(source.pairs[_pick(len(source.pairs), generator)])
        return source, positive, negative

    def _matrix(self, draw: Draw, generator: torch.Generator) -> Tensor:  # (2 half, 2 half)
        X, y = draw.points(generator)
        kernel = self.kernels[_pick(len(self.kernels), generator)]
        C = float(self.C.sample(1, generator))
        return dual_matrix(kernel(X, generator), y, 1 / C, bias=True)


def _source(place: int, dataset: tuple[Tensor, Tensor]) -> _Source:
    name = f"SVMFamily(datasets)[{place}]"
    X, y = checked_dataset(name, dataset)
    classes, numbers = y.unique(return_inverse=True)
    counts = numbers.bincount()
    pairs = tuple(
        pair for pair in combinations(range(len(classes)), 2) if min(counts[list(pair)]) >= 2
    )
    if not pairs:
        raise ValueError(f"{name} needs two classes with two rows each; counts {counts.tolist()}.")
    return _Source(X, numbers, pairs)


def _split(source: _Source, seed: int) -> list[_Source]:
    """The pairs in three parts, none of them empty; the rows if there is only one pair."""
    count = len(source.pairs)
    if count < 3:
        rows = splits(source.y, (0.6, 0.2, 0.2), seed)
        parts = (rows.optimizee, rows.optimizer, rows.test)
        return [replace(source, X=source.X[part], y=source.y[part]) for part in parts]
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(count, generator=generator).tolist()
    a, b = min(round(0.6 * count), count - 2), min(round(0.8 * count), count - 1)
    return [
        replace(source, pairs=tuple(source.pairs[k] for k in sorted(part)))
        for part in (order[:a], order[a:b], order[b:])
    ]


def _pick(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
