"""HullDirection: the base of directions that are safe because they search a hull."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fwnet.directions import Corrections, Direction
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.oracles import Linearization
from fwnet.problems import Problem


class HullDirection(Controller, Direction):
    """y − x for the best point y of a hull that contains learned points.

    Attributes:
        hull: the search, with what is learned among its proposals.
    """

    line_search = True
    hull: Corrections

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        return self.hull.init(problem, domain, it)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        move: Move
        move, state = self.hull(problem, it, lin, state)
        return move, state


def is_single(x: Tensor) -> bool:
    """Whether x is one problem on the CPU, without gradients: then calls cost more than work."""
    plain = x.ndim == 1 and not torch.is_grad_enabled() and x.device.type == "cpu"
    return plain and not torch.compiler.is_compiling()
