"""Linear programs by SciPy, which is imported when the first polytope is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics.optional import optional

Array = np.ndarray[Any, np.dtype[Any]]
_SHARP = 1e3  # factor of the cost: HiGHS takes no tolerance below 1e-10


def scipy_optimize(who: str) -> Any:
    """`scipy.optimize`, or an ImportError that says how to get it."""
    return optional("scipy.optimize", who, "lp")


class ProgramResult(NamedTuple):
    """Status ("optimal", "empty", "unbounded" or the message of HiGHS), x and the multipliers."""

    status: str
    x: Array
    ineq: Array
    eq: Array


def solve(optimize: Any, cost: Array, slackest: float = 1e-10, **constraints: Any) -> ProgramResult:
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
