"""Numbers from curves, and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def reached(curve: Any, level: float) -> float:  # (T + 1,)
    """The first t with curve[t] ≤ level; infinity if there is none.

    Example:
        >>> reached([3.0, 2.0, 1.0, 2.0], 1.5)
        2.0
    """
    below = np.flatnonzero(np.asarray(curve, dtype=float) <= level)
    return float(below[0]) if below.size else float("inf")


def smoothed(curve: Any, width: int) -> np.ndarray:  # (T,) -> (T,)
    """Mean over the last `width` entries, fewer at the start: it never looks ahead."""
    values = np.asarray(curve, dtype=float)
    totals = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return (totals[ends] - totals[starts]) / (ends - starts)


def effective_rank(matrix: Tensor) -> float:
    """exp of the entropy of the singular values, as shares of their sum.

        exp(−Σ pᵢ log pᵢ),   pᵢ = σᵢ / Σσ

    Between 1 (rank one) and min(rows, columns) (all alike).

    Reference: Roy and Vetterli, The effective rank (2007).
    """
    sigma = torch.linalg.svdvals(matrix.detach().double())
    shares = sigma / sigma.sum().clamp_min(torch.finfo(sigma.dtype).tiny)
    return float(torch.special.entr(shares).sum().exp())


def times(slow: Any, fast: Any) -> float:
    """How many times fewer iterations the fast method needs to a level: the median over runs.

    0 for a run in which the fast method never reaches the level, infinity if only the slow one
    never does.
    """
    slow, fast = _counts(slow), _counts(fast)
    came = np.isfinite(fast)
    ratios = np.zeros(slow.shape)
    ratios[came] = slow[came] / np.maximum(fast[came], 1.0)
    return float(np.median(ratios))


def _counts(values: Any) -> np.ndarray:
    """Numbers of iterations: infinite, not NaN or None, where a level was never reached."""
    counts = np.asarray(values, dtype=float)  # None becomes NaN
    return np.where(np.isnan(counts), np.inf, counts)


def median_text(values: Any) -> str:
    """The median count, "never" where it is infinite or missing.

    Example:
        >>> median_text([20, 40, None])
        '40'
    """
    middle = float(np.median(_counts(values)))
    return f"{middle:.0f}" if np.isfinite(middle) else "never"


def median_of_known(values: Any) -> float:
    """The median of what is not NaN; NaN if nothing is left."""
    numbers = np.asarray(values, dtype=float)
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if known.size else float("nan")


def range_text(values: Any, what: str = "seeds") -> str:
    """Smallest to largest, with how many there are.

    Example:
        >>> range_text([0.5, 0.75])
        '0.5 to 0.75 (2 seeds)'
        >>> range_text([0.5])
        '0.5 (1 seed)'
    """
    numbers = _counts(values).ravel()
    texts = [f"{v:.3g}" if np.isfinite(v) else "never" for v in (numbers.min(), numbers.max())]
    if len(numbers) == 1:
        return f"{texts[0]} (1 {what.removesuffix('s')})"
    return f"{texts[0]} to {texts[1]} ({len(numbers)} {what})"


def grid_text(name: str, values: Sequence[float]) -> str:
    """A tuning grid in words: "lr in 0.01, 0.1"."""
    return f"{name} in {', '.join(f'{v:g}' for v in values)}"
