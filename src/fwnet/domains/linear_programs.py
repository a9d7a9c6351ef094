"""Linear programs by SciPy, which is imported when the first polytope is made."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from fwnet.domains.base import slack
from fwnet.numerics import checks

Bound = float | Tensor | None
Array = np.ndarray[Any, np.dtype[Any]]
_SHARP = 1e3  # factor of the cost: HiGHS takes no tolerance below 1e-10


def scipy_optimize(who: str) -> ModuleType:
    """`scipy.optimize`, or an ImportError that says how to get it."""
    try:
        import scipy.optimize
    except ImportError:
        raise ImportError(f'{who} needs SciPy. Install it with: pip install "fwnet[lp]"') from None
    module: ModuleType = scipy.optimize
    return module


class ProgramResult(NamedTuple):
    """Status ("optimal", "empty", "unbounded" or the message of HiGHS), x and the multipliers."""

    status: str
    x: Array
    ineq: Array
    eq: Array


def solve(
    optimize: ModuleType, cost: Array, slackest: float = 1e-10, **constraints: Any
) -> ProgramResult:
    """min ⟨cost, x⟩ by HiGHS: a vertex that satisfies each constraint up to a tolerance.

    The tolerances are 1e-10 for the constraints and 1e-13 for the cost. If rounding keeps HiGHS
    from reaching them, they are loosened in steps, that of the constraints never above `slackest`.

    Arguments:
        cost: with a largest entry of about 1, since the tolerances are absolute.
    """
    answer = ProgramResult("", cost, cost, cost)
    for primal, dual in ((1e-10, 1e-13), (1e-9, 1e-11), (1e-8, 1e-9), (1e-7, 1e-7)):
        found = optimize.linprog(
            _SHARP * cost,
            method="highs-ds",  # simplex: the answer is a vertex, also on ties
            options={
                "primal_feasibility_tolerance": min(primal, max(slackest, 1e-10)),
                "dual_feasibility_tolerance": _SHARP * dual,
            },
            **constraints,
        )
        if found.status == 0:
            y, z = found.ineqlin.marginals / _SHARP, found.eqlin.marginals / _SHARP
            return ProgramResult("optimal", found.x, y, z)
        status = {2: "empty", 3: "unbounded"}.get(found.status, str(found.message))
        answer = ProgramResult(status, np.full(len(cost), np.nan), np.zeros(0), np.zeros(0))
    return answer


def dual_bound(
    cost: Array,
    answer: ProgramResult,
    ub: tuple[Any, Array],  # A_ub, b_ub
    eq: tuple[Any, Array],  # A_eq, b_eq
    box: tuple[Array, Array],  # lower, upper, finite
) -> float:
    """min ⟨cost, x⟩ >= ⟨y, b_ub⟩ + ⟨z, b_eq⟩ + Σ min(r_i lower_i, r_i upper_i).

    For all y <= 0 and z, with r = cost − A_ubᵀy − A_eqᵀz: also for the multipliers of a solution
    that is not quite optimal.
    """
    y, z = np.minimum(answer.ineq, 0.0), answer.eq
    r = cost - ub[0].T @ y - eq[0].T @ z
    return float(y @ ub[1] + z @ eq[1] + np.minimum(r * box[0], r * box[1]).sum())


def each(cost: Tensor, event_dim: int, minimise: Callable[[Array], Array]) -> Tensor:
    """`minimise` on every cost of a batch, each scaled to a largest entry of 1, in float64.

    The solvers' tolerances are absolute, so a tiny cost would count as zero. The solvers reject
    costs that are not finite, so those are replaced by zero.
    """
    flat, _ = _scaled(cost, event_dim)
    answers = torch.from_numpy(np.stack([minimise(one) for one in flat]))
    return answers.reshape(*cost.shape[:-event_dim], *answers.shape[1:]).to(cost.device)


def each_certified(
    cost: Tensor, event_dim: int, minimise: Callable[[Array], tuple[Array, float]]
) -> tuple[Tensor, Tensor]:
    """Like `each`, with a lower bound on each minimum, `(*batch,)`."""
    flat, scale = _scaled(cost, event_dim)
    points, bounds = zip(*map(minimise, flat), strict=True)
    batch = cost.shape[:-event_dim]
    vertices = torch.from_numpy(np.stack(points)).reshape(cost.shape)
    bound = torch.tensor(bounds, dtype=torch.float64).reshape(batch) * scale.reshape(batch)
    return vertices.to(cost), bound.to(cost)


def _scaled(cost: Tensor, event_dim: int) -> tuple[Array, Tensor]:
    """The costs as a flat batch, each divided by its largest entry; and these entries."""
    dims = tuple(range(-event_dim, 0))
    scale = cost.detach().abs().amax(dims, keepdim=True)
    scaled = (cost / torch.where(scale == 0, 1.0, scale)).detach().to("cpu", torch.float64)
    scaled = scaled.nan_to_num(posinf=0.0, neginf=0.0)
    flat: Array = scaled.reshape(-1, *cost.shape[-event_dim:]).numpy()
    return flat, scale.to("cpu", torch.float64)


def marginals(rows: Array, columns: Array) -> dict[str, Any]:
    """A_eq and b_eq of the row and column sums of a flattened matrix, less the redundant last."""
    from scipy.sparse import eye_array, kron, vstack

    d, m = len(rows), len(columns)
    row_sums = kron(eye_array(d), np.ones((1, m)))
    column_sums = kron(np.ones((1, d)), eye_array(m))
    equalities = vstack([row_sums, column_sums], format="csr")[:-1]
    return {"A_eq": equalities, "b_eq": np.concatenate([rows, columns])[:-1]}


@final
class Program:
    """min ⟨cost, x⟩ over {x : A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}.

    Raises unless that set is bounded and not empty. Rows are scaled to length 1, so that tolerances
    are distances: those of HiGHS are absolute, and 1e-10 is below rounding in a row of length 1e4.
    """

    def __init__(
        self,
        A_ub: Tensor | None,
        b_ub: Tensor | None,
        A_eq: Tensor | None,
        b_eq: Tensor | None,
        bounds: tuple[Bound, Bound],
    ) -> None:
        self.optimize = scipy_optimize("Polytope")
        self.n = _size({"A_ub": A_ub, "A_eq": A_eq}, bounds)
        self.A_ub, self.b_ub = _constraint("ub", A_ub, b_ub, self.n)
        self.A_eq, self.b_eq = _constraint("eq", A_eq, b_eq, self.n)
        self.lower = _bound("lower", bounds[0], -np.inf, self.n)
        self.upper = _bound("upper", bounds[1], np.inf, self.n)
        wrong = np.flatnonzero(self.lower > self.upper)
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                "Polytope(bounds=(lower, upper)) must have lower <= upper; got "
                f"lower={self.lower[i]} and upper={self.upper[i]} at entry {i}. Did you swap them?"
            )
        ends = np.concatenate([self.b_ub, self.b_eq, self.lower, self.upper])
        # At least 1: the tolerance of HiGHS is absolute.
        self.size = float(np.abs(ends[np.isfinite(ends)]).max(initial=1.0))
        self.radius = self._check()

    def minimise(self, cost: Array) -> Array:
        """A vertex that minimises ⟨cost, x⟩ and violates constraints by at most 1e-9 · `size`."""
        return self._optimum(cost).x.clip(self.lower, self.upper)

    def certified(self, cost: Array) -> tuple[Array, float]:
        """The same, and a lower bound on the minimum."""
        answer = self._optimum(cost)
        box = (self.lower.clip(min=-self.radius), self.upper.clip(max=self.radius))
        bound = dual_bound(cost, answer, (self.A_ub, self.b_ub), (self.A_eq, self.b_eq), box)
        return answer.x.clip(self.lower, self.upper), bound

    def contains(self, x: Tensor, tol: float | None) -> Tensor:
        """Which points violate no constraint by more than `tol`."""
        tol = slack(x, tol, self.size)
        lower, upper = torch.from_numpy(self.lower).to(x), torch.from_numpy(self.upper).to(x)
        inside = ((x >= lower - tol) & (x <= upper + tol)).all(-1)
        ub = x @ torch.from_numpy(self.A_ub.T).to(x) - torch.from_numpy(self.b_ub).to(x)
        eq = x @ torch.from_numpy(self.A_eq.T).to(x) - torch.from_numpy(self.b_eq).to(x)
        return inside & (ub <= tol).all(-1) & (eq.abs() <= tol).all(-1)

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """Rows of the constraints that bind at x, zeros for the others."""
        A_ub, A_eq = (torch.from_numpy(a).to(x) for a in (self.A_ub, self.A_eq))
        lower, upper = (torch.from_numpy(b).to(x) for b in (self.lower, self.upper))
        tight = (x @ A_ub.mT >= torch.from_numpy(self.b_ub).to(x) - tol).to(x)
        edge = torch.diag_embed(((x <= lower + tol) | (x >= upper - tol)).to(x))
        shared = A_eq.expand(*x.shape[:-1], *A_eq.shape)
        return torch.cat([tight.unsqueeze(-1) * A_ub, shared, edge], -2)

    @cached_property
    def diagonal(self) -> float:
        """Length of the diagonal of the bounding box."""
        axes = np.eye(self.n)
        width = [self.minimise(-e) @ e - self.minimise(e) @ e for e in axes]
        return float(np.linalg.norm(width))

    def _optimum(self, cost: Array) -> ProgramResult:
        answer = self._solve(cost)
        if answer.status != "optimal":
            raise RuntimeError(
                f"Polytope: HiGHS failed on a finite cost: {answer.status}. The constraints "
                "differ too much in scale; rescale x so that its entries are of similar size."
            )
        return answer

    def _solve(self, cost: Array) -> ProgramResult:
        return solve(
            self.optimize,
            cost,
            slackest=1e-9 * self.size,
            A_ub=self.A_ub,
            b_ub=self.b_ub,
            A_eq=self.A_eq,
            b_eq=self.b_eq,
            bounds=np.stack([self.lower, self.upper], 1),
        )

    def _check(self) -> float:
        """Raise unless the set is bounded and not empty; return a bound on |x_i|."""
        if self._solve(np.zeros(self.n)).status == "empty":
            raise ValueError(
                "Polytope(...) is empty: no point satisfies all constraints. Check the signs "
                "of A_ub and b_ub (A_ub x <= b_ub), and the bounds."
            )
        radius = self._radius()
        if not np.isfinite(radius):
            raise ValueError(
                "Polytope(...) is unbounded, so a linear cost may have no minimum. "
                "Add bounds=(lower, upper)."
            )
        return radius

    def _radius(self) -> float:
        """A bound on |x_i|, infinite if C d <= 0, A_eq d = 0 has a solution d ≠ 0.

        By Stiemke's lemma it has none if the rows have rank n and some y >= 1, z have
        Cᵀy + A_eqᵀz = 0. Then Σ y_j (d_j − C_j x) = ⟨y, d⟩ + ⟨z, b_eq⟩ bounds every slack of
        C x <= d. So the products C x, A_eq x are bounded, and x by the smallest singular value.
        """
        eye = np.eye(self.n)
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        if (below & above).all():
            return float(np.abs([self.lower, self.upper]).max())
        rows = np.concatenate([self.A_ub, -eye[below], eye[above]])
        ends = np.concatenate([self.b_ub, -self.lower[below], self.upper[above]])
        both = np.concatenate([rows, self.A_eq])
        if np.linalg.matrix_rank(both) < self.n:
            return np.inf
        free = [(None, None)] * len(self.A_eq)
        bounds = [(1, None)] * len(rows) + free
        zero = np.zeros(len(both))
        answer = solve(self.optimize, zero, A_eq=both.T, b_eq=np.zeros(self.n), bounds=bounds)
        if answer.status != "optimal":
            return np.inf
        slackness = float(answer.x @ np.concatenate([ends, self.b_eq]))
        products = np.concatenate([np.abs(ends) + max(slackness, 0.0), np.abs(self.b_eq)])
        smallest = np.linalg.svd(both, compute_uv=False)[-1]
        return 2.0 * float(np.linalg.norm(products) / smallest)  # twice: y, z are rounded


def _size(matrices: dict[str, Tensor | None], bounds: tuple[Bound, Bound]) -> int:
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
