"""SolverTask: what is learned steers a solver on the problems of a family."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.learned.controllers import Controller, Slots
from fwnet.learned.families import ProblemFamily
from fwnet.learned.training.cells import cell_of
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Rollout
from fwnet.learned.training.losses import MetaLoss
from fwnet.learned.training.recurrences import detached
from fwnet.learned.training.tasks import TrainingTask, seeded
from fwnet.problems import Problem


class Drawn(NamedTuple):
    """A batch of problems with their minima, and where they live."""

    problem: Problem
    best: Tensor  # (batch,)
    domain: Domain


@final
class SolverRollout(Rollout):
    """A batch of problems and how far a learned solver has come with them.

    Arguments:
        learned: with `.solver(domain)`; its weights are read anew at every step.
        drawn: the problems.
        loss: of a stretch of steps.
    """

    def __init__(self, learned: Controller | Slots, drawn: Drawn, loss: MetaLoss) -> None:
        self.problem, self.best, self.loss = drawn.problem, drawn.best, loss
        solver = learned.solver(drawn.domain)
        self.cell = cell_of(solver)
        self.it, self.slots = solver.begin(self.problem, None)
        self.first = self.problem.value(self.it).detach()

    def run(self, steps: int) -> Tensor:
        values = []
        for t in range(steps):
            cell = self.cell(self.problem, self.it, self.slots)
            self.it, self.slots = cell.it, cell.slots
            if t:  # the cell has evaluated f where the last step ended
                values.append(cell.value)
        values.append(self.problem.value(self.it))
        return self.loss(torch.stack(values), self.first, self.best)

    def detach(self) -> None:
        self.it, self.slots = detached(self.it), detached(self.slots)


@final
class SolverTask(TrainingTask):
    """Problems of a family, each solved by the solver that is learned.

    Arguments:
        family: of the problems.
    """

    trains: ClassVar[tuple[type[nn.Module], ...]] = (Controller, Slots)

    def __init__(self, family: ProblemFamily) -> None:
        self.family = family

    def horizon(self, learned: nn.Module) -> int | None:
        return learned.template.max_steps if isinstance(learned, Slots) else None

    def episode(
        self, learned: nn.Module, config: MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        assert isinstance(learned, Controller | Slots)
        drawn = draw(self.family, config.batch, generator, config.loss)
        return partial(SolverRollout, learned, drawn, config.loss)

    def judge(self, config: MetaConfig) -> Callable[[nn.Module], float]:
        """The validation loss over the longest horizon, of problems that are drawn once."""
        loss = config.loss if config.validation_loss is None else config.validation_loss
        left, judges = config.validation_problems, []
        while left > 0:
            batch = min(config.batch, left)
            generator = seeded(config.seed, "validation", left)
            judges.append(draw(self.family, batch, generator, loss))
            left -= batch

        @torch.no_grad()
        def judged(learned: nn.Module) -> float:
            assert isinstance(learned, Controller | Slots)
            total = 0.0
            for drawn in judges:
                rollout = SolverRollout(learned, drawn, loss)
                total += len(drawn.best) * rollout.run(config.limits[1]).item()
            return total / config.validation_problems

        return judged

    def describe(self, config: MetaConfig, generator: torch.Generator) -> str:
        """A family has no options to compare, so its first problems identify it."""
        same = torch.Generator()
        same.set_state(generator.get_state())
        problem, values = sampled(self.family, config.batch, generator)
        name = type(self.family).__name__
        if not torch.allclose(sampled(self.family, config.batch, same)[1], values, rtol=1e-4):
            warnings.warn(
                f"{name}.sample(batch, generator) drew other problems from the same generator, so "
                "a training cannot be repeated or resumed. Pass generator to all that is random.",
                stacklevel=4,
            )
        return f"{name}: {tuple(problem.shape or ())}, f(x0) = {float(values[0]):.4g}"


def draw(
    family: ProblemFamily, batch: int, generator: torch.Generator, loss: MetaLoss | None = None
) -> Drawn:
    """A batch of problems of a family, checked, with their minima (NaN if the loss needs none)."""
    problem, values = sampled(family, batch, generator)
    needed = loss is None or loss.needs_minimum
    best = family.best_values(problem) if needed else torch.full_like(values, torch.nan)
    return Drawn(problem, best, family.domain)


def sampled(
    family: ProblemFamily, batch: int, generator: torch.Generator
) -> tuple[Problem, Tensor]:  # (batch,)
    """A batch of problems of a family, checked, and f of each at the domain's own start."""
    problem = family.sample(batch, generator)
    name = f"{type(family).__name__}.sample"
    if not isinstance(problem, Problem) or problem.batch_dims != 1 or problem.shape is None:
        got = repr(problem) if isinstance(problem, Problem) else type(problem).__name__
        raise TypeError(
            f"{name} must return one Problem with a batch in front (batch_dims 1) that knows its "
            f"shape and dtype, as a Quadratic does and a Function does not; got {got}."
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
