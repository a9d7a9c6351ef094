"""Corrective Frank-Wolfe for the SVM dual: many vertices a round, minimised over their hull.

    min ½ αᵀQα over the simplex,   Q = yyᵀ∘(k + bias) + diag(1/C)

A round of `fwnet.FrankWolfe` looks at the whole gradient Qα, admits the vertices that violate their
optimality condition most, and moves to the minimum over the hull of all vertices so far, which
compiled pairwise steps find; see `working_set`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import torch

from fwnet.directions import Direction
from fwnet.domains import Domain, Simplex
from fwnet.estimators.svm.store import DualKernel
from fwnet.estimators.svm.working_set import HingeGap, Work, hinge_gap
from fwnet.iterates import Iterate, Move, Term
from fwnet.oracles import Linearization, Oracle
from fwnet.problems import Problem, SVMDual
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant
from fwnet.vertices import Dense

_ZERO = torch.zeros((), dtype=torch.float64)
_ROUNDS = 10**9


@lru_cache(maxsize=8)
def corrective_solver(tol: float) -> FrankWolfe:
    """Full steps to the minimum over the working vertices; the slots' states are in `Work`."""
    return FrankWolfe(
        Simplex(), Constant(1.0), direction=WorkingSet(), oracle=Margins(), tol=tol,
        max_steps=_ROUNDS, refresh_every=_ROUNDS,
    )  # fmt: skip


@final
class Margins(Oracle):
    """The best vertex, with the duality gap of the classifier behind α.

        f(α) − min f <= f(α)·(P − D)/P,   f = ρ/2,   D = 1/(2ρ)

    because min f = 1/(4 D*) and D* <= P. A violation counts squared there, and linearly in the gap
    of Frank-Wolfe, which is much larger near the optimum. The problem is an `SVMDual` whose matrix
    is a `DualKernel` with its `Work`.
    """

    relative = True

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Work:
        return work_of(problem)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert it.image is not None
        found = hinge_gap(state.hinge, it.x.numpy(), it.image.numpy(), state.violations)
        state.found = found
        return _linearized(domain, it, found), state

    def certify(
        self, problem: Problem, domain: Domain, it: Iterate
    ) -> tuple[Iterate, Linearization]:
        assert it.image is not None
        work = work_of(problem)
        work.certified = True
        work.found = work.certificate(it.x.numpy(), it.image.numpy())
        return it, _linearized(domain, it, work.found)

    def patience(self, domain: Domain) -> int:
        return 1  # `WorkingSet` stays only where nothing is left to do


def work_of(problem: Problem) -> Work:
    """The work of a problem whose matrix has one."""
    assert isinstance(problem, SVMDual)
    kernel = problem.form.matrix
    assert isinstance(kernel, DualKernel)
    assert isinstance(kernel.work, Work)
    return kernel.work


def _linearized(domain: Domain, it: Iterate, found: HingeGap) -> Linearization:
    """The linearisation from what a pass over the points has found, in few calls of torch."""
    assert it.image is not None
    vertex, half = domain.vertex(it.image), 0.5 * found.rho
    decrease = found.rho - vertex.inner(it.image)
    numbers = torch.tensor([half, found.rho, half * found.gap], dtype=torch.float64)
    value, along, gap = numbers.unbind()
    return Linearization(value, it.image, along, vertex, decrease, True, gap)


@dataclass(frozen=True, eq=False)
class Arrival(Move):
    """A move whose end is known with its image: the step size is 1, or 0 for `end` = `it`."""

    end: Iterate | None = None

    def arrive(self, step_size: torch.Tensor) -> Iterate:
        return self.it if self.end is None else self.end


@final
class WorkingSet(Direction):
    """To the minimum over the hull of the working vertices, after admitting the worst violators.

    d = y − α,   y = argmin of f over the hull
    """

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Work:
        return work_of(problem)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.image is not None
        found = state.round(problem, it.x.numpy(), it.image.numpy())
        if found is None:
            here = Term(1.0, Dense(it.x, 1), it.image)
            return Arrival(it, -1.0, (here,), lin.value, _ZERO, 0.0), state
        end = Iterate(torch.from_numpy(found[0]), found[1])
        slope = torch.tensor(it.image.numpy() @ found[0] - state.found.rho)
        term = Term(1.0, Dense(end.x, 1), end.image)
        return Arrival(it, -1.0, (term,), lin.value, slope, 1.0, end), state
