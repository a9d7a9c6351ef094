"""Exact line search, and over-relaxation of it."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.numerics import checks
from fwnet.numerics.line_search import batched_root
from fwnet.numerics.tensors import is_plain, ratio
from fwnet.problems import Problem
from fwnet.steps.base import StepRule


@final
class LineSearch(StepRule):
    """Exact line search.

        γ = argmin over [0, γ_max] of f(x + γ d)

    On quadratics in closed form, −slope / curvature. Otherwise Newton's method on the slope
    (the secant method where curvature is unknown), kept inside a shrinking bracket; it sees only
    φ on the segment z + γ A d, never A. Gradients are those of the exact minimum.

    Arguments:
        tol: stop when |slope| fell to `tol` times its start.
        max_evaluations: of the slope, at most.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), LineSearch(), tol=1e-2)(problem).status
        'converged'
    """

    reads_objective = True

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
            if is_plain(curvature):
                tiny = torch.finfo(curvature.dtype).tiny
                return -move.slope.item() / max(curvature.item(), tiny), state
            step_size = ratio(-move.slope, curvature)
            # Along a direction of length 0 every step is a minimum; the full one keeps derivatives.
            return torch.where((move.slope == 0) & (curvature == 0), 1.0, step_size), state
        return self._search(problem, it, move), state

    def _search(self, problem: Problem, it: Iterate, move: Move) -> Tensor:
        if not torch.is_grad_enabled():
            return self._root(problem, it, move)[0]
        problem.slope(it, move)  # the move remembers d and Ad: with their graphs
        with torch.no_grad():
            step_size, interior = self._root(problem, it, move)
        # The root moves with the data as the slope there does: dγ = −dslope / curvature.
        root = step_size.clone().requires_grad_()
        slope = problem.slope(move.trial(root), move)
        if not slope.requires_grad:  # f is linear, and nothing of it has a gradient
            return step_size
        (curvature,) = torch.autograd.grad(
            slope.sum(), root, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        slope = problem.slope(move.trial(step_size), move)
        shift = (slope - slope.detach()) / torch.where(curvature > 0, curvature, 1.0)
        end = torch.where(move.slope < 0, move.clamped(move.max_step), 0.0)
        return torch.where(interior, step_size - shift, end)

    def _root(self, problem: Problem, it: Iterate, move: Move) -> tuple[Tensor, Tensor]:
        """The step size, and whether it lies inside the segment rather than at an end."""

        def slope_at(step_size: Tensor) -> tuple[Tensor, Tensor | None]:
            there = move.trial(step_size)
            return problem.slope(there, move), problem.curvature(there, move)

        high = move.clamped(move.max_step)
        return batched_root(
            slope_at,
            move.slope,
            high,
            self.tol * move.slope.abs(),
            end=problem.slope(move.trial(high), move),
            curvature=problem.curvature(it, move),
            evaluations=self.max_evaluations - 1,
        )


@final
class OverRelaxed(StepRule):
    """A constant multiple of the exact line search.

        γ = ω · γ_LS,   0 < ω < 2

    A quadratic decreases at every ω in (0, 2), by ω(2 − ω) of the line search's decrease; going
    too far on purpose breaks the zigzag. With pairwise steps on SVM duals ω ≈ 1.8 saves 1.3 to 4
    times; on ill-conditioned problems, and where steps end at γ_max, it can lose as much: compare.

    Arguments:
        omega: the multiple.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> PairwiseFrankWolfe(Simplex(), OverRelaxed(1.5), tol=1e-6)(problem).status
        'converged'
    """

    reads_objective = True

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
