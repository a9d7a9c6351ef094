"""The exact weights on a hull of vertices: finite Newton in the coordinates of the kernel.

    P(u) = ½ uᵀGu + ½ Σ Cᵢ max(0, 1 − hᵢ)²,   h = Gu,   G = yyᵀ∘(k + 1)

u are the coefficients of w = Σ uᵢyᵢφᵢ, of any sign on the way. Where the set S of points inside the
margin stays the same, the minimum is one solve on S, and a line search makes P fall until it does:

    (G_SS + diag(1/C)) u_S = 1,   u = 0 elsewhere

At the end u = Cξ >= 0 is the dual optimum. One solve costs |S|³/3, whatever the conditioning, where
pairwise steps may need very many.

Reference: Chapelle (2007), "Training a support vector machine in the primal".
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fwnet.estimators.kernels import Array


def exact_weights(kernel: Array, y: Array, box: Array, u: Array, max_steps: int = 40) -> Array:
    """Return the optimal u (m,) for a kernel matrix whose first m rows and columns count.

    Raises numpy.linalg.LinAlgError where a system is not positive definite in double precision.
    """
    m = len(y)
    inside = np.flatnonzero(u)
    h = _margins(kernel, y, inside, u[inside])
    for _ in range(max_steps):
        inside = np.flatnonzero(h < 1.0)
        block = kernel[inside[:, None], inside].astype(np.float64)
        block += 1.0
        block *= y[inside][:, None] * y[inside]
        block.flat[:: len(inside) + 1] += 1.0 / box[inside]
        factor = cho_factor(block, lower=True, overwrite_a=True, check_finite=False)
        target = np.zeros(m)
        target[inside] = cho_solve(factor, np.ones(len(inside)), check_finite=False)
        ahead = _margins(kernel, y, inside, target[inside])
        if np.array_equal(np.flatnonzero(ahead < 1.0), inside):
            return target  # the same quadratic at both ends: its minimum is the minimum
        norms = (float(u @ h), float(u @ ahead), float(target @ ahead))
        t = line_search(norms, 1.0 - h, ahead - h, box)
        u, h = u + t * (target - u), h + t * (ahead - h)
    return u


def line_search(norms: tuple[float, float, float], slack: Array, move: Array, box: Array) -> float:
    """Minimise ½|w + t(v − w)|² + ½ Σ Cᵢ max(0, slackᵢ − t moveᵢ)² over t > 0.

    `norms` are |w|², ⟨w, v⟩, |v|². The slope is increasing and piecewise linear, so Newton's
    method on it, kept in a bracket, ends after a few pieces.
    """
    linear, square = norms[1] - norms[0], norms[0] - 2.0 * norms[1] + norms[2]
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(50):
        rest = slack - t * move
        weighted = box * move * (rest > 0)
        slope = linear + t * square - float(weighted @ rest)
        curve = square + float(weighted @ move)
        if curve <= 0 or abs(slope) <= 1e-13 * (abs(linear) + curve):
            break
        low, high = (t, high) if slope < 0 else (low, t)
        step = t - slope / curve
        if not low < step < high:
            step = 2.0 * t if np.isinf(high) else 0.5 * (low + high)
        if abs(step - t) <= 1e-13 * t:
            break
        t = step
    return t


def _margins(kernel: Array, y: Array, index: Array, u: Array) -> Array:
    weights = u * y[index]
    return np.asarray(y * (kernel[: len(y), : len(y)][:, index] @ weights + weights.sum()))
