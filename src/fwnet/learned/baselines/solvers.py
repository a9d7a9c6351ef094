"""Baselines that are configurations of the core's one loop, and controllers in its slots."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import final

from fwnet.directions import Direction
from fwnet.domains import Domain, Simplex
from fwnet.learned.baselines.base import Baseline, Report
from fwnet.learned.controllers import Controller, Slots
from fwnet.oracles import Oracle
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch, StepRule
from fwnet.trace import Result

Slot = Controller | Slots | StepRule | Direction | Oracle | FrankWolfe


@final
class Solver(Baseline):
    """A `FrankWolfe` with given slots.

    Arguments:
        name: in tables.
        make: the solver for a domain, as a function, or a solver; its budgets are overruled.
        quadratic: whether the slots need a quadratic problem.
        simplex: whether they need the simplex.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> solver = FrankWolfe(Simplex(), lambda t: 1 / (t + 1))
        >>> mine = baselines.Solver("1/(t + 1)", solver)
        >>> run = mine.run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Domain], FrankWolfe] | FrankWolfe,
        *,
        quadratic: bool = False,
        simplex: bool = False,
    ) -> None:
        self.name, self.quadratic, self.simplex = name, quadratic, simplex
        self.make = partial(as_solver, make) if isinstance(make, FrankWolfe) else make

    def fits(self, problem: Problem, domain: Domain) -> bool:
        smooth = problem.quadratic or not self.quadratic
        return smooth and (isinstance(domain, Simplex) or not self.simplex)

    def __call__(self, problem: Problem, domain: Domain, max_steps: int = 1000) -> Result:
        return self._solver(domain, max_steps)(problem)

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        self._solver(domain, max_steps)(problem, on_step=lambda record: report(record.value))

    def _solver(self, domain: Domain, max_steps: int) -> FrankWolfe:
        solver = copy.copy(self.make(domain))  # a caller's own solver keeps its budgets
        solver.max_steps, solver.tol = max_steps, 0.0
        return solver


def as_solver(slot: Slot, domain: Domain) -> FrankWolfe:
    """A controller's own solver; other directions and oracles take an exact line search.

    Example:
        >>> from fwnet import learned
        >>> learned.baselines.as_solver(learned.load("simplex-qp"), Simplex()).domain
        Simplex(radius=1.0)
    """
    if isinstance(slot, FrankWolfe):
        if slot.domain != domain:
            raise ValueError(
                f"a solver over {slot.domain} cannot be compared on problems over {domain}; make "
                "it for their domain."
            )
        return slot
    if isinstance(slot, Controller | Slots):
        return slot.solver(domain)
    if isinstance(slot, StepRule):
        return FrankWolfe(domain, slot)
    if isinstance(slot, Direction):
        return FrankWolfe(domain, LineSearch(), direction=slot)
    if isinstance(slot, Oracle):
        return FrankWolfe(domain, LineSearch(), oracle=slot)
    raise TypeError(
        "a controller must be a StepRule, a Direction, an Oracle or a FrankWolfe with such slots; "
        f"got {type(slot).__name__}."
    )
