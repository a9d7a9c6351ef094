"""Rollout: a solver steered by a controller, some steps at a time, for training."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.layers import FWNet
from fwnet.learned.controllers import Controller
from fwnet.learned.families import ProblemFamily
from fwnet.problems import Problem


class Drawn(NamedTuple):
    """A batch of problems with their minima, and where they live."""

    problem: Problem
    best: Tensor  # (batch,)
    domain: Domain


@final
class Rollout:
    """A batch of problems and how far a controller has come with them.

    Arguments:
        controller: of which the weights are trained; read anew at every step.
        drawn: the problems.
    """

    def __init__(self, controller: Controller, drawn: Drawn) -> None:
        self.problem, self.best = drawn.problem, drawn.best
        self.net = FWNet(controller.solver(drawn.domain))
        self.it, self.slots = self.net.solver.begin(self.problem, None)
        self.first = self.problem.value(self.it).detach()

    def run(self, steps: int) -> Tensor:  # (steps, batch)
        """Take steps; f after each of them."""
        values = []
        for _ in range(steps):
            cell = self.net.cell(self.problem, self.it, self.slots)
            self.it, self.slots = cell.it, cell.slots
            values.append(self.problem.value(self.it))
        return torch.stack(values)

    def detach(self) -> None:
        """Cut the graph: gradients stop here."""
        self.it, self.slots = detached(self.it), detached(self.slots)


def draw(family: ProblemFamily, batch: int, generator: torch.Generator) -> Drawn:
    """A batch of problems of a family, checked, with their minima."""
    problem, _ = sampled(family, batch, generator)
    return Drawn(problem, family.best_values(problem), family.domain)


def sampled(
    family: ProblemFamily, batch: int, generator: torch.Generator
) -> tuple[Problem, Tensor]:  # (batch,)
    """A batch of problems of a family, checked, and f of each at the domain's own start."""
    problem = family.sample(batch, generator)
    name = f"{type(family).__name__}.sample"
    if not isinstance(problem, Problem) or problem.batch_dims != 1 or problem.shape is None:
        raise TypeError(
            f"{name} must return one Problem with a batch in front (batch_dims 1) that knows its "
            f"shape; got {problem!r}."
        )
    if problem.shape[0] != batch:
        raise ValueError(f"{name} was asked for {batch} problems; got {problem.shape[0]}.")
    start = family.domain.start(tuple(problem.shape), problem.dtype, problem.device)
    with torch.no_grad():
        value, gradient, _ = problem.first_order(problem.at(start))
    good = torch.isfinite(value)
    if isinstance(gradient, Tensor):
        good = good & torch.isfinite(gradient).flatten(1).all(-1)
    if not bool(good.all()):
        raise ValueError(
            f"{name} gave a problem whose f or gradient is NaN or infinite at the start (problem "
            f"{int((~good).nonzero()[0])} of the batch). Clean the data of the family."
        )
    return problem, value


def detached(state: Any) -> Any:
    """A state outside the autograd graph: tensors in tuples, lists, dictionaries, dataclasses."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(detached(part) for part in state))
    if isinstance(state, dict):
        return {name: detached(part) for name, part in state.items()}
    if isinstance(state, (tuple, list)):
        return type(state)(detached(part) for part in state)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: detached(getattr(state, f.name)) for f in fields(state)})
    return state
