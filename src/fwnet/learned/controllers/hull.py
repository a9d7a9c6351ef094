"""HullDirection: what directions share whose safety is a search over a hull."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fwnet.directions import Corrections, Direction
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.numerics.compiled import numba_or_none
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.solvers import FrankWolfe

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets


class HullDirection(Controller, Direction):
    """y − x for the best point y of a hull that learned points are in.

    Attributes:
        hull: the search, with what is learned among its proposals.
    """

    line_search = True
    hull: Corrections

    def build_solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, direction=self, **budgets)

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


@cache
def compiled_code() -> SimpleNamespace | None:
    """The points of one problem in compiled code, if Numba is installed."""
    if numba_or_none() is None:
        return None
    from fwnet.learned.controllers.compiled_atoms import learned_atom
    from fwnet.learned.controllers.compiled_points import learned_point

    return SimpleNamespace(learned_atom=learned_atom, learned_point=learned_point)
