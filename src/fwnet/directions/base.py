"""Direction: where to go from the linearisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move, Term
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.vertices import Slice, Vertex


class Direction(nn.Module, ABC):
    """Chooses the move; a slot that may hold weights.

    Attributes:
        keeps_atoms: whether the iterate must carry an active set.
        line_search: whether its moves are meant for an exact line search, the solver's rule if
            none is given.

    Example:
        >>> [direction.keeps_atoms for direction in (Toward(), Away(), Corrections())]
        [False, True, False]
    """

    keeps_atoms: bool = False
    line_search: bool = False

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        """The state before the first step; raise here if the direction does not fit."""
        return None

    @abstractmethod
    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        """The move from an iterate, and the next state."""


@final
class Toward(Direction):
    """d = vertex − x: the Frank-Wolfe direction.

    On one block of a product, d moves only that block.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), LineSearch(), direction=Toward(), tol=1e-2)(problem).status
        'converged'
    """

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        vertex = lin.vertex
        if type(vertex) is not Slice:
            return toward(problem, it, lin), state
        here = it.x[..., vertex.start : vertex.stop]
        step = Slice(vertex.values - here, vertex.start, vertex.size)
        term = Term(1.0, step, image_if_kept(problem, it, step))
        return Move(it, 0.0, (term,), lin.value, -lin.decrease), state


def toward(problem: Problem, it: Iterate, lin: Linearization) -> Move:
    """The move toward the oracle's vertex."""
    term = Term(1.0, lin.vertex, image_if_kept(problem, it, lin.vertex))
    return Move(it, -1.0, (term,), lin.value, -lin.decrease)


def image_if_kept(problem: Problem, it: Iterate, vertex: Vertex) -> Tensor | None:
    """A v, or None where the iterate keeps no image."""
    return None if it.image is None else problem.vertex_image(vertex)
