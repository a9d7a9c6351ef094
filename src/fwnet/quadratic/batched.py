"""Many quadratic programs over the simplex at once: block pivots in torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np
import torch
from torch import Tensor

from fwnet.quadratic import scalar
from fwnet.quadratic.faces import FaceFactor, as_doubles, compiled_for, factor_face
from fwnet.quadratic.matrices import check_convex, check_small

SMALL = 32  # one problem up to this size is left to NumPy, whose calls cost less than torch's
_FEW = 4
_BLOCK_STEPS = 30  # block pivots take 3 to 10 faces, or cycle
_PATIENCE = 3  # exchanges of everything that may fail to reduce the number of wrong signs


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

    def put(self, places: Tensor | int, other: SimplexQPSolution) -> None:
        """Overwrite the answers at `places` by those of another batch."""
        for field in fields(self):
            getattr(self, field.name)[places] = getattr(other, field.name)

    def take(self, rows: Tensor) -> SimplexQPSolution:
        """The solutions of some problems of the batch."""
        return SimplexQPSolution(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def at(cls, x: Tensor, g: Tensor, tol: float, floor: Tensor) -> SimplexQPSolution:
        """Points of the simplex with their gradients, and what these certify.

        Arguments:
            tol: gap relative to |⟨g, x⟩|.
            floor: what rounding may do to a gap, `(*batch,)`.
        """
        gap = (x * (g - g.amin(-1, keepdim=True))).sum(-1)
        level = (x * g).sum(-1).abs()
        return cls(x, g, gap, gap <= torch.maximum(level * tol, floor))


@final
@dataclass(frozen=True, eq=False)
class QPBatch:
    """min ½ xᵀQx + cᵀx over the simplex, `(batch, n, n)` and `(batch, n)`.

    `size` bounds |Q_ij| + |c_i|: for a semidefinite Q no entry exceeds the largest of the diagonal.
    `trusted`: whether Q is semidefinite is not checked.
    """

    Q: Tensor
    c: Tensor
    size: Tensor
    tol: float
    trusted: bool

    @classmethod
    def of(cls, Q: Tensor, c: Tensor, tol: float, trusted: bool) -> QPBatch:
        size = Q.diagonal(dim1=-2, dim2=-1).abs().amax(-1, keepdim=True)
        return cls(Q, c, size + c.abs().amax(-1, keepdim=True), tol, trusted)

    @property
    def floor(self) -> Tensor:
        """What rounding may do to an entry of the gradient, `(batch, 1)`."""
        return self.size * (64 * torch.finfo(self.Q.dtype).eps)

    def take(self, rows: Tensor) -> QPBatch:
        return QPBatch(self.Q[rows], self.c[rows], self.size[rows], self.tol, self.trusted)

    def times(self, x: Tensor) -> Tensor:
        return torch.bmm(self.Q, x.unsqueeze(-1)).squeeze(-1)

    def evaluate(self, x: Tensor) -> SimplexQPSolution:
        return self.certify(x, self.times(x) + self.c)

    def certify(self, x: Tensor, g: Tensor) -> SimplexQPSolution:
        return SimplexQPSolution.at(x, g, self.tol, self.floor.squeeze(-1))

    def factor(self, free: Tensor) -> FaceFactor:
        """Factor the faces; a (nearly) singular one gets a ridge: it moves steps, not solutions."""
        eps = torch.finfo(self.Q.dtype).eps
        face = factor_face(self.Q, free)
        size = self.size.squeeze(-1).clamp_min(1e3 * torch.finfo(self.Q.dtype).tiny)
        weak = face.pivot <= size * (1e2 * eps)
        if not bool(weak.any()):
            return face
        ridge = torch.zeros_like(size)
        ridges = [eps**exponent * size for exponent in (0.65, 0.5, 0.35)]
        if self.trusted:  # all of Q may be rounding: let the diagonal dominate
            ridges.append(self.Q.abs().sum(-1).amax(-1) + size)
        for more in ridges:
            ridge = torch.where(weak, more, ridge)
            face = factor_face(self.Q, free, ridge)
            weak = face.pivot <= size * (1e2 * eps)
            if not bool(weak.any()):
                break
        if not bool((face.pivot > 0).all()):
            b = int((face.pivot <= 0).nonzero()[0])
            raise ValueError(
                f"Q must be positive semidefinite; some problem curves "
                f"downwards on coordinates {free[b].nonzero().squeeze(-1).tolist()[:8]}. "
                "Add a multiple of the identity."
            )
        return face


def solve_each(
    batch: QPBatch, start: Tensor, steps: int, *, pivots: bool = True
) -> SimplexQPSolution:
    """Solve the problems one by one, in compiled code if `compiled_for` has some for the batch.

    Arguments:
        batch: the problems.
        start: points of the simplex, `(batch, n)`.
        steps: of the active set, at most.
        pivots: whether to begin with block pivots.
    """
    Q, c, x = as_doubles(batch.Q), as_doubles(batch.c), as_doubles(start).copy()
    g, gap, good = np.empty_like(c), np.empty(len(c)), np.zeros(len(c), bool)
    eps = torch.finfo(batch.Q.dtype).eps
    if pivots:
        (compiled_for(batch.Q) or scalar).pivot_all(Q, c, batch.tol, eps, x, g, gap, good)
    hard = np.flatnonzero(~good)
    if len(hard):
        some = batch.take(torch.from_numpy(hard).to(batch.Q.device))
        if not batch.trusted:
            check_convex(some.Q)
        parts = x[hard], g[hard], gap[hard], good[hard]
        code = compiled_for(some.Q) or scalar
        code.active_set_all(Q[hard], c[hard], batch.tol, eps, steps, *parts)
        x[hard], g[hard], gap[hard], good[hard] = parts
    return _as_tensors(batch.Q, x, g, gap, good)


def solve_one(
    Q: Tensor, c: Tensor | None, start: Tensor | None, tol: float, steps: int, trusted: bool
) -> SimplexQPSolution:
    """One small problem `(1, n, n)` on the CPU, without the overhead of tensors."""
    n, eps = Q.shape[-1], float(np.finfo(np.float64).eps)
    matrix = as_doubles(Q)
    check_small(Q, matrix[0], trusted)
    linear = np.zeros((1, n)) if c is None else as_doubles(c).reshape(1, n)
    x = np.full((1, n), 1.0 / n)
    if start is not None:
        x = np.maximum(as_doubles(start).reshape(1, n), 0.0)
        x /= x.sum()
    g, gap, good = np.empty((1, n)), np.empty(1), np.zeros(1, bool)
    tol = tol if Q.dtype == torch.float64 else min(tol, 1e-9)
    scalar.pivot_all(matrix, linear, tol, eps, x, g, gap, good)
    if not good[0]:
        scalar.active_set_all(matrix, linear, tol, eps, steps, x, g, gap, good)
    return _as_tensors(Q, x, g, gap, good)


def _as_tensors(like: Tensor, *parts: np.ndarray) -> SimplexQPSolution:
    x, gradient, gap = (torch.from_numpy(part).to(like) for part in parts[:3])
    return SimplexQPSolution(x, gradient, gap, torch.from_numpy(parts[3]).to(like.device))


def block_pivots(batch: QPBatch, x: Tensor) -> SimplexQPSolution:
    """Primal-dual active sets: free = {x > 0} or {multiplier < 0}, all at once.

    Reference: Júdice and Pires (1994).
    """
    answer = batch.evaluate(x)
    todo = (~answer.converged).nonzero().squeeze(-1)
    g, free = answer.gradient, x > 0
    if todo.numel() < x.shape[0]:
        done = answer.converged.nonzero().squeeze(-1)
        batch.take(done).factor(free[done])  # of an indefinite Q it would be a saddle point
        batch, x, g, free = batch.take(todo), x[todo], g[todo], free[todo]
    whole = todo.numel() == answer.gap.numel()
    fewest = torch.full_like(todo, x.shape[-1] + 1)
    patience = torch.full_like(fewest, _PATIENCE)
    for t in range(_BLOCK_STEPS):
        if todo.numel() == 0:
            break
        face = batch.factor(free)
        middle = (x * g).sum(-1, keepdim=True)
        direction, level = face.solve(middle - g)
        target = x + direction
        x = _on_simplex(target)
        both = torch.baddbmm(batch.c.unsqueeze(-1), batch.Q, torch.stack((target, x), -1))
        g = both[..., 1]
        wrong = torch.where(
            free, target < 0, both[..., 0] < level.unsqueeze(-1) + middle - batch.floor
        )
        now = batch.certify(x, g)
        left = (~now.converged).nonzero().squeeze(-1)
        if left.numel() == 0 and whole:
            return now
        if left.numel() and bool((~wrong.any(-1) & ~now.converged).any()):
            now = _refined(batch, face, now, ~wrong.any(-1, keepdim=True))
            x, g = now.x, now.gradient
            left = (~now.converged).nonzero().squeeze(-1)
        if t < _PATIENCE:
            free = free ^ wrong
        else:
            free, fewest, patience = _exchange(free, wrong, fewest, patience)
        few = left.numel() <= _FEW and _is_scalar_work(x)
        if few or left.numel() <= 0.8 * todo.numel() or t == _BLOCK_STEPS - 1:
            answer.put(todo, now)
            todo, fewest, patience = todo[left], fewest[left], patience[left]
            batch, x, g, free = batch.take(left), x[left], g[left], free[left]
            whole = False
        if few:  # a handful of stragglers: less overhead one by one
            answer.put(todo, solve_each(batch, x, 100 + 10 * x.shape[-1]))
            break
    return answer


def _is_scalar_work(x: Tensor) -> bool:
    return x.shape[-1] <= SMALL and x.device.type == "cpu"


def _on_simplex(x: Tensor) -> Tensor:
    x = x.clamp_min(0)
    return x / x.sum(-1, keepdim=True)


def _refined(
    batch: QPBatch, face: FaceFactor, now: SimplexQPSolution, right: Tensor
) -> SimplexQPSolution:
    """One more Newton step where the face is right: what is left is rounding, or the ridge."""
    middle = (now.x * now.gradient).sum(-1, keepdim=True)
    refined = _on_simplex(now.x + face.solve(middle - now.gradient)[0])
    return batch.evaluate(torch.where(right, refined, now.x))


def _exchange(
    free: Tensor, wrong: Tensor, fewest: Tensor, patience: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Exchange all wrong coordinates; only the last one after three exchanges without gain."""
    count = wrong.sum(-1)
    patience = torch.where(count < fewest, _PATIENCE, patience - 1)
    fewest = torch.minimum(fewest, count)
    if bool((patience < 0).any()):
        last = free.shape[-1] - 1 - wrong.flip(-1).to(torch.uint8).argmax(-1, keepdim=True)
        single = torch.zeros_like(wrong).scatter_(-1, last, True) & wrong
        wrong = torch.where((patience < 0).unsqueeze(-1), single, wrong)
    return free ^ wrong, fewest, patience
