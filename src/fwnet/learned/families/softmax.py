"""SoftmaxFamily: softmax regression on parts of data sets, over the trace-norm ball."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from fwnet.domains import TraceNormBall
from fwnet.learned.families.base import ProblemFamily
from fwnet.learned.ranges import check_limits, sample_size
from fwnet.numerics import checks
from fwnet.problems import Problem, SoftmaxRegression
from fwnet.problems.base import dense_gradient


@final
class SoftmaxFamily(ProblemFamily):
    """Softmax regression on random rows of a data set.

        f(W) = mean cross entropy of XW   over   {W : ‖W‖_* <= radius}

    Arguments:
        datasets: `(X, y)` each, X `(n, d)`, y `(n,)` class numbers; the same d and classes in all.
        radius: of the ball.
        n: rows of a problem, log-uniform between two limits, or one number.
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
        for place, (X, y) in enumerate(datasets):
            checks.real_tensor(f"SoftmaxFamily(datasets)[{place}] X", X)
            if X.ndim != 2 or y.shape != X.shape[:1] or len(y.unique()) < 2:
                raise ValueError(
                    f"SoftmaxFamily(datasets)[{place}] must be (X, y) of shapes (n, d) and (n,) "
                    "with at least two classes."
                )
        self.datasets, self.n = tuple(datasets), n
        self.classes = 1 + max(int(y.max()) for _, y in datasets)
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

    @torch.no_grad()
    def best_values(self, problem: Problem) -> Tensor:  # (batch,)
        """min f by 400 accelerated projected gradient steps with restarts: few classes, small SVDs.

        Reference: Beck and Teboulle (2009); O'Donoghue and Candès (2015).
        """
        assert isinstance(problem, SoftmaxRegression)
        # The Hessian of the cross entropy is at most ½ XᵀX / n.
        smoothness = torch.linalg.matrix_norm(problem.X, 2).square() / (2 * problem.X.shape[-2])
        step = 1 / smoothness[..., None, None]
        x = y = self.domain.start(tuple(problem.shape or ()), problem.dtype)
        best, momentum = problem.value(problem.at(x)), torch.ones_like(step)
        for _ in range(400):
            projected = self.domain.project(
                y - step * dense_gradient(problem.gradient(problem.at(y)))
            )
            assert projected is not None
            uphill = ((y - projected) * (projected - x)).sum((-2, -1), keepdim=True) > 0
            longer = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
            ahead = projected + (momentum - 1) / longer * (projected - x)
            x, y = projected, torch.where(uphill, projected, ahead)
            momentum = torch.where(uphill, 1.0, longer)
            best = torch.minimum(best, problem.value(problem.at(x)))
        return best
