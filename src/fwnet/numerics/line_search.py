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
        goal: a |slope| that is small enough.
        end: slopes at `high`; where they are at most 0, the answer is `high`. None: they are above.
        curvature: derivatives at 0.
        guess: where to evaluate first, above 0; without it `end` or `curvature` must be known.
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
    bracket = _Bracket(start, high)
    aim = guess
    if aim is None:
        aim = math.nan if end is None else -start * high / (end - start)
    for t in range(evaluations):
        at = bracket.admit(aim)
        aim = bracket.newton(at, *slope_at(at))
        if abs(bracket.slope) <= goal:
            return bracket.answer
        if t == 0 and guess is not None:  # the step says nothing about Newton's
            bracket.stride = math.inf
    return bracket.low


class _Bracket:
    """low <= root <= high, and the last answer with its slope and the length of its step."""

    def __init__(self, slope: float, high: float) -> None:
        self.low, self.high, self.answer, self.slope, self.stride = 0.0, high, 0.0, slope, math.inf

    def admit(self, guess: float) -> float:
        """The guess, or the middle where it is outside or the steps do not shrink."""
        if self.low < guess < self.high and abs(guess - self.answer) <= 0.5 * self.stride:
            return guess
        return 2 * self.answer if math.isinf(self.high) else 0.5 * (self.low + self.high)

    def newton(self, answer: float, slope: float, curvature: float | None) -> float:
        """Shrink the bracket by the slope at an answer, and guess the root from there."""
        change = answer - self.answer
        if curvature is None:
            curvature = (slope - self.slope) / change if change else 0.0
        self.answer, self.slope, self.stride = answer, slope, abs(change)
        if slope < 0:
            self.low = answer
        else:
            self.high = answer
        guess = answer - slope / curvature if curvature > 0 else math.nan
        # A slope that is nearly constant here may not be so farther away.
        return min(guess, _GROWTH * answer) if math.isinf(self.high) else guess
