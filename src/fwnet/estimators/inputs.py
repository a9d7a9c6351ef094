"""Checks of what all estimators have: switches and sample weights."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwnet.numerics import checks

Array = NDArray[Any]


def check_switches(estimator: Any) -> None:
    """Check those parameters of an estimator that are True or False: a text would count as True."""
    for name in ("fit_intercept", "warm_start", "probability", "progress"):
        if hasattr(estimator, name):
            checks.switch(name, getattr(estimator, name))


def sample_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights (n,), ones by default; they must be finite, at least 0, not all 0."""
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, numbers.Real):
        weight = np.full(n, float(sample_weight))
    else:
        weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim != 1:
        raise ValueError(f"sample_weight must be 1D: one number a point; got {weight.ndim}D.")
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n,)}: one weight for each point."
        )
    if not np.isfinite(weight).all() or weight.min() < 0:
        raise ValueError(
            "sample_weight must be finite and at least 0; "
            f"got a smallest value of {weight.min()}. Drop such points or give them weight 0."
        )
    if weight.max() == 0:
        raise ValueError(
            "Every sample_weight is zero; give the points that should count a weight above 0."
        )
    return weight
