"""coreset: a few weighted rows that stand for a data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.quadrature.kernel_map import KernelMap
from fwnet.quadrature.kernels import RBF, SmoothKernel, blocked, check_kernel
from fwnet.quadrature.measures import numbers
from fwnet.quadrature.rules import check_norm
from fwnet.quadrature.selection import METHODS, select

_SAMPLE = 1000  # rows that the lengthscale is taken from


@final
@dataclass(frozen=True, eq=False)
class Coreset:
    """Rows of a data set with weights, and how far they are from all of it.

        |1/n Σ f(xᵢ) − Σ wⱼ f(x_{indices[j]})| <= worst_case_error · ‖f‖

    for every f in the kernel's Hilbert space; with classes, for each sum over one of the classes.

    Attributes:
        indices: `(k,)` rows.
        weights: `(k,)`, positive with sum 1; times n, they are sample weights.
        worst_case_error: an upper bound that includes the rounding of its computation.
        kernel: k.

    Example:
        >>> import numpy as np
        >>> from fwnet.quadrature import Coreset, coreset
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> chosen: Coreset = coreset(X, 20)
        >>> len(chosen.indices) <= 20, round(float(chosen.weights.sum()), 6)
        (True, 1.0)
    """

    indices: np.ndarray
    weights: np.ndarray
    worst_case_error: float
    kernel: SmoothKernel

    def __repr__(self) -> str:
        return f"Coreset({len(self.indices)} rows, worst_case_error={self.worst_case_error:.3g})"


def coreset(
    X: Any,
    k: int,
    *,
    y: Any = None,
    kernel: SmoothKernel | None = None,
    method: str = "pairwise",
) -> Coreset:
    """Choose and weigh k rows whose kernel mean is that of all rows, by Frank-Wolfe.

        min over w in the simplex of ½ ‖1/n Σ k(xᵢ, ·) − Σ wⱼ k(xⱼ, ·)‖²

    The kernel matrix is never stored: the mean takes n² kernel values, made in blocks; a step one
    column of n. Float32 rows are multiplied in float32.

    Arguments:
        X: `(n, d)`, an array or a tensor.
        k: how many rows, at most.
        y: classes `(n,)`; then every class is represented by rows of its own.
        kernel: by default `RBF` with the median distance between rows as its lengthscale.
        method: as of `quadrature`, but not "sequential".

    Example:
        >>> import numpy as np
        >>> from fwnet.quadrature import coreset
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> found = coreset(X, 20)
        >>> len(found.indices) <= 20, round(float(found.weights.sum()), 6)
        (True, 1.0)
    """
    data = _rows(X)
    if data.ndim != 2 or len(data) == 0:
        raise ValueError(f"coreset(X) must be (n, d) with n > 0; got shape {tuple(data.shape)}.")
    checks.finite("coreset(X)", data)
    k = checks.at_least("k", k, 1)
    if k > len(data):
        raise ValueError(f"k must be at most the number of rows, {len(data)}; got {k}.")
    checks.one_of("method", method, METHODS[:-1])
    kernel = RBF(_median_distance(data)) if kernel is None else check_kernel(kernel)
    groups = _groups(y, len(data), k)
    z = _means(kernel, data, groups)
    index, weights = select(KernelMap(kernel, data, groups), z, method, k - 1)
    error = _error(kernel, data, groups, z, index, weights.double())
    order = index.argsort()
    return Coreset(index[order].numpy(), weights[order].double().numpy(), error, kernel)


def _rows(X: Any) -> Tensor:
    """X as a tensor of float32 or float64, without a copy if it is one of them in memory."""
    if hasattr(X, "toarray"):
        raise TypeError("coreset(X) must be dense; got a sparse matrix. Use X.toarray().")
    if not isinstance(X, Tensor):
        X = np.asarray(X)
        if X.dtype not in (np.float32, np.float64):
            return numbers("coreset(X)", X)
        X = torch.from_numpy(X if X.flags.writeable else X.copy())  # torch warns of read-only rows
    X = X.detach().cpu()
    return X if X.dtype in (torch.float32, torch.float64) else X.double()


def _groups(y: Any, n: int, k: int) -> Tensor | None:
    if y is None:
        return None
    names, classes = checks.classes("y", y)
    if classes.size != n:
        raise ValueError(f"y must have one class for each of the {n} rows; got {classes.size}.")
    if k < len(names):
        raise ValueError(
            f"k must be at least the number of classes, {len(names)}, so that each has a row; "
            f"got {k}."
        )
    return torch.from_numpy(classes)


def _means(kernel: SmoothKernel, X: Tensor, groups: Tensor | None) -> Tensor:
    """1/n Σⱼ k(xᵢ, xⱼ) over all rows j, of one's own group if there are groups: `(n,)`."""
    if groups is None:
        return blocked(lambda some: kernel(some, X).mean(-1), X, len(X))
    z = torch.empty(len(X), dtype=X.dtype)
    for g in groups.unique():
        own = X[groups == g]
        z[groups == g] = blocked(lambda some, own=own: kernel(some, own).sum(-1), own, len(own))
    return z / len(X)


def _error(
    kernel: SmoothKernel, X: Tensor, groups: Tensor | None, z: Tensor, index: Tensor, w: Tensor
) -> float:
    """√(∬k − 2zᵀw + wᵀKw), and all that rounding in X's precision may have taken away from it."""
    points = X[index].double()
    K = kernel(points, points)
    if groups is not None:
        K = K * (groups[index][:, None] == groups[index])
    double = float(z.double().mean())
    value = double - 2.0 * float(z[index].double() @ w) + float(w @ (K @ w))
    centred = (X - X.mean(0)) / kernel.scales(X.shape[1]).to(X)
    reach = float(centred.square().sum(-1).max())
    eps = torch.finfo(X.dtype).eps
    # A value of k is off by a few ε of the squares in its exponent; a mean of n of them by no more,
    # and by the rounding of a sum in pairs.
    slack = eps * (8.0 * reach + math.sqrt(X.shape[1]) + 32.0) * 4.0 * max(double, 0.0)
    check_norm(value, slack)
    return math.sqrt(max(0.0, value) + slack)


def _median_distance(X: Tensor) -> float:
    some = X[torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:_SAMPLE]].double()
    distances = torch.pdist(some)
    median = float(distances.median()) if len(distances) else 0.0
    return median if median > 0 else 1.0
