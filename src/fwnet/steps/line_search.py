"""Exact line search, and over-relaxation of it."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from fwnet import checks
from fwnet.iterates import Iterate, Move
from fwnet.problems import Problem
from fwnet.steps.base import StepRule, bounded


@final
class LineSearch(StepRule):
    """Exact line search.

        γ = argmin over [0, γ_max] of f(x + γ d)

    On quadratics in closed form, −slope / curvature. Otherwise Newton's method on the slope
    (the secant method where curvature is unknown), kept inside a shrinking bracket; it sees only
    φ on the segment z + γ A d, never A.

    Arguments:
        tol: stop when |slope| fell to `tol` times its start.
        max_evaluations: of the slope, at most.
    """

    def __init__(self, tol: float = 1e-4, max_evaluations: int = 30) -> None:
        super().__init__()
        self.tol = checks.positive("LineSearch(tol=...)", tol)
        self.max_evaluations = checks.at_least("LineSearch(max_evaluations)", max_evaluations, 2)

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        if problem.quadratic:
            curvature = problem.curvature(it, move)
            assert curvature is not None
            # No curvature: f is linear along d, the minimum is at the far end.
            tiny = torch.finfo(curvature.dtype).tiny
            return -move.slope / curvature.clamp_min(tiny), state
        return self._search(problem, it, move), state

    def _search(self, problem: Problem, it: Iterate, move: Move) -> Tensor:
        goal = self.tol * move.slope.abs()
        low, low_slope = torch.zeros_like(move.slope), move.slope
        high = bounded(move.max_step, move)
        there = move.trial(high)
        high_slope = problem.slope(there, move)
        inside = high_slope > 0  # else f still falls at the far end: stop there
        guess = _newton(low, low_slope, problem.curvature(it, move))
        for _ in range(self.max_evaluations - 1):
            secant = low + (high - low) * low_slope / (low_slope - high_slope)
            guess = secant if guess is None else guess
            outside = ~((guess > low) & (guess < high))  # NaN counts as outside
            guess = torch.where(outside, 0.5 * (low + high), guess)
            guess = torch.where(inside, guess, high)
            there = move.trial(guess)
            slope = problem.slope(there, move)
            if bool(((slope.abs() <= goal) | ~inside).all()):
                return guess
            left = slope < 0
            low, low_slope = torch.where(left, guess, low), torch.where(left, slope, low_slope)
            high = torch.where(left, high, guess)
            high_slope = torch.where(left, high_slope, slope)
            guess = _newton(guess, slope, problem.curvature(there, move))
        return torch.where(inside, low, high)  # the left end of the bracket: f has not risen


@final
class OverRelaxed(StepRule):
    """A constant multiple of the exact line search.

        γ = ω · γ_LS,   0 < ω < 2

    A quadratic decreases at every ω in (0, 2), by ω(2 − ω) of the line search's decrease; going
    too far on purpose breaks the zigzag. ω ≈ 1.8 with pairwise steps saves 1.3 to 4 times.

    Arguments:
        omega: the multiple.
    """

    def __init__(self, omega: float = 1.8) -> None:
        super().__init__()
        if checks.positive("OverRelaxed(omega=...)", omega) >= 2:
            raise ValueError(f"OverRelaxed(omega=...) must be below 2; got {omega!r}.")
        self.omega = float(omega)
        self.search = LineSearch()

    def extra_repr(self) -> str:
        return f"omega={self.omega}"

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        step_size, _ = self.search(problem, it, move, None)
        return self.omega * step_size, state


def _newton(point: Tensor, slope: Tensor, curvature: Tensor | None) -> Tensor | None:
    return None if curvature is None else point - slope / curvature
