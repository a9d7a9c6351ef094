"""One Frank-Wolfe step with its graph, in few operations where the slots are the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from fwnet.directions import Toward
from fwnet.domains import Simplex
from fwnet.iterates import Iterate
from fwnet.layers import FWNet
from fwnet.layers.unrolled import CellState
from fwnet.learned.controllers import LSTMStep
from fwnet.learned.controllers.targets import TargetDirection
from fwnet.oracles import Softmin
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe, SlotStates
from fwnet.steps.open_loop import Scheduled

Cell = Callable[[Problem, Iterate, SlotStates], CellState]


def cell_of(solver: FrankWolfe) -> Cell:
    """`FWNet(solver).cell`, or the same step in a third of its operations.

    The short form serves directions to a point s of the simplex that a network or a softmin
    chooses, with step sizes that do not depend on f: the paper's LSTMs.
    """
    softmin = _plain_softmin(solver)
    known = isinstance(solver.direction, TargetDirection) or softmin is not None
    if known and isinstance(solver.rule, Scheduled | LSTMStep):
        return SimplexCell(solver, softmin)
    return FWNet(solver).cell


@final
class SimplexCell:
    """x <- x + γ (s − x), and the image of x alike.

    Arguments:
        solver: its direction chooses s, unless there is a softmin.
        softmin: s = softmin of the gradient.
    """

    def __init__(self, solver: FrankWolfe, softmin: Softmin | None) -> None:
        self.solver, self.softmin = solver, softmin

    def __call__(self, problem: Problem, it: Iterate, slots: SlotStates) -> CellState:
        value, gradient, along = problem.first_order(it)
        gradient, direction = dense_gradient(gradient), slots.direction
        if self.softmin is None:
            chooser = self.solver.direction
            assert isinstance(chooser, TargetDirection)
            seen = gradient.detach(), along.detach()
            point, direction = chooser.target(problem, it.x, *seen, direction)
        else:
            assert isinstance(self.solver.domain, Simplex)
            point = self.solver.domain.radius * torch.softmax(-self.softmin.beta * gradient, -1)
        step_size, rule = self.solver.rule(problem, it, None, slots.rule)
        share: Any = step_size
        if isinstance(step_size, Tensor):
            share = step_size.unsqueeze(-1)
        else:
            step_size = torch.full_like(along, step_size)
        x, image, there = torch.lerp(it.x, point, share), it.image, problem.image(point)
        if image is not None and there is not None:
            image = torch.lerp(image, there, share)
        return CellState(
            Iterate(x, image), SlotStates(slots.oracle, direction, rule), value, step_size
        )


def _plain_softmin(solver: FrankWolfe) -> Softmin | None:
    """The softmin whose answer is s, if there is one, and it stays the same from step to step."""
    oracle = solver.oracle
    if not isinstance(oracle, Softmin) or not isinstance(solver.direction, Toward):
        return None
    plain = math.isfinite(oracle.beta) and not oracle.relative and oracle.growth == 0
    return oracle if plain else None
