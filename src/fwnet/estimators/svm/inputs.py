"""Checks of the SVM estimators' arguments: errors name the argument, rule, value and remedy."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite

from fwnet.estimators.svm.kernels import Array, KernelSpec, cross_kernel
from fwnet.numerics import checks
from fwnet.trace import Clock

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
_LARGEST = 1e150  # the square of a larger number may not be one
_TESTED, _FEW = 1500, 50  # points on which a kernel is tested for negative eigenvalues, at least


def step_limit(max_iter: Any) -> int:
    """Return how many steps `max_iter` allows: any number of them for -1."""
    whole = isinstance(max_iter, numbers.Real) and not isinstance(max_iter, bool)
    if not whole or not (max_iter == -1 or (max_iter >= 1 and float(max_iter).is_integer())):
        raise ValueError(
            f"max_iter must be a whole number of at least 1, or -1 for no limit; got {max_iter!r}."
        )
    return 2**62 if max_iter == -1 else int(max_iter)


def check_numbers(name: str, X: Any, estimator: Any, products: bool = True) -> None:
    """Check that the numbers and, if asked, their products stay within double precision."""
    entries = (X.data if sparse.issparse(X) else X).ravel()
    with np.errstate(all="ignore"):
        if np.vdot(entries, entries) <= _LARGEST**2:  # not NaN, not Inf: one pass says it all
            return
    assert_all_finite(X, estimator_name=type(estimator).__name__, input_name=name)
    largest = max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
    if products and largest > _LARGEST:
        raise ValueError(
            f"{name} must hold numbers of at most {_LARGEST:g} in size, whose products are finite; "
            f"got {largest:.3g}. Scale {name}, e.g. with StandardScaler."
        )


def kernel_spec(
    kernel: Any, gamma: Any, degree: Any, coef0: Any, X: Any, weight: Array
) -> KernelSpec:
    """Return the kernel with its numbers; gamma="scale" is 1/(d·Var X), weighted as the points."""
    if not callable(kernel):
        checks.one_of("kernel", kernel, KERNELS)
    number = _gamma(kernel, gamma, X, weight)
    power = checks.non_negative("degree", degree)
    if kernel == "poly" and power != int(power):
        raise ValueError(f"degree must be a whole number; got {degree!r}.")
    if not isinstance(coef0, numbers.Real) or not math.isfinite(coef0):
        raise ValueError(f"coef0 must be a finite number; got {coef0!r}.")
    return KernelSpec(kernel, number, power, float(coef0))


def _gamma(kernel: Any, gamma: Any, X: Any, weight: Array) -> float:
    """The number that gamma stands for; 1 where it is a rule and the kernel has no use for it."""
    if not isinstance(gamma, str):
        return checks.positive("gamma", gamma)
    if gamma not in ("scale", "auto"):
        raise ValueError(f"gamma must be 'scale', 'auto' or a number above 0; got {gamma!r}.")
    if callable(kernel) or kernel not in ("rbf", "poly", "sigmoid"):
        return 1.0
    variance = _variance(X, weight) if gamma == "scale" else 1.0
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _variance(X: Any, weight: Array) -> float:
    if not sparse.issparse(X) and (weight == weight[0]).all():
        mean, square = (
            float(X.sum()) / X.size,
            float(np.vdot(X, X)) / X.size,
        )  # one pass each, no copy
        variance = square - mean**2
        return variance if variance > 1e-6 * square else float(X.var())
    share = weight / weight.sum() / X.shape[1]
    mean = float(np.sum(share @ X))
    if not sparse.issparse(X):
        return float(np.sum(share @ np.square(X - mean)))
    return max(float(np.sum(share @ X.multiply(X))) - mean**2, 0.0)


def check_square(K: Array, name: str = "X") -> None:
    """Check that a kernel matrix is square and symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix X = k(points, points); got {K.shape}."
        )
    scale = float(np.abs(K).max(initial=0.0))
    for lo in range(0, len(K), 512):
        part = np.abs(K[lo : lo + 512, lo:] - K[lo:, lo : lo + 512].T)
        if part.size and part.max() > 1e-6 * scale:
            i, j = np.unravel_index(int(part.argmax()), part.shape)
            raise ValueError(
                f"The kernel matrix {name} must be symmetric; "
                f"{name}[{i + lo}, {j + lo}] = {K[i + lo, j + lo]:.6g} but "
                f"{name}[{j + lo}, {i + lo}] = {K[j + lo, i + lo]:.6g}. "
                f"Use ({name} + {name}.T) / 2 if they should agree."
            )


def check_kernel(X: Any, spec: KernelSpec, box: Array, clock: Clock, bias: float = 1.0) -> None:
    """Check that k + bias has no negative eigenvalue on the points, where it might have one.

    Without that there is no |w|², and a gap proves nothing. All points are tested if they are
    few, an even sample of them else, one that takes a tenth of the time left at most.
    """
    if spec.name in ("linear", "rbf") or (spec.name == "poly" and spec.coef0 >= 0):
        return
    some = _tested_points(X, spec, clock)
    precomputed = spec.name == "precomputed"
    K = X[np.ix_(some, some)] if precomputed else cross_kernel(X[some], X[some], spec)
    if callable(spec.name):
        check_square(K, "kernel(X, X)")
    ratio = _most_negative(K + bias)
    if ratio == 0.0:
        return
    name = spec.name if isinstance(spec.name, str) else "callable"
    text = (
        f"kernel={name!r} is not positive semi-definite on these points: the smallest eigenvalue "
        f"of {'k + 1' if bias else 'k'} is {ratio:.1e} of the largest"
    )
    try:
        np.linalg.cholesky(K + bias + np.diag(1.0 / box[some]))
        convex = name in ("sigmoid", "poly")
    except np.linalg.LinAlgError:
        convex = False
    if not convex:
        raise ValueError(
            f"{text}, so the SVM has no meaning. Repair the kernel (clip negative eigenvalues), "
            "or choose other kernel parameters or a smaller C."
        )
    warnings.warn(
        f"{text}. The dual is convex at this C and its only solution is returned, but duality_gap_ "
        "then says how far its optimality conditions are met, not a distance to a primal.",
        UserWarning,
        stacklevel=4,
    )


def _tested_points(X: Any, spec: KernelSpec, clock: Clock) -> Array:
    """The rows to test; a callable kernel is timed first if time is limited."""
    n, tested = X.shape[0], _TESTED
    if callable(spec.name) and n > _FEW and np.isfinite(clock.max_seconds):
        trial = Clock()
        cross_kernel(X[:_FEW], X[:_FEW], spec)
        affordable = 0.1 * clock.left / max(trial.seconds, 1e-9)  # of such trials
        tested = int(min(_TESTED, max(_FEW, _FEW * np.sqrt(affordable))))
    return np.arange(n) if n <= tested else np.linspace(0, n - 1, tested).astype(np.int64)


def _most_negative(K: Array) -> float:
    """Return the smallest eigenvalue over the largest, 0 if it is above rounding errors."""
    try:
        np.linalg.cholesky(K + 1e-7 * max(float(np.trace(K)) / len(K), 0.0) * np.eye(len(K)))
        return 0.0
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(K)
        ratio = float(values[0] / max(float(np.abs(values).max()), 1e-300))
        return ratio if ratio < -1e-6 else 0.0
