"""Frank-Wolfe with an exact line search on the simplex, as one would write it by hand.

minimise 1/2 |Ax - b|^2,   z = Ax,   d = A e_i - z,   step_size = clip(-<d, z - b> / |d|^2)
"""

from typing import Any

import numpy as np

Array = np.ndarray


def recomputing(a: Any, b: Any, x0: Any, steps: int) -> Any:
    """Two passes over A per iteration: Ax, and the gradient A'(Ax - b); of arrays or tensors."""
    x = 1.0 * x0
    for _ in range(steps):
        image = a @ x
        residual = image - b
        best = int((residual @ a).argmin())
        direction = a[:, best] - image
        step_size = float(-(direction @ residual) / (direction @ direction))
        step_size = min(max(step_size, 0.0), 1.0)
        x *= 1 - step_size
        x[best] += step_size
    return x


def caching(a: Array, b: Array, x0: Array, steps: int) -> Array:
    """One pass over A per iteration: the image moves with x."""
    x, image = x0.copy(), a @ x0
    for _ in range(steps):
        residual = image - b
        best = int((residual @ a).argmin())
        direction = a[:, best] - image
        step_size = min(max(-(direction @ residual) / (direction @ direction), 0.0), 1.0)
        x *= 1 - step_size
        x[best] += step_size
        image += step_size * direction
    return x


def pairwise(a: np.ndarray, b: np.ndarray, radius: float, signed: bool, tol: float) -> np.ndarray:
    """Pairwise steps with cached Ax and an exact line search to a gap; the weights of the vertices.

    The vertices are radius e_i, and -radius e_i where `signed`; their images are kept as rows.
    """
    images = radius * np.ascontiguousarray(np.concatenate([a.T, -a.T]) if signed else a.T)
    weights = np.zeros(len(images))
    weights[(images @ -b).argmin()] = 1.0
    z = weights @ images
    while True:
        residual = z - b
        costs = radius * (residual @ a)
        costs = np.concatenate([costs, -costs]) if signed else costs
        best = costs.argmin()
        if residual @ z - costs[best] <= tol:
            return weights
        worst = np.where(weights > 0, costs, -np.inf).argmax()
        move = images[best] - images[worst]
        step = min((costs[worst] - costs[best]) / max(move @ move, 1e-300), weights[worst])
        z += step * move
        weights[best] += step
        weights[worst] -= step
