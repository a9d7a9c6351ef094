"""The exact weights on a hull of vertices: finite Newton in the coordinates of the kernel.

    P(u) = ½ uᵀGu + ½ Σ Cᵢeᵢ²,   f = Gu,   G = k + bias,   e = 0 or t − f

u are the coefficients of w = Σ uᵢφᵢ. Where the set S of points with a loss stays the same, the
minimum is one solve on S, and a line search makes P fall until it does:

    (G_SS + diag(1/C)) u_S = t_S,   u = 0 elsewhere

At the end u = Ce is the dual optimum. One solve costs |S|³/3, whatever the conditioning, where
pairwise steps may need very many.

Where C is large, e = t − f can be all rounding on S, and so is the set of its signs. Then active
sets in the dual finish: they see the signs of u, which the same systems give to full precision.

References: Chapelle (2007), "Training a support vector machine in the primal"; Lawson and Hanson
(1974), "Solving least squares problems", chapter 23.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import check_time
from fwnet.estimators.svm.margin_problem import MarginProblem
from fwnet.numerics.line_search import scalar_root
from fwnet.trace import Clock

_STEPS = 40  # of Newton's method, and of the active sets after it
_STEP = 1e-8  # a Newton step that is shorter was stopped by rounding
_PANEL = 256  # columns of a large Cholesky factor between two looks at the clock
_NOISE = 8 * np.finfo(np.float64).eps  # of a score, of the sizes it is summed from


def exact_weights(
    kernel: Array, problem: MarginProblem, bias: float, u: Array, clock: Clock | None = None
) -> Array:
    """Return the optimal u (m,) for a kernel matrix whose first m rows and columns count.

    Raises numpy.linalg.LinAlgError where a system is not positive definite beyond rounding, and
    OutOfTime by the clock.
    """
    clock = clock or Clock()
    m = len(problem.y)
    f = _scores(kernel, bias, np.flatnonzero(u), u)
    for _ in range(_STEPS):
        excess = problem.excess(f)
        inside = np.flatnonzero(excess)
        target = np.zeros(m)
        factor = _factored(kernel, bias, inside, problem.box[inside], clock)
        target[inside] = _solution(factor, (f + excess)[inside])
        ahead = _scores(kernel, bias, inside, target)
        if (np.sign(problem.excess(ahead)) == np.sign(excess)).all():
            if (target * excess >= 0).all():
                return target  # the same quadratic at both ends: its minimum is the minimum
            break  # u = Ce, so these signs of e are rounding
        move, change = target - u, ahead - f
        t = line_search(float(u @ change), float(move @ change), problem, f, change)
        if t < _STEP:
            break
        u, f = u + t * move, f + t * change
    return _dual_active_sets(kernel, problem, bias, u, clock)


def _dual_active_sets(
    kernel: Array, problem: MarginProblem, bias: float, u: Array, clock: Clock
) -> Array:
    """Minimise ½ uᵀ(G + diag(1/C))u − tᵀu by steps to the minimum on a set S of signs.

    A step ends where the first sign would change, and that point leaves S; a point whose excess is
    beyond rounding enters. The dual falls at every step.
    """
    u = problem.feasible(u)
    signs, sizes = np.sign(u), np.sqrt(np.maximum(kernel.diagonal()[: len(u)] + bias, 0.0))
    if not np.isfinite(sizes).all():
        raise np.linalg.LinAlgError("The kernel matrix is not finite.")
    for _ in range(_STEPS):
        inside = np.flatnonzero(signs)
        factor = _factored(kernel, bias, inside, problem.box[inside], clock)
        target = np.zeros(len(u))
        target[inside] = _solution(factor, problem.aims(signs)[inside])
        wrong = inside[target[inside] * signs[inside] <= 0]
        if len(wrong):
            shares = u[wrong] / (u[wrong] - target[wrong])
            share = float(shares.min())
            u = u + share * (target - u)
            signs[wrong[shares == share]] = 0.0
            u[signs == 0] = 0.0
            continue
        u = target
        f = _scores(kernel, bias, inside, u)
        excess = problem.excess(f)
        excess[inside] = 0.0
        noise = _NOISE * (np.abs(problem.y) + sizes * float(sizes @ np.abs(u)))
        excess[np.abs(excess) <= noise] = 0.0
        entered = np.flatnonzero(excess)
        if not len(entered):
            break
        worst = np.argsort(-np.abs(excess[entered]) * np.sqrt(problem.box[entered]))
        entered = entered[worst[: max(1, len(entered) // 2)]]
        signs[entered] = np.sign(excess[entered])
    return u


def _factored(
    kernel: Array, bias: float, inside: Array, box: Array, clock: Clock
) -> tuple[Array, bool]:
    """The Cholesky factor of G_SS + diag(1/C), nudged where only rounding makes it indefinite."""
    for nudge in (0.0, len(inside) * np.finfo(np.float64).eps):
        block = kernel.take(inside, 0).take(inside, 1).astype(np.float64, copy=False)
        block += bias
        more = nudge * block.diagonal().max(initial=0.0) if nudge else 0.0
        block.flat[:: len(inside) + 1] += 1.0 / box + more
        try:
            return cholesky(block, clock)
        except np.linalg.LinAlgError:
            if nudge:
                raise
    raise AssertionError("unreachable: the second try returns or raises")


def cholesky(matrix: Array, clock: Clock) -> tuple[Array, bool]:
    """Factorise a matrix (m, m) in place, for scipy's `cho_solve`; raises OutOfTime by the clock.

    LAPACK would not look at the clock, so a large factor is made in panels of columns:

        L_pp = chol(A_pp − L_p L_pᵀ),   L_rp = (A_rp − L_r L_pᵀ) L_pp⁻ᵀ
    """
    m = len(matrix)
    check_time(clock)
    if m <= 4 * _PANEL:
        factor, failed = dpotrf(
            matrix.T, lower=1, clean=0, overwrite_a=1
        )  # half of cho_factor's time
        if failed:
            raise np.linalg.LinAlgError("The matrix is not positive definite.")
        return factor, True
    for lo in range(0, m, _PANEL):
        check_time(clock)
        hi = min(lo + _PANEL, m)
        matrix[lo:, lo:hi] -= matrix[lo:, :lo] @ matrix[lo:hi, :lo].T
        top = np.linalg.cholesky(matrix[lo:hi, lo:hi])
        matrix[lo:hi, lo:hi] = top
        below = matrix[hi:, lo:hi]
        below[:] = solve_triangular(top, below.T, lower=True, check_finite=False).T
    return matrix.T, False  # Lᵀ, the upper factor: in the order that LAPACK reads without a copy


def _solution(factor: tuple[Array, bool], right: Array) -> Array:
    """Return x (m,) with Ax = right (m,) by the factor of A."""
    return np.asarray(dpotrs(factor[0], right, lower=factor[1])[0]) if len(right) else right


def line_search(
    linear: float, square: float, problem: MarginProblem, scores: Array, move: Array
) -> float:
    """Minimise ½|w + td|² + ½ Σ Cᵢeᵢ(f + t move)² over t > 0, given ⟨w, d⟩ and |d|².

    The slope is increasing and piecewise linear, so Newton's method on it ends after a few pieces.
    """
    weighted = problem.box * move
    curvatures = weighted * move

    def slope_at(t: float) -> tuple[float, float]:
        excess = problem.excess(scores + t * move)
        slope = linear + t * square - float(weighted @ excess)
        return slope, square + float(curvatures @ (excess != 0))

    first = slope_at(0.0)[0]
    noise = 1e-13 * (abs(linear) + abs(linear - first))
    return scalar_root(slope_at, first, np.inf, noise, guess=1.0, evaluations=50)


def _scores(kernel: Array, bias: float, index: Array, u: Array) -> Array:
    weights = u[index]
    rows = kernel.take(index, 0)[:, : len(u)]  # those of a symmetric matrix are its columns
    return np.asarray(weights @ rows + bias * weights.sum())
