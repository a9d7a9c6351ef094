"""ProblemFamily: a distribution of problems on one domain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet import checks
from fwnet.domains import Domain, L1Ball, Simplex
from fwnet.linear_maps import DenseMap
from fwnet.problems import LeastSquares, Problem, Quadratic
from fwnet.quadratic_programs import simplex_qp
from fwnet.solvers import PairwiseFrankWolfe


@final
@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform.

        log x ~ U(log low, log high)

    Example:
        >>> from fwnet import learned
        >>> learned.LogUniform(1.0, 100.0).sample(2, torch.Generator().manual_seed(0))
        tensor([87.1176, 26.0399], dtype=torch.float64)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.positive("LogUniform(low)", self.low)
        checks.positive("LogUniform(high)", self.high)
        if self.high < self.low:
            raise ValueError(f"LogUniform(low, high) needs low <= high; got {self}.")

    def sample(self, count: int, generator: torch.Generator) -> Tensor:  # (count,)
        """Independent draws, in float64."""
        unit = torch.rand(count, generator=generator, dtype=torch.float64)
        return self.low * (unit * math.log(self.high / self.low)).exp()


class ProblemFamily(ABC):
    """A distribution of problems, for meta-training and evaluation; all on one domain.

    A user's own family says where its problems live and draws them:

        >>> from fwnet import learned
        >>> class Noisy(learned.ProblemFamily):
        ...     domain = Simplex()
        ...     def sample(self, batch, generator):
        ...         return LeastSquares(torch.eye(5), torch.randn(batch, 5, generator=generator))
        >>> Noisy().sample(3, torch.Generator()).shape
        torch.Size([3, 5])
    """

    domain: Domain

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        """`batch` problems of one shape as one batched problem (`batch_dims` 1, also for one)."""

    def best_values(self, problem: Problem) -> Tensor:  # (batch,)
        """min f of each problem of a batch: exact for quadratics on simplex and l1 ball.

        Elsewhere a lower bound, f(x) − gap after a long pairwise solve.
        """
        exact = _exact_values(problem, self.domain)
        if exact is not None:
            return exact
        solver = PairwiseFrankWolfe(self.domain, max_steps=5000, tol=1e-9)
        result = solver(problem)
        return result.value - result.gap.clamp_min(0)


def sample_size(
    limits: tuple[int, int] | int, generator: torch.Generator, most: float = math.inf
) -> int:
    """A whole number, log-uniform between the limits; never above `most`."""
    low, high = (limits, limits) if isinstance(limits, int) else limits
    high = int(min(high, most))
    low = min(low, high)
    drawn = LogUniform(low, high + 1).sample(1, generator)
    return min(int(drawn), high)


def check_limits(name: str, limits: tuple[int, int] | int, least: int) -> None:
    """Raise unless `limits` is a whole number, or two in order."""
    low, high = (limits, limits) if isinstance(limits, int) else limits
    checks.at_least(name, low, least)
    if checks.at_least(name, high, least) < low:
        raise ValueError(f"{name} must be (low, high) with low <= high; got {limits!r}.")


@torch.no_grad()
def _exact_values(problem: Problem, domain: Domain) -> Tensor | None:
    """The minimum by an exact quadratic programme over the vertices, where that is one."""
    form = getattr(problem, "form", problem)  # an SVM dual is a quadratic inside
    if not isinstance(form, Quadratic | LeastSquares) or not isinstance(form.matrix, DenseMap):
        return None
    if not isinstance(domain, Simplex | L1Ball):
        return None
    matrix = form.matrix.matrix.double()
    if isinstance(form, Quadratic):
        Q = matrix
        c = torch.zeros_like(Q[..., 0]) if form.c is None else form.c.double()
        constant = c.new_zeros(())
    else:
        b = form.b.double()
        Q, constant = matrix.mT @ matrix, 0.5 * b.square().sum(-1)
        if form.ridge is not None:
            Q = Q + torch.diag_embed(form.ridge.double().expand(Q.shape[-1]))
        c = -(matrix.mT @ b.unsqueeze(-1)).squeeze(-1)
    if isinstance(domain, L1Ball):  # x = u − v with (u, v) on a simplex of twice the size
        Q = torch.cat([torch.cat([Q, -Q], -1), torch.cat([-Q, Q], -1)], -2)
        c = torch.cat([c, -c], -1)
    Q, c = domain.radius**2 * Q, domain.radius * c
    Q = Q.expand(*c.shape, c.shape[-1])
    w = simplex_qp(Q, c)
    bend = 0.5 * torch.linalg.vecdot(w, (Q @ w.unsqueeze(-1)).squeeze(-1))
    value: Tensor = bend + torch.linalg.vecdot(c, w) + constant
    return value.to(matrix.dtype if problem.dtype is None else problem.dtype)
