"""One tiny quadratic program over the simplex, in NumPy: overhead decides."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_BLOCK_STEPS = 12


def solve_small(
    Q: NDArray, c: NDArray | None, start: NDArray | None, tol: float, steps: int, trusted: bool
) -> tuple[Array, Array, float, bool]:
    """argmin ½ xᵀQx + cᵀx over the unit simplex, with its gradient, gap and whether that will do.

    Block pivots first, then the monotone active-set method, as for batches; always in float64.
    """
    single = Q.dtype == np.float32
    Q = Q.astype(np.float64) if single else Q
    n = Q.shape[0]
    diagonal = Q.diagonal()
    largest = float(diagonal.max())
    lowest = float(diagonal.min())
    if single:
        tol = min(tol, 1e-9)
    slack = 1e-5 if single else 1e-10
    _check(Q, largest, lowest, slack)
    if not trusted:
        _check_convex(Q, largest, slack)
    linear: Array = np.zeros(n) if c is None else c.astype(np.float64)
    problem = _Small(Q, linear, tol, largest + float(np.abs(linear).max()))
    if start is None:
        x = np.full(n, 1.0 / n)
    else:
        x = np.maximum(start.astype(np.float64), 0.0)
        x /= x.sum()
    x, g, gap, good = problem.block_pivots(x)
    if not good:
        if gap > 1e-6 * problem.size:
            x = np.zeros(n)
            x[int((0.5 * diagonal + linear).argmin())] = 1.0
        x, g, gap, good = problem.active_set(x, steps)
    return x, g, gap, good


class _Small:
    def __init__(self, Q: Array, c: Array, tol: float, size: float) -> None:
        self.Q, self.c, self.tol, self.size = Q, c, tol, size
        self.floor = 1.4e-14 * size  # rounding of a gradient entry, as for batches
        self.n = Q.shape[0]

    def block_pivots(self, x: Array) -> tuple[Array, Array, float, bool]:
        g = self.Q.dot(x) + self.c
        gap, good = self.certify(x, g)
        best = (x, g, gap, good)
        free = x > 0
        for _ in range(_BLOCK_STEPS):
            if best[3]:
                break
            F = free.nonzero()[0]
            direction, level = self.newton(F, g)
            target = x.copy()
            target[F] += direction
            x = np.maximum(target, 0.0)
            x /= x.sum()
            g = self.Q.dot(x) + self.c
            inside = target.min() >= 0  # then target is x
            multiplier = (g if inside else self.Q.dot(target) + self.c) - level
            gap, good = self.certify(x, g)
            if gap < best[2]:
                best = (x, g, gap, good)
            free = np.where(free, target > 0, multiplier < -self.floor)
        return best

    def active_set(self, x: Array, steps: int) -> tuple[Array, Array, float, bool]:
        g = self.Q.dot(x) + self.c
        gap, good = self.certify(x, g)
        best = (x, g, gap, good)
        free = x > 0
        for _ in range(steps):
            if best[3]:
                break
            F = free.nonzero()[0]
            direction, _ = self.newton(F, g)
            d = np.zeros(self.n)
            d[F] = direction
            curvature, slope = float(d.dot(self.Q.dot(d))), float(d.dot(x.dot(g) - g))
            full = max(slope, 0.0) / curvature if curvature > 0 else np.inf
            down = (d < 0).nonzero()[0]
            room = -x[down] / d[down]
            blocked = bool(down.size) and float(room.min()) <= full
            step = float(room.min()) if blocked else (full if np.isfinite(full) else 0.0)
            x = np.maximum(x + step * d, 0.0)
            if blocked:
                x[down[int(room.argmin())]] = 0.0
            x /= x.sum()
            g = self.Q.dot(x) + self.c
            gap, good = self.certify(x, g)
            if gap < best[2]:
                best = (x, g, gap, good)
            if blocked:
                free &= x > 0
            else:
                free = x > 0
                free[int(g.argmin())] = True
        return best

    def newton(self, F: NDArray, g: Array) -> tuple[Array, float]:
        """Newton's direction on the face F and its multiplier."""
        m = F.size
        if m == 1:
            return np.zeros(1), float(g[F[0]])
        system = np.ones((m + 1, m + 1))
        system[:m, :m] = self.Q if m == self.n else self.Q[F[:, None], F]
        system[m, m] = 0.0
        right = g[F]
        try:
            inverse = np.linalg.inv(system)
        except np.linalg.LinAlgError:
            return self.spectral_newton(system[:m, :m], right)
        if not np.abs(inverse[:m, :m]).max() * self.size < 1e11:
            return self.spectral_newton(system[:m, :m], right)
        solved = inverse[:, :m].dot(right)
        return -solved[:m], float(solved[m])

    def spectral_newton(self, block: Array, g: Array) -> tuple[Array, float]:
        """The same on a singular face; where it has no curvature, steepest descent and far."""
        centred = block - block.mean(0)
        centred -= centred.mean(1, keepdims=True)
        values, vectors = np.linalg.eigh((centred + centred.T) / 2)
        inside = vectors.T.dot(g.mean() - g)
        curved = values > 1e-12 * self.size
        direction = vectors[:, curved].dot(inside[curved] / values[curved])
        flat = vectors[:, ~curved].dot(inside[~curved])
        flat -= flat.mean()
        length = float(np.abs(flat).max())
        if length > self.floor and float(direction.dot(g)) >= float(flat.dot(g)):
            direction = flat * (1e3 / length)
        return direction, float((g + block.dot(direction)).mean())

    def certify(self, x: Array, g: Array) -> tuple[float, bool]:
        level = float(x.dot(g))
        gap = float(x.dot(g - g.min()))
        return gap, gap <= max(self.tol * abs(level), self.floor)


def _check(Q: Array, largest: float, lowest: float, slack: float) -> None:
    """Finite and symmetric: a sentence for each."""
    if not math.isfinite(float(Q.sum())) and not np.isfinite(Q).all():
        i, j = (int(k) for k in np.argwhere(~np.isfinite(Q))[0])
        raise ValueError(f"Q must be finite; entry ({i}, {j}) is {Q[i, j]}.")
    difference = float(np.abs(Q - Q.T).max())
    if not difference <= slack * max(largest, -lowest, 0.0):
        i, j = (int(k) for k in np.unravel_index(np.abs(Q - Q.T).argmax(), Q.shape))
        raise ValueError(
            f"Q must be symmetric; entries ({i}, {j}) and ({j}, {i}) are "
            f"{Q[i, j]:.6g} and {Q[j, i]:.6g}. Pass (Q + Q.mT) / 2."
        )


def _check_convex(Q: Array, largest: float, slack: float) -> None:
    try:
        lifted = Q.copy()
        lifted.reshape(-1)[:: Q.shape[0] + 1] += max(slack**0.6 * largest, 1e-300)
        np.linalg.cholesky(lifted)
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(Q)[0])
        raise ValueError(
            f"Q must be positive semidefinite; its least eigenvalue is {least:.3g}. "
            "Add a multiple of the identity."
        ) from None
