"""StepRule: how far to go."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from fwnet.iterates import Iterate, Move
from fwnet.problems import Problem


class StepRule(nn.Module, ABC):
    """Chooses the step size γ along a move; a slot that may hold weights.

    The loop clamps γ to [0, max_step], so no rule can leave the domain.

    Attributes:
        reads_objective: whether the rule evaluates f or its slope elsewhere on the segment.

    Example:
        >>> class Third(StepRule):
        ...     def forward(self, problem, it, move, state):
        ...         return 1 / 3, state
        ...
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> result = FrankWolfe(Simplex(), Third(), max_steps=2)(problem)
        >>> result.trace.column("step_size").round(3)
        array([0.333, 0.333, 0.   ])
    """

    reads_objective: bool = False

    def init(self, problem: Problem, it: Iterate) -> Any:
        """The state before the first step; raise here if the rule does not fit the problem."""
        return None

    @abstractmethod
    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        """The step size `(*batch,)`, or one number for all, and the next state."""


@final
class ByIndex(StepRule):
    """γ_t = schedule(t): a plain function of the step index, t = 0, 1, 2, …"""

    def __init__(self, schedule: Callable[[int], float | Tensor]) -> None:
        super().__init__()
        self.schedule = schedule

    def init(self, problem: Problem, it: Iterate) -> int:
        return 0

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        step_size = self.schedule(state)
        if isinstance(step_size, Tensor):
            fits = step_size.ndim == 0 or step_size.shape == move.slope.shape
        else:
            fits = isinstance(step_size, numbers.Real)
        if not fits:
            raise TypeError(
                f"a rule that is a function must return a number at each step; got {step_size!r} "
                f"at t = {state}."
            )
        return step_size, state + 1


def as_rule(rule: StepRule | Callable[[int], float | Tensor]) -> StepRule:
    """A rule unchanged, a plain callable t -> γ as a rule."""
    if isinstance(rule, StepRule):
        return rule
    given: Any = rule
    if isinstance(given, type) and issubclass(given, StepRule):
        raise TypeError(
            f"rule must be a StepRule object; got its class. Use {given.__name__}(...)."
        )
    if not callable(rule):
        raise TypeError(f"rule must be a StepRule or a function of t; got {rule!r}.")
    return ByIndex(rule)
