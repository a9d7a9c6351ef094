"""Quadratic programs over the simplex, solved exactly and in batches."""

from __future__ import annotations

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.quadratic.batched import (
    SMALL,
    QPBatch,
    SimplexQPSolution,
    block_pivots,
    solve_each,
    solve_one,
)
from fwnet.quadratic.faces import compiled_for
from fwnet.quadratic.matrices import check_matrix

__all__ = ["SimplexQPSolution", "check_matrix", "simplex_qp", "solve_simplex_qp"]


def simplex_qp(
    Q: Tensor,  # (*batch, n, n)
    c: Tensor | None = None,  # (*batch, n)
    start: Tensor | None = None,  # (*batch, n)
    *,
    tol: float | None = None,
    max_steps: int | None = None,
) -> Tensor:  # (*batch, n)
    """Exact minimum of a convex quadratic over the unit simplex.

        argmin ½ xᵀQx + cᵀx   subject to   x >= 0, Σ x = 1

    Block principal pivoting: every sign that is wrong changes at once, or one at a time where that
    cycles; a monotone active-set method finishes what remains. Not differentiable: that is
    `fwnet.layers.SimplexQP`.

    Arguments:
        Q: symmetric positive semidefinite, singular if need be.
        c: linear term, zero by default.
        start: a point of the simplex whose support is near the solution's.
        tol: gap relative to |⟨Qx + c, x⟩|, 1e-12 (float64) or 1e-6 (float32) by default, and never
            below the rounding of a gradient.
        max_steps: faces that the active-set method visits at most, 100 + 10 n by default.

    Example:
        >>> simplex_qp(torch.diag(torch.tensor([1.0, 2.0, 2.0])))
        tensor([0.5000, 0.2500, 0.2500])

    Reference: Júdice and Pires (1994); Nocedal and Wright (2006), section 16.5.
    """
    return solve_simplex_qp(Q, c, start, tol=tol, max_steps=max_steps).x


@torch.no_grad()
def solve_simplex_qp(
    Q: Tensor,
    c: Tensor | None = None,
    start: Tensor | None = None,
    *,
    tol: float | None = None,
    max_steps: int | None = None,
    trusted: bool = False,
) -> SimplexQPSolution:
    """As `simplex_qp`, with the certificate.

    Arguments:
        trusted: Q is semidefinite up to rounding, which may be as large as Q itself: no check.
    """
    _check_shapes(Q, c, start)
    batch, n = Q.shape[:-2], Q.shape[-1]
    default_tol = 1e-12 if Q.dtype == torch.float64 else 1e-6
    tol = default_tol if tol is None else checks.positive("tol", tol)
    steps = 100 + 10 * n if max_steps is None else checks.at_least("max_steps", max_steps, 1)
    if n <= SMALL and Q.numel() == n * n and Q.device.type == "cpu":
        found = solve_one(Q.reshape(1, n, n), c, start, tol, steps, trusted)
    else:
        found = _solve_batch(Q.reshape(-1, n, n), batch, c, start, tol, steps, trusted)
    return SimplexQPSolution(
        found.x.reshape(*batch, n),
        found.gradient.reshape(*batch, n),
        found.gap.reshape(batch),
        found.converged.reshape(batch),
    )


def _solve_batch(
    Q: Tensor,  # (problems, n, n)
    batch: torch.Size,
    c: Tensor | None,
    start: Tensor | None,
    tol: float,
    steps: int,
    trusted: bool,
) -> SimplexQPSolution:
    if trusted:
        checks.finite("Q", Q)
    else:
        check_matrix(Q)
    n = Q.shape[-1]
    c = Q.new_zeros(Q.shape[:-1]) if c is None else c.expand(*batch, n).reshape(-1, n)
    given = Q.new_full(c.shape, 1.0 / n) if start is None else start.expand(*batch, n)
    x = given.reshape(-1, n).clamp_min(0)
    x = x / x.sum(-1, keepdim=True)
    whole = QPBatch.of(Q, c, tol, trusted)
    if compiled_for(Q) is not None:
        return solve_each(whole, x, steps)
    found = block_pivots(whole, x)
    rest = (~found.converged).nonzero().squeeze(-1)
    if rest.numel():
        found.put(rest, solve_each(whole.take(rest), found.x[rest], steps, pivots=False))
    return found


def _check_shapes(Q: Tensor, c: Tensor | None, start: Tensor | None) -> None:
    if not isinstance(Q, Tensor) or Q.dtype not in (torch.float32, torch.float64) or not Q.numel():
        checks.real_tensor("Q", Q)
    if Q.ndim < 2 or Q.shape[-1] != Q.shape[-2]:
        raise ValueError(f"Q must have shape (*batch, n, n); got {tuple(Q.shape)}.")
    for name, vector in (("c", c), ("start", start)):
        if vector is None:
            continue
        checks.real_tensor(name, vector)
        checks.same_kind(name, vector, "Q", Q)
        if vector.ndim > Q.ndim - 1 or vector.shape[-1] != Q.shape[-1]:
            raise ValueError(
                f"{name} must have shape {tuple(Q.shape[:-1])} as Q without its last dimension; "
                f"got {tuple(vector.shape)}."
            )
    if start is not None and not bool((start.clamp_min(0).sum(-1) > 0).all()):
        raise ValueError("start must have a positive entry in each row; some row has none.")
