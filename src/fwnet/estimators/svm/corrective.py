"""Corrective Frank-Wolfe for the SVM dual: many vertices a round, minimised over their hull.

    min ½ αᵀQα over the simplex,   Q = yyᵀ∘(k + bias) + diag(1/C)
    min ½ uᵀQu − yᵀu + ε|u|₁ over an l1 ball,   Q = k + bias + diag(1/C), for a regression

A round of `fwnet.FrankWolfe` looks at the whole gradient, admits the vertices that violate their
optimality condition most, and moves to the minimum over the hull of all vertices so far, which
compiled pairwise steps find; see `working_set`. The ball is so large that the minimum is inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np
import torch

from fwnet.directions import Direction
from fwnet.domains import Domain, Simplex
from fwnet.estimators.svm.gaps import dual_gap
from fwnet.estimators.svm.gram_matrix import DualMatrix
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.working_set import WorkingSet
from fwnet.iterates import Iterate, Move, Term
from fwnet.oracles import Linearization, Oracle, linearize
from fwnet.problems import Problem, Quadratic, SVMDual
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant
from fwnet.vertices import Dense

_ZERO = torch.zeros((), dtype=torch.float64)
_ROUNDS = 10**9


@lru_cache(maxsize=8)
def simplex_solver(tol: float) -> FrankWolfe:
    """The solver over the simplex: the same for many fits."""
    return corrective_solver(Simplex(), tol)


def corrective_solver(domain: Domain, tol: float) -> FrankWolfe:
    """Full steps to the minimum over the hull of a `WorkingSet`, which is the slots' state."""
    return FrankWolfe(
        domain, Constant(1.0), direction=ToHullMinimum(), oracle=BestVertex(), tol=tol,
        max_steps=_ROUNDS, refresh_every=_ROUNDS, compiled=False,
    )  # fmt: skip


@final
class BestVertex(Oracle):
    """The best vertex, with the bound by the duality gap of the machine; see `MarginProblem.bound`.

    A violation counts squared there, and linearly in the gap of Frank-Wolfe, which is much larger
    near the optimum. The matrix of the problem is a `DualMatrix` with its `WorkingSet`; the vertex
    is that of the quadratic without ε|u|₁.
    """

    relative_tol = True

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> WorkingSet:
        return working_set_of(problem)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        state.found = dual_gap(state.problem, *signed(problem, it), state.violations)
        state.lin = linearize(problem, domain, it)
        return _bounded(state), state

    def certify(
        self, problem: Problem, domain: Domain, it: Iterate
    ) -> tuple[Iterate, Linearization]:
        working = working_set_of(problem)
        working.certified = True
        working.found = working.certificate(*signed(problem, it))
        return it, _bounded(working)  # at the iterate that `forward` has seen

    def patience(self, domain: Domain) -> int:
        return 1  # `ToHullMinimum` stays only where nothing is left to do


def working_set_of(problem: Problem) -> WorkingSet:
    """The working set of a problem whose matrix has one."""
    working = _matrix(problem).working_set
    assert isinstance(working, WorkingSet)
    return working


def signed(problem: Problem, it: Iterate) -> tuple[Array, Array]:
    """Return u and z of an iterate, see `MarginProblem`."""
    assert it.image is not None
    labels = _matrix(problem).y
    return labels * it.x.numpy(), labels * it.image.numpy()


def unsigned(problem: Problem, u: Array, z: Array | None) -> Iterate:
    """Return the iterate of u and, if it is known, z."""
    labels = _matrix(problem).y
    x = torch.from_numpy(labels * u)
    return problem.at(x) if z is None else Iterate(x, torch.from_numpy(labels * z))


def _matrix(problem: Problem) -> DualMatrix:
    form = problem.form if isinstance(problem, SVMDual) else problem
    assert isinstance(form, Quadratic)
    assert isinstance(form.matrix, DualMatrix)
    return form.matrix


def _bounded(working: WorkingSet) -> Linearization:
    """The last linearisation with the value and the bound of the last `DualGap`."""
    numbers = np.array((working.found.value, working.problem.bound(working.found)))
    value, gap = torch.from_numpy(numbers).unbind()
    return replace(working.lin, value=value, gap=gap)


@dataclass(frozen=True, eq=False)
class Arrival(Move):
    """A move whose end is known with its image: the step size is 1, or 0 for `end` = `it`."""

    end: Iterate | None = None

    def arrive(self, step_size: torch.Tensor) -> Iterate:
        return self.it if self.end is None else self.end


@final
class ToHullMinimum(Direction):
    """To the minimum over the hull of the working vertices, after admitting the worst violators.

    d = y − α,   y = argmin of f over the hull
    """

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> WorkingSet:
        return working_set_of(problem)

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        found = state.round(*signed(problem, it))
        if found is None:
            here = Term(1.0, Dense(it.x, 1), it.image)
            return Arrival(it, -1.0, (here,), lin.value, _ZERO, 0.0), state
        end = unsigned(problem, *found)
        assert isinstance(lin.gradient, torch.Tensor)
        slope = end.x.dot(lin.gradient) - lin.along
        term = Term(1.0, Dense(end.x, 1), end.image)
        return Arrival(it, -1.0, (term,), lin.value, slope, 1.0, end), state
