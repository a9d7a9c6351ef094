"""Oracle: how a solver asks the domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.problems import Gradient, Problem
from fwnet.vertices import Vertex


@final
@dataclass(frozen=True, eq=False)
class Linearization:
    """What a step knows of the objective.

    Arguments:
        value: f(x), `(*batch,)`.
        gradient: ∇f(x), or an estimate of it.
        along: ⟨gradient, x⟩, `(*batch,)`.
        vertex: the oracle's answer to the gradient.
        decrease: ⟨gradient, x − vertex⟩, `(*batch,)`.
        exact: gradient and vertex are true, so `decrease` is the duality gap; else an estimate.
    """

    value: Tensor
    gradient: Gradient
    along: Tensor
    vertex: Vertex
    decrease: Tensor
    exact: bool


class Oracle(nn.Module, ABC):
    """Linearise f at x and ask the domain for a vertex; a slot that may hold weights.

    Attributes:
        reads_image: whether the oracle needs Ax kept up to date from step to step.
        certifies: whether the oracle asks for the true gap by itself, often enough to stop on it.
    """

    reads_image: bool = True
    certifies: bool = False

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        """The state before the first step; raise here if the oracle does not fit the domain."""
        return None

    @abstractmethod
    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        """The linearisation at an iterate, and the next state."""

    def patience(self, domain: Domain) -> int:
        """After how many steps of size 0 in a row a solve has stalled."""
        return 10


@final
class Exact(Oracle):
    """vertex = argmin over v in the domain of ⟨∇f(x), v⟩; its decrease is the duality gap."""

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        return linearize(problem, domain, it), state


def linearize(problem: Problem, domain: Domain, it: Iterate) -> Linearization:
    """The true linearisation: exact gradient, exact oracle, certified gap."""
    value, gradient, along = problem.first_order(it)
    vertex = domain.vertex(gradient)
    return Linearization(value, gradient, along, vertex, along - vertex.inner(gradient), exact=True)
