"""Frank-Wolfe on quadratics over the simplex, and the unconstrained optimizers of the paper.

Every run starts at α = 1/n and is judged by f at a feasible point, so that all are comparable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch
from torch import Tensor

from fwnet.domains import Simplex
from fwnet.iterates import Iterate
from fwnet.learned.families.base import exact_values
from fwnet.learned.networks import Updates
from fwnet.learned.training.cells import cell_of
from fwnet.learned.training.recurrences import OptimizerRun, Recurrence
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe


class Coordinates(ABC):
    """Unconstrained coordinates θ of the simplex, for optimizers without constraints."""

    @abstractmethod
    def start(self, shape: torch.Size) -> Tensor:
        """θ of α = 1/n."""

    @abstractmethod
    def gradient(self, problem: SVMDual, theta: Tensor) -> Tensor:
        """The gradient of the objective in θ."""

    @abstractmethod
    def point(self, theta: Tensor) -> Tensor:
        """The α on the simplex that θ stands for."""

    def inside(self, theta: Tensor) -> Tensor:
        """θ after a step, moved to where the objective is defined."""
        return theta


@final
@dataclass(frozen=True)
class Reparameterised(Coordinates):
    """α = softmax(θ):  ∇θ = α ∘ (∇f − ⟨α, ∇f⟩)."""

    def start(self, shape: torch.Size) -> Tensor:
        return torch.zeros(shape)

    def gradient(self, problem: SVMDual, theta: Tensor) -> Tensor:
        alpha = self.point(theta)
        gradient = problem.gradient(problem.at(alpha))
        return alpha * (gradient - (alpha * gradient).sum(-1, keepdim=True))

    def point(self, theta: Tensor) -> Tensor:
        return torch.softmax(theta, -1)


@final
@dataclass(frozen=True)
class Lagrangian(Coordinates):
    """θ ≥ 0 with the objective ½ θᵀKθ − λ Σθ, the paper's eq. 8; α = θ / Σθ.

    At the optimum θ = λ α*/(2 f*): λ is a unit of length for θ. Only lr/λ matters to Adam, so
    λ is 1 and the learning rate is tuned.
    """

    def start(self, shape: torch.Size) -> Tensor:
        return torch.full(shape, 1 / shape[-1])

    def gradient(self, problem: SVMDual, theta: Tensor) -> Tensor:
        return problem.gradient(problem.at(theta)) - 1

    def point(self, theta: Tensor) -> Tensor:
        total = theta.sum(-1, keepdim=True)
        return torch.where(total > 0, theta / total.clamp_min(1e-30), 1 / theta.shape[-1])

    def inside(self, theta: Tensor) -> Tensor:
        return theta.clamp_min(0)


class Mover(Protocol):
    """How α moves on an SVM's dual: state in, state out."""

    def init(self, problem: Any, alpha: Tensor | None = None) -> tuple[Iterate, Any]:
        """α, 1/n if None, and the state before the first step."""

    def __call__(self, problem: Any, it: Iterate, state: Any) -> tuple[Iterate, float, Any]:
        """The next α, the step size (NaN if there is none), the next state."""


@final
class Cell:
    """One cell of a Frank-Wolfe network."""

    def __init__(self, solver: FrankWolfe) -> None:
        self.solver, self.step = solver, cell_of(solver)

    def init(self, problem: Any, alpha: Tensor | None = None) -> tuple[Iterate, Any]:
        return self.solver.begin(problem, alpha)

    def __call__(self, problem: Any, it: Iterate, state: Any) -> tuple[Iterate, float, Any]:
        cell = self.step(problem, it, state)
        return cell.it, cell.step_size.detach().mean().item(), cell.slots


@final
@dataclass(frozen=True)
class Descent:
    """One update of an unconstrained optimizer, in coordinates of the simplex."""

    coordinates: Coordinates
    updates: Updates

    def init(self, problem: Any, alpha: Tensor | None = None) -> tuple[Iterate, Any]:
        assert problem.shape is not None
        theta = {"theta": self.coordinates.start(problem.shape)}
        it = problem.at(self.coordinates.point(theta["theta"]))
        return it, (theta, self.updates.init(theta))

    def __call__(self, problem: Any, it: Iterate, state: Any) -> tuple[Iterate, float, Any]:
        theta, memory = state
        gradient = self.coordinates.gradient(problem, theta["theta"].detach())
        moved, memory = self.updates(theta, {"theta": gradient}, memory)
        theta = {"theta": self.coordinates.inside(moved["theta"])}
        it = problem.at(self.coordinates.point(theta["theta"]))
        return it, float("nan"), (theta, memory)


@final
@dataclass(frozen=True, eq=False)
class SimplexTasks:
    """A batch of SVM duals and their exact optima f* `(batch,)`; ones where they are not needed."""

    problem: SVMDual
    best: Tensor

    @classmethod
    def solved(cls, problem: SVMDual) -> SimplexTasks:
        """The problems with their optima."""
        best = exact_values(problem, Simplex())
        assert best is not None
        return cls(problem, best)


class SimplexStep(NamedTuple):
    """(f − f*)/f* of each problem after a step, and the mean of f / f(start)."""

    loss: Tensor  # (batch,)
    objective: Tensor


@final
@dataclass(frozen=True, eq=False)
class SimplexDescent(Recurrence[SimplexStep]):
    """A batch of problems with their optima, and what moves α.

    Arguments:
        tasks: what is minimised.
        mover: of α.
    """

    tasks: SimplexTasks
    mover: Mover

    def start(self) -> tuple[Iterate, Any, Tensor]:
        it, state = self.mover.init(self.tasks.problem)
        return it, state, self.tasks.problem.value(it).detach()

    def advance(self, state: Any) -> tuple[Any, SimplexStep]:
        it, slots, first = state
        it, _, slots = self.mover(self.tasks.problem, it, slots)
        values = self.tasks.problem.value(it)
        excess = (values.detach().double() - self.tasks.best) / self.tasks.best
        return (it, slots, first), SimplexStep(excess, (values / first).mean())

    def score(self, losses: Sequence[Any]) -> float:
        """√(area · end) of the mean excess: both criteria of the page count alike."""
        excess = torch.stack(list(losses)).mean(1).clamp_min(1e-12)
        return float((excess.mean() * excess[-1]).sqrt())


def curve(recurrence: SimplexDescent, steps: int) -> np.ndarray:  # (batch, steps + 1)
    """(f − f*)/f* at every iterate, the start first."""
    run, best = OptimizerRun(recurrence), recurrence.tasks.best
    first = (run.state[-1].double() - best) / best
    return torch.stack([first, *(step.loss for step in run.record(steps))], 1).numpy()
