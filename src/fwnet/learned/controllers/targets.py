"""TargetDirection: directions to a point of the simplex that a network chooses."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from fwnet.directions import Direction
from fwnet.directions.base import image_if_kept
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate, Move, Term
from fwnet.learned.controllers.base import Controller
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Dense


class TargetDirection(Controller, Direction):
    """d = s − x, s a point of the simplex; a subclass chooses it."""

    @abstractmethod
    def remembered(self, radius: float, x: Tensor) -> Any:
        """The state before the first step, which starts at x."""

    @abstractmethod
    def target(
        self, problem: Problem, x: Tensor, gradient: Tensor, along: Tensor, state: Any
    ) -> tuple[Tensor, Any]:
        """s and the next state; the gradient, and ⟨gradient, x⟩ `(*batch,)`, carry no graph."""

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        assert isinstance(domain, Simplex)
        return self.remembered(domain.radius, it.x)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        gradient = dense_gradient(lin.gradient)
        point, state = self.target(problem, it.x, gradient.detach(), lin.along.detach(), state)
        vertex = Dense(point)
        term = Term(1.0, vertex, image_if_kept(problem, it, vertex))
        slope = vertex.inner(gradient) - lin.along
        return Move(it, -1.0, (term,), lin.value, slope), state
