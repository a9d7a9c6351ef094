"""Quadratic programs over the simplex, solved exactly and in batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from fwnet import checks
from fwnet.faces import FaceFactor, factor_face, spectral_face_solve
from fwnet.small_quadratic_programs import solve_small

_SMALL = 32  # a single problem up to this size is scalar work: NumPy, less overhead
_BLOCK_STEPS = 30  # block pivots take 3 to 10 faces, or cycle


@final
@dataclass(frozen=True, eq=False)
class SimplexQPSolution:
    """What an exact solve returns.

        gap = ⟨gradient, x⟩ − min_i gradient_i >= f(x) − f*

    Arguments:
        x: the minimiser, `(*batch, n)`, always on the simplex.
        gradient: Qx + c, `(*batch, n)`.
        gap: the Frank-Wolfe gap, `(*batch,)`.
        converged: whether the gap reached the tolerance, `(*batch,)`.
    """

    x: Tensor
    gradient: Tensor
    gap: Tensor
    converged: Tensor


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
) -> SimplexQPSolution:
    """As `simplex_qp`, with the certificate."""
    _check_shapes(Q, c, start)
    batch, n = Q.shape[:-2], Q.shape[-1]
    default_tol = 1e-12 if Q.dtype == torch.float64 else 1e-6
    tol = default_tol if tol is None else checks.positive("tol", tol)
    steps = 100 + 10 * n if max_steps is None else checks.at_least("max_steps", max_steps, 1)
    if n <= _SMALL and Q.numel() == n * n and Q.device.type == "cpu":
        return _solve_one(Q, c, start, tol, steps)
    Q = Q.reshape(-1, n, n)
    c = Q.new_zeros(Q.shape[:-1]) if c is None else c.expand(*batch, n).reshape(-1, n)
    given = Q.new_full(c.shape, 1.0 / n) if start is None else start.expand(*batch, n)
    x = given.reshape(-1, n).clamp_min(0)
    x = x / x.sum(-1, keepdim=True)
    check_matrix(Q)
    found = _block_pivots(Q, c, x, tol)
    rest = (~found.converged).nonzero().squeeze(-1)
    if rest.numel():
        more = _active_set(Q[rest], c[rest], _restart(Q[rest], c[rest], found, rest), tol, steps)
        for old, new in zip(vars(found).values(), vars(more).values(), strict=True):
            old[rest] = new
    return replace(
        found,
        x=found.x.reshape(*batch, n),
        gradient=found.gradient.reshape(*batch, n),
        gap=found.gap.reshape(batch),
        converged=found.converged.reshape(batch),
    )


def _solve_one(
    Q: Tensor, c: Tensor | None, start: Tensor | None, tol: float, steps: int
) -> SimplexQPSolution:
    batch, n = Q.shape[:-2], Q.shape[-1]
    linear = None if c is None else c.reshape(n).numpy()
    near = None if start is None else start.reshape(n).numpy()
    x, gradient, gap, good = solve_small(Q.reshape(n, n).numpy(), linear, near, tol, steps)
    return SimplexQPSolution(
        torch.from_numpy(x).to(Q.dtype).reshape(*batch, n),
        torch.from_numpy(gradient).to(Q.dtype).reshape(*batch, n),
        torch.full(batch, gap, dtype=Q.dtype),
        torch.full(batch, good),
    )


def check_matrix(Q: Tensor, name: str = "Q") -> None:
    """Check that Q `(batch, n, n)` is finite and symmetric, by two products with a fixed vector.

    Qr = Qᵀr for one r without pattern: two passes over the memory where comparing takes five.
    """
    n = Q.shape[-1]
    probe = torch.arange(1, n + 1, dtype=Q.dtype, device=Q.device).mul(2.399963).sin().add(1.5)
    right, left = _product(Q, probe.expand(Q.shape[:-1])), (probe @ Q)
    size = probe.sum() * Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1, keepdim=True)
    slack = 1e3 * torch.finfo(Q.dtype).eps * size
    if not bool(((right - left).abs() <= slack).all()):
        checks.finite(name, Q)
        worst = (Q - Q.mT).abs()
        place = int(worst.argmax())
        b, i, j = place // n**2, place // n % n, place % n
        raise ValueError(
            f"{name} must be symmetric; entries ({b}, {i}, {j}) and ({b}, {j}, {i}) are "
            f"{float(Q[b, i, j]):.6g} and {float(Q[b, j, i]):.6g}. Pass ({name} + {name}.mT) / 2."
        )


def _block_pivots(Q: Tensor, c: Tensor, x: Tensor, tol: float) -> SimplexQPSolution:
    """Primal-dual active sets: free = {x > 0} or {multiplier < 0}, all at once."""
    answer = _evaluate(Q, c, x, tol)
    todo = (~answer.converged).nonzero().squeeze(-1)
    free = x > 0
    g = answer.gradient
    fewest = torch.full_like(todo, x.shape[-1] + 1)
    patience = torch.full_like(fewest, 3)
    if todo.numel() < x.shape[0]:
        Q, c, x, g, free = (v[todo] for v in (Q, c, x, g, free))
    for _ in range(_BLOCK_STEPS):
        if todo.numel() == 0:
            break
        face = _factor(Q, c, free)
        direction, level = face.solve(-g)
        target = x + direction
        x = target.clamp_min(0)
        x = x / x.sum(-1, keepdim=True)
        gradients = torch.stack((target, x), -1)
        gradients = torch.baddbmm(c.unsqueeze(-1), Q, gradients)
        multiplier = gradients[..., 0] - level.unsqueeze(-1)
        g = gradients[..., 1]
        slack = _rounding(Q, c)
        wrong = torch.where(free, target < 0, multiplier < -slack.unsqueeze(-1))
        count = wrong.sum(-1)
        now = _certify(Q, c, x, g, tol)
        again = ~now.converged & (count == 0)
        if bool(again.any()):  # the right face: what is left is rounding, or the ridge
            refined = (x + face.solve(-g)[0]).clamp_min(0)
            refined = refined / refined.sum(-1, keepdim=True)
            x = torch.where(again.unsqueeze(-1), refined, x)
            now = _evaluate(Q, c, x, tol)
            g = now.gradient
        _keep_better(answer, now, todo)
        free, fewest, patience = _exchange(free, wrong, count, fewest, patience)
        left = (~now.converged).nonzero().squeeze(-1)
        if left.numel() < 0.8 * todo.numel():
            todo, fewest, patience = todo[left], fewest[left], patience[left]
            Q, c, x, g, free = (v[left] for v in (Q, c, x, g, free))
    return answer


def _exchange(
    free: Tensor, wrong: Tensor, count: Tensor, fewest: Tensor, patience: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Exchange all wrong coordinates; the last one alone after three exchanges without gain."""
    better = count < fewest
    fewest = torch.minimum(fewest, count)
    patience = torch.where(better, 3, patience - 1)
    n = free.shape[-1]
    last = n - 1 - wrong.flip(-1).to(torch.uint8).argmax(-1, keepdim=True)
    alone = torch.zeros_like(wrong).scatter_(-1, last, True) & wrong
    return free ^ torch.where((patience < 0).unsqueeze(-1), alone, wrong), fewest, patience


def _restart(Q: Tensor, c: Tensor, found: SimplexQPSolution, rest: Tensor) -> Tensor:
    """Where the active-set method starts: the best point if it is good, else the best vertex."""
    best = (0.5 * Q.diagonal(dim1=-2, dim2=-1) + c).argmin(-1, keepdim=True)
    x = found.x[rest]
    vertex = torch.zeros_like(x).scatter_(-1, best, 1.0)
    near = found.gap[rest] < 0.01 * _evaluate(Q, c, vertex, 1.0).gap
    return torch.where(near.unsqueeze(-1), x, vertex)


def _active_set(Q: Tensor, c: Tensor, x: Tensor, tol: float, steps: int) -> SimplexQPSolution:
    """Monotone: Newton's step on the face as far as the simplex goes, one coordinate at a time."""
    answer = _evaluate(Q, c, x, tol)
    now, free = answer, x > 0
    todo = torch.arange(x.shape[0], device=x.device)
    for _ in range(steps):
        left = (~now.converged).nonzero().squeeze(-1)
        if left.numel() == 0:
            break
        if left.numel() < todo.numel():
            todo = todo[left]
            Q, c, x, free = (v[left] for v in (Q, c, x, free))
            now = _evaluate(Q, c, x, tol)
        direction = _descent(Q, c, free, now.gradient)
        room = torch.where(direction < 0, -x / direction, torch.inf)
        longest, blocking = room.min(-1, keepdim=True)
        curvature = (direction * _product(Q, direction)).sum(-1, keepdim=True)
        level = (now.gradient * x).sum(-1, keepdim=True)  # Σ direction = 0: nothing but rounding
        slope = ((level - now.gradient) * direction).sum(-1, keepdim=True)
        newton = torch.where(curvature > 0, slope / curvature, torch.inf)
        step = torch.minimum(newton, longest).nan_to_num(0.0, 0.0, 0.0).clamp_min(0)
        blocked = (longest <= newton) & longest.isfinite()
        x = (x + step * direction).clamp_min(0)
        x = torch.where(blocked & torch.zeros_like(free).scatter_(-1, blocking, True), 0.0, x)
        x = x / x.sum(-1, keepdim=True)
        now = _evaluate(Q, c, x, tol)
        _keep_better(answer, now, todo)
        enter = torch.zeros_like(free).scatter_(-1, now.gradient.argmin(-1, keepdim=True), True)
        free = torch.where(blocked, free & (x > 0), (x > 0) | enter)
    return answer


def _descent(Q: Tensor, c: Tensor, free: Tensor, g: Tensor) -> Tensor:
    """Newton's direction on the face; where the face has no curvature, steepest descent and far."""
    face = factor_face(Q, free, torch.zeros_like(Q[:, 0, 0]))
    direction, _ = face.solve(-g)
    weak = (face.pivot <= 1e4 * torch.finfo(Q.dtype).eps * _size(Q, c)).nonzero().squeeze(-1)
    if weak.numel():
        newton, flat = spectral_face_solve(Q[weak], free[weak], -g[weak])
        length = flat.abs().amax(-1, keepdim=True)
        mostly_flat = (length > _rounding(Q, c)[weak].unsqueeze(-1)) & (
            (newton * -g[weak]).sum(-1, keepdim=True) <= (flat * -g[weak]).sum(-1, keepdim=True)
        )
        direction[weak] = torch.where(mostly_flat, flat * (1e3 / length), newton)
    return direction


def _factor(Q: Tensor, c: Tensor, free: Tensor) -> FaceFactor:
    """Factor the faces; a (nearly) singular one gets a ridge, which moves steps, not solutions."""
    eps = torch.finfo(Q.dtype).eps
    size = _size(Q, c).clamp_min(1e3 * torch.finfo(Q.dtype).tiny)
    ridge = torch.zeros_like(size)
    face = factor_face(Q, free, ridge)
    for exponent in (0.65, 0.5, 0.35):
        weak = (face.pivot <= 1e2 * eps * size) & (ridge < eps**exponent * size)
        if not bool(weak.any()):
            break
        ridge = torch.where(weak, eps**exponent * size, ridge)
        face = factor_face(Q, free, ridge)
    if not bool(face.good.all()):
        b = int((~face.good).nonzero()[0])
        raise ValueError(
            f"Q must be positive semidefinite; problem {b} of the batch has negative curvature "
            f"on the coordinates {free[b].nonzero().squeeze(-1).tolist()[:8]}. "
            "Add a multiple of the identity."
        )
    return face


def _evaluate(Q: Tensor, c: Tensor, x: Tensor, tol: float) -> SimplexQPSolution:
    return _certify(Q, c, x, _product(Q, x) + c, tol)


def _certify(Q: Tensor, c: Tensor, x: Tensor, g: Tensor, tol: float) -> SimplexQPSolution:
    level = (x * g).sum(-1)
    gap = (x * (g - g.amin(-1, keepdim=True))).sum(-1)
    return SimplexQPSolution(x, g, gap, gap <= torch.maximum(tol * level.abs(), _rounding(Q, c)))


def _rounding(Q: Tensor, c: Tensor) -> Tensor:
    """What rounding alone may do to an entry of the gradient; |Q_ij| <= max diagonal."""
    return 64 * torch.finfo(Q.dtype).eps * _size(Q, c)


def _size(Q: Tensor, c: Tensor) -> Tensor:
    return Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1) + c.abs().amax(-1)


def _keep_better(answer: SimplexQPSolution, now: SimplexQPSolution, places: Tensor) -> None:
    better = (now.gap < answer.gap[places]).nonzero().squeeze(-1)
    for old, new in zip(vars(answer).values(), vars(now).values(), strict=True):
        old[places[better]] = new[better]


def _product(Q: Tensor, x: Tensor) -> Tensor:
    return (Q @ x.unsqueeze(-1)).squeeze(-1)


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
