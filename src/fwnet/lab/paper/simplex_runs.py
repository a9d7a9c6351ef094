"""Runs on a batch of quadratics over the simplex: Frank-Wolfe, and what the paper set against it.

Every run starts at α = 1/n and is judged by f at a feasible point, so that all are comparable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from fwnet.lab.paper.updates import Updates
from fwnet.layers import FWNet
from fwnet.learned.training.rollouts import detached
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe


class Coordinates(ABC):
    """Unconstrained coordinates θ of the simplex, for optimizers that know no constraints."""

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
    λ stays 1 and the learning rate is tuned.
    """

    multiplier: float = 1.0

    def start(self, shape: torch.Size) -> Tensor:
        return torch.full(shape, 1 / shape[-1])

    def gradient(self, problem: SVMDual, theta: Tensor) -> Tensor:
        return problem.gradient(problem.at(theta)) - self.multiplier

    def point(self, theta: Tensor) -> Tensor:
        total = theta.sum(-1, keepdim=True)
        return torch.where(total > 0, theta / total.clamp_min(1e-30), 1 / theta.shape[-1])

    def inside(self, theta: Tensor) -> Tensor:
        return theta.clamp_min(0)


@final
class DescentRun:
    """A run of an unconstrained optimizer on a batch of problems; an `Episode` of meta-training."""

    def __init__(self, problem: SVMDual, coordinates: Coordinates, updates: Updates) -> None:
        self.problem, self.coordinates, self.updates = problem, coordinates, updates
        assert problem.shape is not None
        self.theta = {"theta": coordinates.start(problem.shape)}
        self.memory = updates.init(self.theta)
        self.value = self._value()
        self.first = self.value.detach()

    def step(self) -> Tensor:
        """One update; the mean of f / f(start) after it."""
        gradient = self.coordinates.gradient(self.problem, self.theta["theta"].detach())
        moved, self.memory = self.updates(self.theta, {"theta": gradient}, self.memory)
        self.theta = {"theta": self.coordinates.inside(moved["theta"])}
        self.value = self._value()
        return (self.value / self.first).mean()

    def score(self) -> float:
        """The last mean of f / f(start)."""
        return float((self.value / self.first).mean())

    def detach(self) -> None:
        """Cut the graph."""
        self.theta, self.memory = detached(self.theta), detached(self.memory)

    def _value(self) -> Tensor:
        point = self.coordinates.point(self.theta["theta"])
        return self.problem.value(self.problem.at(point))


@final
class FrankWolfeRun:
    """A run of a Frank-Wolfe network, cell by cell; an `Episode` of meta-training."""

    def __init__(self, problem: SVMDual, solver: FrankWolfe) -> None:
        self.problem, self.net = problem, FWNet(solver)
        self.it, self.slots = solver.begin(problem, None)
        self.value = problem.value(self.it)
        self.first = self.value.detach()

    def step(self) -> Tensor:
        """One cell; the mean of f / f(start) after it."""
        cell = self.net.cell(self.problem, self.it, self.slots)
        self.it, self.slots = cell.it, cell.slots
        self.value = self.problem.value(self.it)
        return (self.value / self.first).mean()

    def score(self) -> float:
        """The last mean of f / f(start)."""
        return float((self.value / self.first).mean())

    def detach(self) -> None:
        """Cut the graph."""
        self.it, self.slots = detached(self.it), detached(self.slots)


@contextmanager
def no_denormals() -> Iterator[None]:
    """Flush numbers below 1e-38 to 0: a sharp softmin is full of them, and each is slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@torch.no_grad()
def curve(run: DescentRun | FrankWolfeRun, steps: int) -> np.ndarray:  # (steps + 1, batch)
    """f at every iterate, the start first."""
    values = [run.value]
    for _ in range(steps):
        run.step()
        values.append(run.value)
    return torch.stack(values).double().numpy()
