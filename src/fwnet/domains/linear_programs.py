"""SciPy's linear programs, loaded when a polytope is first made."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet import checks
from fwnet.domains.base import slack

Bound = float | Tensor | None
Array = np.ndarray[Any, np.dtype[Any]]


def scipy_optimize(who: str) -> ModuleType:
    """`scipy.optimize`, or an ImportError that says how to get it."""
    try:
        import scipy.optimize
    except ImportError:
        raise ImportError(
            f'{who} needs SciPy for its linear programs. Install it with: pip install "fwnet[lp]"'
        ) from None
    module: ModuleType = scipy.optimize
    return module


def solve(optimize: ModuleType, cost: Array, **constraints: Any) -> tuple[str, Array]:
    """min ⟨cost, x⟩ by HiGHS: "optimal", "empty", "unbounded" or its message, and x."""
    answer = optimize.linprog(
        cost,
        method="highs-ds",  # simplex: the answer is a vertex, also on ties
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        **constraints,
    )
    if answer.status == 0:
        return "optimal", answer.x
    status = {2: "empty", 3: "unbounded"}.get(answer.status, str(answer.message))
    return status, np.full(len(cost), np.nan)


def each(cost: Tensor, event_dim: int, minimise: Callable[[Array], Array]) -> Tensor:
    """`minimise` on every cost of a batch, each scaled to a largest entry of 1, in float64.

    The solvers' tolerances are absolute, so that a tiny cost would count as zero. A cost that is
    not finite, which the solvers refuse, is taken as zero.
    """
    dims = tuple(range(-event_dim, 0))
    scale = cost.abs().amax(dims, keepdim=True)
    scaled = (cost / torch.where(scale == 0, 1.0, scale)).detach().to("cpu", torch.float64)
    scaled = scaled.nan_to_num(posinf=0.0, neginf=0.0)
    flat = scaled.reshape(-1, *cost.shape[-event_dim:]).numpy()
    answers = torch.from_numpy(np.stack([minimise(one) for one in flat]))
    return answers.reshape(*cost.shape[:-event_dim], *answers.shape[1:]).to(cost.device)


def marginals(rows: Array, columns: Array) -> dict[str, Any]:
    """A_eq and b_eq of the sums of a matrix, flattened row by row; the last one follows."""
    from scipy.sparse import eye_array, kron, vstack

    d, m = len(rows), len(columns)
    row_sums = kron(eye_array(d), np.ones((1, m)))
    column_sums = kron(np.ones((1, d)), eye_array(m))
    equalities = vstack([row_sums, column_sums], format="csr")[:-1]
    return {"A_eq": equalities, "b_eq": np.concatenate([rows, columns])[:-1]}


@final
class Program:
    """min ⟨cost, x⟩ over {x : A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}.

    Made only if that set is bounded and not empty.
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
                f"lower={self.lower[i]} and upper={self.upper[i]} at entry {i}. Exchange them?"
            )
        self._check()

    def minimise(self, cost: Array) -> Array:
        """A vertex that minimises ⟨cost, x⟩."""
        status, x = self._solve(cost)
        if status != "optimal":
            raise RuntimeError(f"Polytope: HiGHS stopped on a finite cost: {status}.")
        return x.clip(self.lower, self.upper)

    def contains(self, x: Tensor, tol: float | None) -> Tensor:
        """Which points keep every constraint up to `tol`."""
        ends = np.concatenate([self.b_ub, self.b_eq, self.lower, self.upper])
        # At least 1: the tolerance of HiGHS is absolute.
        tol = slack(x, tol, float(np.abs(ends[np.isfinite(ends)]).max(initial=1.0)))
        lower, upper = torch.from_numpy(self.lower).to(x), torch.from_numpy(self.upper).to(x)
        inside = ((x >= lower - tol) & (x <= upper + tol)).all(-1)
        ub = x @ torch.from_numpy(self.A_ub.T).to(x) - torch.from_numpy(self.b_ub).to(x)
        eq = x @ torch.from_numpy(self.A_eq.T).to(x) - torch.from_numpy(self.b_eq).to(x)
        return inside & (ub <= tol).all(-1) & (eq.abs() <= tol).all(-1)

    def normals(self, x: Tensor, tol: float) -> Tensor:
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

    def _solve(self, cost: Array) -> tuple[str, Array]:
        return solve(
            self.optimize,
            cost,
            A_ub=self.A_ub,
            b_ub=self.b_ub,
            A_eq=self.A_eq,
            b_eq=self.b_eq,
            bounds=np.stack([self.lower, self.upper], 1),
        )

    def _check(self) -> None:
        if self._solve(np.zeros(self.n))[0] == "empty":
            raise ValueError(
                "Polytope(...) is empty: no point keeps all of its constraints. Check the signs "
                "of A_ub and b_ub (A_ub x <= b_ub), and the bounds."
            )
        if not self._bounded():
            raise ValueError(
                "Polytope(...) is unbounded, so that a linear cost may have no minimum. "
                "Add bounds=(lower, upper)."
            )

    def _bounded(self) -> bool:
        """Whether C d <= 0, A_eq d = 0 has only the solution d = 0.

        By Stiemke's lemma: the rows have rank n, and some y >= 1, z have Cᵀy + A_eqᵀz = 0.
        """
        eye = np.eye(self.n)
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        if (below & above).all():
            return True
        rows = np.concatenate([self.A_ub, -eye[below], eye[above]])
        both = np.concatenate([rows, self.A_eq])
        if np.linalg.matrix_rank(both) < self.n:
            return False
        free = [(None, None)] * len(self.A_eq)
        bounds = [(1, None)] * len(rows) + free
        zero = np.zeros(len(both))
        status, _ = solve(self.optimize, zero, A_eq=both.T, b_eq=np.zeros(self.n), bounds=bounds)
        return status == "optimal"


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
        "Polytope(...) must have A_ub, A_eq or a bound that is a tensor (n,), to know n; got none."
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
    return _array(A), _array(b)


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
