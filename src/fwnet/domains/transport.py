"""Polytopes of matrices with given sums: Birkhoff and transport."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from fwnet.domains.base import Domain, settle, slack
from fwnet.domains.linear_programs import (
    Array,
    ProgramResult,
    dual_bound,
    each,
    each_certified,
    marginals,
    scipy_optimize,
    solve,
)
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, dense_cost
from fwnet.vertices import Dense, Permutation, Vertex


@final
@dataclass(frozen=True)
class Birkhoff(Domain):
    """Birkhoff polytope: doubly stochastic matrices.

        {X : X >= 0, every row and every column sums to 1}

    The vertices are the n × n permutation matrices; the LMO is an assignment problem.

    Example:
        >>> Birkhoff(2).lmo(torch.tensor([[3.0, 1.0], [1.0, 2.0]])).dense()
        tensor([[0., 1.],
                [1., 0.]])
    """

    n: int
    event_dim: ClassVar[int] = 2
    polyhedral: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, n=checks.at_least("Birkhoff(n=...)", self.n, 1))
        scipy_optimize("Birkhoff")

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        fits = tuple(shape[-2:]) == (self.n, self.n)
        self.check_kind(f"{self.n} × {self.n} matrices", fits, name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        assign = scipy_optimize("Birkhoff").linear_sum_assignment
        return Permutation(each(cost, 2, lambda one: assign(one)[1]), cost.dtype)

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol)
        rows, columns = (x.sum(-1) - 1).abs().amax(-1), (x.sum(-2) - 1).abs().amax(-1)
        return (x.amin((-2, -1)) >= -tol) & (rows <= tol) & (columns <= tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return math.sqrt(2.0 * self.n) if self.n > 1 else 0.0

    def _start(self, zeros: Tensor) -> Tensor:
        """The barycentre, 1/n everywhere."""
        return zeros.fill_(1 / self.n)

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """A permutation matrix is its own atom; any other x is one dense atom."""
        columns = x.argmax(-1)
        if bool((Permutation(columns, x.dtype).dense() == x).all()):
            atoms = Permutation(columns, x.dtype).as_atoms()
            return atoms, x.new_ones(atoms.leading)
        return Domain.decompose(self, x)


@final
@dataclass(frozen=True, eq=False)
class TransportPolytope(Domain):
    """Transport plans between two distributions.

        {X : X >= 0, Σ_j X_ij = row_sums_i, Σ_i X_ij = column_sums_j}

    Arguments:
        row_sums, column_sums: `(d,)` and `(m,)`, not negative, with the same total.

    Example:
        >>> plan = TransportPolytope(torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75]))
        >>> plan.lmo(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).dense()
        tensor([[0.2500, 0.2500],
                [0.0000, 0.5000]])
    """

    row_sums: Tensor
    column_sums: Tensor
    event_dim: ClassVar[int] = 2
    polyhedral: ClassVar[bool] = True
    _total: float = field(init=False, repr=False)
    _equalities: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        who = "TransportPolytope"
        scipy_optimize(who)
        for name in ("row_sums", "column_sums"):
            sums = checks.real_tensor(f"{who}({name}=...)", getattr(self, name))
            if sums.ndim != 1 or bool((sums < 0).any()):
                got = f"shape {tuple(sums.shape)}" if sums.ndim != 1 else f"{float(sums.min())}"
                raise ValueError(f"{who}({name}=...) must be a vector of sums >= 0; got {got}.")
        rows, columns = (x.numpy() for x in self._doubles())
        total, other = float(rows.sum()), float(columns.sum())
        given = (self.row_sums, self.column_sums)
        precision = max(torch.finfo(x.dtype).eps * len(x) for x in given)
        if not (total > 0 and abs(total - other) <= 4 * precision * total):
            raise ValueError(
                f"{who}(row_sums=..., column_sums=...) must have the same positive total, else "
                f"no plan exists; got {total} and {other}."
            )
        # Scaled to total 1, since the tolerances of HiGHS are absolute.
        settle(self, _total=total, _equalities=marginals(rows / total, columns / other))

    def __repr__(self) -> str:
        return f"TransportPolytope({len(self.row_sums)} × {len(self.column_sums)})"

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        d, m = len(self.row_sums), len(self.column_sums)
        self.check_kind(f"{d} × {m} matrices", tuple(shape[-2:]) == (d, m), name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        plans = each(cost, 2, lambda one: self._plan(self._optimum(one)))
        return Dense(plans.to(cost.dtype), 2)

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """A vertex, and a lower bound `(*batch,)` on the minimum, from the dual program."""
        equalities = (self._equalities["A_eq"], self._equalities["b_eq"])
        rows, columns = self._doubles()
        largest = torch.minimum(rows[:, None], columns).numpy().ravel() / self._total
        none = np.zeros((0, largest.size)), np.zeros(0)

        def minimise(one: Array) -> tuple[Array, float]:
            answer, box = self._optimum(one), (np.zeros_like(largest), largest)
            bound = dual_bound(one.ravel(), answer, none, equalities, box)
            return self._plan(answer), self._total * bound

        plans, bounds = each_certified(dense_cost(cost), 2, minimise)
        return Dense(plans, 2), bounds

    def _optimum(self, cost: Array) -> ProgramResult:
        optimize = scipy_optimize("TransportPolytope")
        answer = solve(optimize, cost.ravel(), 1e-9, bounds=(0, None), **self._equalities)
        if answer.status != "optimal":
            raise RuntimeError(
                f"TransportPolytope: HiGHS failed on a finite cost: {answer.status}."
            )
        return answer

    def _plan(self, answer: ProgramResult) -> Array:
        shape = (len(self.row_sums), len(self.column_sums))
        return self._total * answer.x.reshape(shape).clip(min=0.0)

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self._total)
        rows, columns = self.row_sums.to(x), self.column_sums.to(x)
        close = ((x.sum(-1) - rows).abs().amax(-1) <= tol) & (x.amin((-2, -1)) >= -tol)
        return close & ((x.sum(-2) - columns).abs().amax(-1) <= tol)

    def diameter(self, shape: tuple[int, ...]) -> float:
        """An upper bound: |X − Y|² <= |X|² + |Y|², and X_ij <= min(row sum, column sum)."""
        rows, columns = self._doubles()
        largest = torch.minimum(rows[:, None], columns)
        square = min((rows * largest.amax(1)).sum(), (columns * largest.amax(0)).sum())
        return math.sqrt(2.0 * float(square))

    def _start(self, zeros: Tensor) -> Tensor:
        """The independent plan, row_sums · column_sumsᵀ / total."""
        rows, columns = self.row_sums.double(), self.column_sums.double()
        return zeros.copy_(torch.outer(rows / rows.sum(), columns))

    def _doubles(self) -> tuple[Tensor, Tensor]:
        """Both sums on the CPU, without gradients."""
        rows, columns = self.row_sums.detach(), self.column_sums.detach()
        return rows.to("cpu", torch.float64), columns.to("cpu", torch.float64)
