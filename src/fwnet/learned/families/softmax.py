"""SoftmaxFamily: softmax regression on parts of data sets, over the trace-norm ball."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from fwnet.domains import TraceNormBall
from fwnet.learned.baselines.projected import FISTA
from fwnet.learned.families.base import ProblemFamily, checked_dataset
from fwnet.learned.ranges import check_limits, sample_size
from fwnet.numerics import checks
from fwnet.problems import Problem, SoftmaxRegression


@final
class SoftmaxFamily(ProblemFamily):
    """Softmax regression on random rows of a data set.

        f(W) = mean cross entropy of XW   over   {W : ‖W‖_* <= radius}

    Arguments:
        datasets: `(X, y)` each, X `(n, d)`, y `(n,)` class numbers; the same d and classes in all.
        radius: of the ball.
        n: rows of a problem, log-uniform between two limits, or one number.

    Example:
        >>> from fwnet.learned import families
        >>> family = families.SoftmaxFamily([families.digits("train")], radius=30.0, n=64)
        >>> family.sample(2, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 64, 4])
    """

    def __init__(
        self,
        datasets: Sequence[tuple[Tensor, Tensor]],
        radius: float = 30.0,
        n: tuple[int, int] | int = (128, 512),
    ) -> None:
        if not datasets:
            raise ValueError("SoftmaxFamily needs at least one data set; got none.")
        check_limits("SoftmaxFamily(n=...)", n, 2)
        self.datasets = tuple(
            checked_dataset(f"SoftmaxFamily(datasets)[{place}]", dataset)
            for place, dataset in enumerate(datasets)
        )
        self.n, self.classes = n, 1 + max(int(y.max()) for _, y in self.datasets)
        self.domain = TraceNormBall(radius)

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        checks.at_least("batch", batch, 1)
        n = sample_size(self.n, generator, min(len(y) for _, y in self.datasets))
        parts = []
        for _ in range(batch):
            X, y = self.datasets[int(torch.randint(len(self.datasets), (), generator=generator))]
            rows = torch.randperm(len(y), generator=generator)[:n]
            parts.append((X[rows], y[rows]))
        X = torch.stack([X for X, _ in parts])
        return SoftmaxRegression(X, torch.stack([y for _, y in parts]), self.classes)

    def best_values(self, problem: Problem) -> Tensor:  # (batch,)
        """min f, exact to rounding: projections are cheap for matrices with few columns."""
        return FISTA().run(problem, self.domain, 300).values.amin(0).to(problem.dtype)
