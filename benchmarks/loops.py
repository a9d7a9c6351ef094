"""Frank-Wolfe with an exact line search on the simplex, as one would write it by hand.

minimise 1/2 |Ax - b|^2,   z = Ax,   d = A e_i - z,   step_size = clip(-<d, z - b> / |d|^2)
"""

import numpy as np
import torch

Array = np.ndarray


def recomputing(a: Array, b: Array, x0: Array, steps: int) -> Array:
    """Two passes over A per iteration: Ax, and the gradient A'(Ax - b)."""
    x = x0.copy()
    for _ in range(steps):
        image = a @ x
        residual = image - b
        best = int((residual @ a).argmin())
        direction = a[:, best] - image
        step_size = min(max(-(direction @ residual) / (direction @ direction), 0.0), 1.0)
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


def recomputing_in_torch(
    a: torch.Tensor, b: torch.Tensor, x0: torch.Tensor, steps: int
) -> torch.Tensor:
    """`recomputing` with tensors."""
    x = x0.clone()
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
