"""The root of an increasing slope: the exact line search of a convex function.

    γ with φ'(γ) = 0 in [0, high],   φ' increasing

Newton's method on the slope (the secant method where its derivative is unknown), kept inside a
bracket that shrinks: a guess that leaves the bracket, or steps that do not shrink, halve it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_GROWTH = 10.0  # of γ in one step while there is no upper end


def batched_root(
    slope_at: Callable[[Tensor], tuple[Tensor, Tensor | None]],
    start: Tensor,
    high: Tensor,
    goal: Tensor,
    *,
    end: Tensor | None = None,
    curvature: Tensor | None = None,
    guess: Tensor | None = None,
    evaluations: int = 30,
) -> tuple[Tensor, Tensor]:
    """The roots of a batch `(*batch,)`, and whether they lie inside (0, high), not at an end.

    Where the evaluations do not suffice, the answer is the left end of the bracket: φ has not
    risen there.

    Arguments:
        slope_at: slopes at γ, and their derivatives if they are known.
        start: slopes at 0; where they are at least 0, the answer is 0.
        high: largest answers, or infinity.
        goal: |slope| that will do.
        end: slopes at `high`; where they are at most 0, the answer is `high`. None: they are above.
        curvature: derivatives at 0.
        guess: where to look first, above 0; without it `end` or `curvature` must be known.
        evaluations: calls of `slope_at`, at most.
    """
    slope, low, answer = start, torch.zeros_like(start), torch.zeros_like(start)
    settled = start >= 0
    if end is not None:
        far = end <= 0  # not NaN, which is too far
        answer, settled = torch.where(far & ~settled, high, answer), settled | far
        curvature = (end - start) / high if curvature is None else curvature
    inside, stride, given = ~settled, torch.full_like(start, torch.inf), guess
    for t in range(evaluations):
        if t > 0 or guess is None:
            assert curvature is not None
            guess = answer - slope / curvature
            if end is None:  # a slope that is nearly constant here may not be so farther away
                guess = torch.where(high.isinf(), torch.minimum(guess, _GROWTH * answer), guess)
        poor = ~((guess > low) & (guess < high)) | ((guess - answer).abs() > 0.5 * stride)
        middle = 0.5 * (low + high)
        if end is None:
            middle = torch.where(high.isinf(), 2 * answer, middle)
        guess = torch.where(settled, answer, torch.where(poor, middle, guess))
        change, before = guess - answer, slope
        slope, curvature = slope_at(guess)
        curvature = (slope - before) / change if curvature is None else curvature
        answer = guess
        if t > 0 or given is None:  # else the step says nothing about Newton's
            stride = change.abs()
        settled = settled | (slope.abs() <= goal)
        if bool(settled.all()):
            return answer, inside
        low, high = torch.where(slope < 0, answer, low), torch.where(slope < 0, high, answer)
    return torch.where(settled, answer, low), inside


def scalar_root(
    slope_at: Callable[[float], tuple[float, float | None]],
    start: float,
    high: float,
    goal: float,
    *,
    end: float | None = None,
    guess: float | None = None,
    evaluations: int = 30,
) -> float:
    """As `batched_root`, of one function and in Python's numbers."""
    if start >= 0:
        return 0.0
    if end is not None and end <= 0:
        return high
    slope, low, answer, stride, given = start, 0.0, 0.0, math.inf, guess
    if guess is None:
        guess = math.nan if end is None else -start * high / (end - start)
    for t in range(evaluations):
        if not low < guess < high or abs(guess - answer) > 0.5 * stride:
            guess = 2 * answer if math.isinf(high) else 0.5 * (low + high)
        change, before = guess - answer, slope
        slope, curvature = slope_at(guess)
        if curvature is None:
            curvature = (slope - before) / change if change else 0.0
        answer = guess
        if t > 0 or given is None:  # else the step says nothing about Newton's
            stride = abs(change)
        if abs(slope) <= goal:
            return answer
        low, high = (answer, high) if slope < 0 else (low, answer)
        guess = answer - slope / curvature if curvature > 0 else math.nan
        if math.isinf(high):  # a slope that is nearly constant here may not be so farther away
            guess = min(guess, _GROWTH * answer)
    return low
