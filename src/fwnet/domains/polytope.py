"""Polytope: given by its constraints, asked by linear programs."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from functools import cached_property
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
    scipy_optimize,
    solve,
)
from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, dense_cost
from fwnet.vertices import Dense, Vertex

Bound = float | Tensor | None


@final
@dataclass(frozen=True, eq=False)
class Polytope(Domain):
    """General polytope, given by its constraints.

        {x : A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}

    The LMO is a linear program (HiGHS). Its vertex violates no constraint by more than 1e-9 times
    the largest of 1, the bounds and the distances |b_i|/|a_i| of the hyperplanes from 0; this is
    also the tolerance of `contains`. Raises unless the set is bounded and not empty.

    Arguments:
        A_ub, b_ub, A_eq, b_eq: `(k, n)` and `(k,)`, tensors; each pair may be left out.
        bounds: (lower, upper), each a number, a tensor `(n,)` or None for no bound.

    Example:
        >>> triangle = Polytope(torch.ones(1, 2), torch.ones(1), bounds=(0.0, None))
        >>> triangle.lmo(torch.tensor([1.0, -1.0])).dense()
        tensor([0., 1.])
    """

    A_ub: Tensor | None = None
    b_ub: Tensor | None = None
    A_eq: Tensor | None = None
    b_eq: Tensor | None = None
    bounds: tuple[Bound, Bound] = (None, None)
    polyhedral: ClassVar[bool] = True
    # Rows scaled to length 1, so that tolerances are distances: those of HiGHS are absolute, and
    # 1e-10 is below rounding in a row of length 1e4.
    _ub: tuple[Array, Array] = field(init=False, repr=False)  # rows and their ends
    _eq: tuple[Array, Array] = field(init=False, repr=False)
    _lower: Array = field(init=False, repr=False)
    _upper: Array = field(init=False, repr=False)
    _size: float = field(init=False, repr=False)  # the largest distance of a constraint from 0
    _radius: float = field(init=False, repr=False)  # a bound on |x_i|

    def __post_init__(self) -> None:
        scipy_optimize("Polytope")
        n = _dimension({"A_ub": self.A_ub, "A_eq": self.A_eq}, self.bounds)
        ub = _constraint("ub", self.A_ub, self.b_ub, n)
        eq = _constraint("eq", self.A_eq, self.b_eq, n)
        lower = _bound("lower", self.bounds[0], -np.inf, n)
        upper = _bound("upper", self.bounds[1], np.inf, n)
        wrong = np.flatnonzero(lower > upper)
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                "Polytope(bounds=(lower, upper)) must have lower <= upper; got "
                f"lower={lower[i]} and upper={upper[i]} at entry {i}. Did you swap them?"
            )
        ends = np.concatenate([ub[1], eq[1], lower, upper])
        # At least 1: the tolerance of HiGHS is absolute.
        size = float(np.abs(ends[np.isfinite(ends)]).max(initial=1.0))
        settle(self, _ub=ub, _eq=eq, _lower=lower, _upper=upper, _size=size)
        if self._solve(np.zeros(n)).status == "empty":
            raise ValueError(
                "Polytope(...) is empty: no point satisfies all constraints. Check the signs "
                "of A_ub and b_ub (A_ub x <= b_ub), and the bounds."
            )
        settle(self, _radius=self._largest_entry())
        if not np.isfinite(self._radius):
            raise ValueError(
                "Polytope(...) is unbounded, so a linear cost may have no minimum. "
                "Add bounds=(lower, upper)."
            )

    def __repr__(self) -> str:
        return f"Polytope({len(self._ub[1])} <=, {len(self._eq[1])} =, n={len(self._lower)})"

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        super().check_shape(name, shape)
        n = len(self._lower)
        self.check_kind(f"vectors of {n} entries", shape[-1] == n, name, shape)

    def vertex(self, cost: Cost) -> Vertex:
        cost = dense_cost(cost)
        return Dense(each(cost, 1, self._minimum).to(cost.dtype))

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """A vertex, and a lower bound `(*batch,)` on the minimum, from the dual program."""
        box = (self._lower.clip(min=-self._radius), self._upper.clip(max=self._radius))

        def minimise(one: Array) -> tuple[Array, float]:
            answer = self._optimum(one)
            bound = dual_bound(one, answer, self._ub, self._eq, box)
            return answer.x.clip(self._lower, self._upper), bound

        vertices, bounds = each_certified(dense_cost(cost), 1, minimise)
        return Dense(vertices), bounds

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        tol = slack(x, tol, self._size)
        A_ub, b_ub, A_eq, b_eq, lower, upper = self._tensors(x)
        inside = ((x >= lower - tol) & (x <= upper + tol)).all(-1)
        above, beside = x @ A_ub.mT - b_ub, x @ A_eq.mT - b_eq
        return inside & (above <= tol).all(-1) & (beside.abs() <= tol).all(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        """An upper bound: the diagonal of the bounding box, from 2n linear programs."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> float:
        axes = np.eye(len(self._lower))
        return float(np.linalg.norm([(self._minimum(-e) - self._minimum(e)) @ e for e in axes]))

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """Rows of A_eq, rows of A_ub that hold with equality, e_i where x_i is at a bound."""
        A_ub, b_ub, A_eq, _, lower, upper = self._tensors(x)
        tight = (x @ A_ub.mT >= b_ub - tol).to(x)
        edge = torch.diag_embed(((x <= lower + tol) | (x >= upper - tol)).to(x))
        shared = A_eq.expand(*x.shape[:-1], *A_eq.shape)
        return torch.cat([tight.unsqueeze(-1) * A_ub, shared, edge], -2)

    def _tensors(self, like: Tensor) -> list[Tensor]:
        """A_ub, b_ub, A_eq, b_eq, lower and upper."""
        arrays = (*self._ub, *self._eq, self._lower, self._upper)
        return [torch.from_numpy(array).to(like) for array in arrays]

    def _minimum(self, cost: Array) -> Array:
        """A vertex that minimises ⟨cost, x⟩ and violates constraints by at most 1e-9 · `_size`."""
        return self._optimum(cost).x.clip(self._lower, self._upper)

    def _optimum(self, cost: Array) -> ProgramResult:
        answer = self._solve(cost)
        if answer.status != "optimal":
            raise RuntimeError(
                f"Polytope: HiGHS failed on a finite cost: {answer.status}. The constraints "
                "differ too much in scale; rescale x so that its entries are of similar size."
            )
        return answer

    def _solve(self, cost: Array) -> ProgramResult:
        (A_ub, b_ub), (A_eq, b_eq) = self._ub, self._eq
        box = np.stack([self._lower, self._upper], 1)
        constraints: dict[str, Any] = {
            "A_ub": A_ub,
            "b_ub": b_ub,
            "A_eq": A_eq,
            "b_eq": b_eq,
            "bounds": box,
        }
        return solve(scipy_optimize("Polytope"), cost, 1e-9 * self._size, **constraints)

    def _largest_entry(self) -> float:
        """A bound on |x_i|, infinite if C d <= 0, A_eq d = 0 has a solution d ≠ 0.

        By Stiemke's lemma it has none if the rows have rank n and some y >= 1, z have
        Cᵀy + A_eqᵀz = 0. Then Σ y_j (d_j − C_j x) = ⟨y, d⟩ + ⟨z, b_eq⟩ bounds every slack of
        C x <= d. So the products C x, A_eq x are bounded, and x by the smallest singular value.
        """
        (A_ub, b_ub), (A_eq, b_eq) = self._ub, self._eq
        lower, upper, n = self._lower, self._upper, len(self._lower)
        below, above = np.isfinite(lower), np.isfinite(upper)
        if (below & above).all():
            return float(np.abs([lower, upper]).max())
        eye = np.eye(n)
        rows = np.concatenate([A_ub, -eye[below], eye[above]])
        ends = np.concatenate([b_ub, -lower[below], upper[above]])
        both = np.concatenate([rows, A_eq])
        if np.linalg.matrix_rank(both) < n:
            return np.inf
        box = [(1, None)] * len(rows) + [(None, None)] * len(A_eq)
        zeros: dict[str, Any] = {"A_eq": both.T, "b_eq": np.zeros(n), "bounds": box}
        answer = solve(scipy_optimize("Polytope"), np.zeros(len(both)), **zeros)
        if answer.status != "optimal":
            return np.inf
        slackness = float(answer.x @ np.concatenate([ends, b_eq]))
        products = np.concatenate([np.abs(ends) + max(slackness, 0.0), np.abs(b_eq)])
        smallest = np.linalg.svd(both, compute_uv=False)[-1]
        return 2.0 * float(np.linalg.norm(products) / smallest)  # twice: y, z are rounded


def _dimension(matrices: dict[str, Tensor | None], bounds: tuple[Bound, Bound]) -> int:
    if not (isinstance(bounds, tuple) and len(bounds) == 2):
        raise ValueError(f"Polytope(bounds=...) must be a pair (lower, upper); got {bounds!r}.")
    for name, matrix in matrices.items():
        if matrix is not None:
            checks.real_tensor(f"Polytope({name}=...)", matrix)
            if matrix.ndim != 2:
                raise ValueError(
                    f"Polytope({name}=...) must be a matrix (k, n); "
                    f"got shape {tuple(matrix.shape)}."
                )
            return matrix.shape[1]
    for bound in bounds:
        if isinstance(bound, Tensor) and bound.ndim == 1:
            return len(bound)
    raise ValueError(
        "Polytope(...) must have A_ub, A_eq or a bound that is a tensor (n,), to fix n; got none."
    )


def _constraint(kind: str, A: Tensor | None, b: Tensor | None, n: int) -> tuple[Array, Array]:
    if A is None and b is None:
        return np.zeros((0, n)), np.zeros(0)
    if A is None or b is None:
        missing = f"A_{kind}" if A is None else f"b_{kind}"
        raise ValueError(
            f"Polytope(A_{kind}=..., b_{kind}=...) must be given together; {missing} is missing."
        )
    checks.real_tensor(f"Polytope(A_{kind}=...)", A)
    checks.real_tensor(f"Polytope(b_{kind}=...)", b)
    if A.ndim != 2 or A.shape[1] != n or b.shape != A.shape[:1]:
        raise ValueError(
            f"Polytope(A_{kind}=..., b_{kind}=...) must have shapes (k, {n}) and (k,); "
            f"got {tuple(A.shape)} and {tuple(b.shape)}."
        )
    return _unit_rows(_array(A), _array(b))


def _unit_rows(A: Array, b: Array) -> tuple[Array, Array]:
    """The same constraints with rows of length 1; rows of zeros stay."""
    largest = np.abs(A).max(1, initial=0.0)
    largest = np.where(largest == 0, 1.0, largest)  # keeps squares in range
    length = np.linalg.norm(A / largest[:, None], axis=1)
    length = np.where(length == 0, 1.0, length)
    return A / largest[:, None] / length[:, None], b / largest / length


def _bound(name: str, value: Bound, missing: float, n: int) -> Array:
    if not (value is None or isinstance(value, Tensor | numbers.Real)):
        raise TypeError(
            f"Polytope(bounds=...): {name} must be a number, a tensor ({n},) or None; "
            f"got {value!r}."
        )
    bound = torch.as_tensor(missing if value is None else value, dtype=torch.float64)
    if bound.ndim and bound.shape != (n,):
        raise ValueError(
            f"Polytope(bounds=...): {name} must be a number or a tensor ({n},); "
            f"got shape {tuple(bound.shape)}."
        )
    if bool((bound.isnan() | (bound == -missing)).any()):
        raise ValueError(
            f"Polytope(bounds=...): {name} must not be NaN or {-missing}; got {value!r}."
        )
    return _array(bound.expand(n))


def _array(x: Tensor) -> Array:
    array: Array = x.detach().to("cpu", torch.float64).numpy()
    return array
