"""Step sizes that depend only on the index."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, final

from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.numerics import checks
from fwnet.problems import Problem
from fwnet.steps.base import StepRule


class Scheduled(StepRule):
    """γ_t = at(t): a schedule that is fixed before the solve."""

    @abstractmethod
    def at(self, t: int) -> float:
        """The step size of step t = 0, 1, 2, …"""

    def init(self, problem: Problem, it: Iterate) -> int:
        return 0

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        return self.at(state), state + 1


@final
class OpenLoop(Scheduled):
    """The classic schedule.

        γ_t = 2 / (t + offset)

    for t = 0, 1, …; counted from t = 1, that is 2 / (t + 1). O(1/t) without any knowledge of f.
    With offset 2 the first step goes all the way to a vertex; a larger offset keeps more of a good
    start.

    Arguments:
        offset: at least 2.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> result = FrankWolfe(Simplex(), OpenLoop(), max_steps=3)(problem)
        >>> result.trace.column("step_size").round(3)
        array([1.   , 0.667, 0.5  , 0.   ])

    Reference: Dunn and Harshbarger (1978); Jaggi (2013).
    """

    def __init__(self, offset: float = 2.0) -> None:
        super().__init__()
        if checks.positive("OpenLoop(offset=...)", offset) < 2:
            raise ValueError(f"OpenLoop(offset=...) must be at least 2; got {offset!r}.")
        self.offset = float(offset)

    def extra_repr(self) -> str:
        return f"offset={self.offset}"

    def at(self, t: int) -> float:
        return 2 / (t + self.offset)


@final
class LogOpenLoop(Scheduled):
    """Open loop with a logarithmic numerator, which adapts to the growth of f.

        γ_t = (2 + log(t + 1)) / (t + 2 + log(t + 1))

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> result = FrankWolfe(Simplex(), LogOpenLoop(), max_steps=2)(problem)
        >>> result.trace.column("step_size").round(3)
        array([1.   , 0.729, 0.   ])

    Reference: Wirth, Peña and Pokutta, Accelerated affine-invariant convergence rates (2023).
    """

    def at(self, t: int) -> float:
        top = 2 + math.log(t + 1)
        return top / (t + top)


@final
class Constant(Scheduled):
    """γ_t = γ.

    Arguments:
        step_size: γ in (0, 1].

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> result = FrankWolfe(Simplex(), Constant(0.25), max_steps=3)(problem)
        >>> result.trace.column("step_size")
        array([0.25, 0.25, 0.25, 0.  ])
    """

    def __init__(self, step_size: float) -> None:
        super().__init__()
        if checks.positive("Constant(step_size=...)", step_size) > 1:
            raise ValueError(f"Constant(step_size=...) must be at most 1; got {step_size!r}.")
        self.step_size = float(step_size)

    def extra_repr(self) -> str:
        return f"{self.step_size}"

    def at(self, t: int) -> float:
        return self.step_size
