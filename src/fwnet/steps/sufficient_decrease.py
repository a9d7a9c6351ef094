"""Step sizes from models of f: short step, backtracking, Armijo, monotone open loop."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.numerics import checks
from fwnet.numerics.tensors import ratio
from fwnet.problems import Problem
from fwnet.problems.base import inner
from fwnet.steps.base import StepRule


@final
class ShortStep(StepRule):
    """Minimise the quadratic upper bound.

        γ = −⟨∇f(x), d⟩ / (smoothness · ‖d‖²)

    Arguments:
        smoothness: Lipschitz constant of ∇f; by default that of the problem, once per solve.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), ShortStep(smoothness=3.0), tol=1e-2)(problem).status
        'converged'

    Reference: Demyanov and Rubinov (1970).
    """

    def __init__(self, smoothness: float | None = None) -> None:
        super().__init__()
        if smoothness is not None:
            checks.positive("ShortStep(smoothness=...)", smoothness)
        self.smoothness = smoothness

    def init(self, problem: Problem, it: Iterate) -> float:
        known = problem.smoothness() if self.smoothness is None else self.smoothness
        if known is None:
            raise ValueError(
                f"ShortStep: {type(problem).__name__} does not know its smoothness; pass "
                "ShortStep(smoothness=...) or use Backtracking()."
            )
        return known

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        return _short(move, state, _length(problem, move)), state


@final
class Backtracking(StepRule):
    """Short step with a smoothness estimate L that adapts at every step.

        L <- decrease · L;   while f(x + γd) > f(x) + γ⟨∇f, d⟩ + ½γ²L‖d‖²:  L <- increase · L

    Once L has settled, a step costs one evaluation of f; L also follows a falling curvature.

    Arguments:
        decrease: factor before each step, in (0, 1].
        increase: factor after a failed test, above 1.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), Backtracking(), tol=1e-2)(problem).status
        'converged'

    Reference: Pedregosa, Negiar, Askari and Jaggi, Linearly convergent Frank-Wolfe (2020).
    """

    reads_objective = True

    def __init__(self, decrease: float = 0.9, increase: float = 2.0) -> None:
        super().__init__()
        if checks.positive("Backtracking(decrease=...)", decrease) > 1:
            raise ValueError(f"Backtracking(decrease=...) must be at most 1; got {decrease!r}.")
        if checks.positive("Backtracking(increase=...)", increase) <= 1:
            raise ValueError(f"Backtracking(increase=...) must be above 1; got {increase!r}.")
        self.decrease, self.increase = float(decrease), float(increase)

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        length = _length(problem, move)
        smoothness = self._first(problem, move, length) if state is None else self.decrease * state
        noise = _noise(move)
        for _ in range(100):
            step_size = move.clamped(_short(move, smoothness, length))
            bound = step_size * (move.slope + 0.5 * step_size * smoothness * length)
            rose = ~(problem.value(move.trial(step_size)) <= move.value + bound + noise)
            if not bool(rose.any()):
                break
            smoothness = torch.where(rose, self.increase * smoothness, smoothness)
        return step_size, smoothness

    def _first(self, problem: Problem, move: Move, length: Tensor) -> Tensor:
        """Curvature of f along d, from a small step."""
        probe = move.clamped(torch.full_like(move.slope, 1e-3))
        rise = problem.value(move.trial(probe)) - move.value - probe * move.slope
        square = probe * probe * length
        usable = torch.isfinite(rise / square) & (rise > 0)
        # 1 % more, so that the test passes.
        estimate = 2.02 * rise / torch.where(usable, square, 1.0)
        fallback = ratio(move.slope.abs(), length)  # the step 1, whatever the data
        return torch.where(usable, estimate, fallback.clamp_min(1e-12))


@final
class Armijo(StepRule):
    """Shrink the longest step until f falls by a share of what the slope promises.

        f(x + γd) <= f(x) + share · γ ⟨∇f(x), d⟩

    Arguments:
        share: in (0, 1).
        shrink: factor of the step after a failed test, in (0, 1).

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), Armijo(), tol=1e-2)(problem).status
        'converged'

    Reference: Armijo (1966).
    """

    reads_objective = True

    def __init__(self, share: float = 0.1, shrink: float = 0.5) -> None:
        super().__init__()
        for name, value in (("share", share), ("shrink", shrink)):
            if checks.positive(f"Armijo({name}=...)", value) >= 1:
                raise ValueError(f"Armijo({name}=...) must be below 1; got {value!r}.")
        self.share, self.shrink = float(share), float(shrink)

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        longest = move.clamped(move.max_step).clamp_max(1.0)
        return _shrunk(problem, move, longest, self.shrink, self.share), state


class MonotonicState(NamedTuple):
    """Step index, and the factor 2^(−N_t) `(*batch,)`."""

    t: int
    factor: Tensor


@final
class Monotonic(StepRule):
    """Open loop, halved permanently whenever f would rise.

        γ_t = 2^(−N_t) · 2 / (t + 2)

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0).double()))
        >>> result = FrankWolfe(Simplex(), Monotonic(), max_steps=20)(problem)
        >>> values = result.trace.column("value")
        >>> bool((values[1:] <= values[:-1]).all())
        True

    Reference: Carderera, Besançon and Pokutta, Simple steps are all you need (2021).
    """

    reads_objective = True

    def init(self, problem: Problem, it: Iterate) -> MonotonicState:
        batch = it.x.shape[: problem.batch_dims]
        return MonotonicState(0, it.x.new_ones(batch))

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        classic = 2 / (state.t + 2)
        step_size = _shrunk(problem, move, state.factor * classic, 0.5)
        return step_size, MonotonicState(state.t + 1, step_size / classic)


def _shrunk(
    problem: Problem, move: Move, step_size: Tensor, shrink: float, share: float = 0.0
) -> Tensor:
    """The step sizes, shrunk until f(x + γd) <= f(x) + share · γ ⟨∇f(x), d⟩."""
    noise = _noise(move)
    for _ in range(60):
        size = move.clamped(step_size)
        goal = move.value + share * size * move.slope + noise
        rose = ~(problem.value(move.trial(size)) <= goal)  # NaN counts as a rise
        if not bool(rose.any()):
            break
        step_size = torch.where(rose, shrink * step_size, step_size)
    return step_size


def _length(problem: Problem, move: Move) -> Tensor:
    """‖d‖²."""
    return inner(move.direction, move.direction, problem.batch_dims)


def _short(move: Move, smoothness: Tensor | float, length: Tensor) -> Tensor:
    return ratio(-move.slope, smoothness * length)


def _noise(move: Move) -> Tensor:
    """Rounding error of f: smaller differences do not show whether f rises or falls."""
    return 4 * torch.finfo(move.value.dtype).eps * move.value.abs()
