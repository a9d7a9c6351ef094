"""The paper's neural SVM: the dual solved by a Frank-Wolfe network of the core."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from fwnet.domains import Simplex
from fwnet.estimators.svm.kernel_machine import Points, certified_machine, in_double
from fwnet.estimators.svm.records import (
    BinaryProblem,
    Budget,
    Machine,
    Round,
    Weights,
    relative_gap,
)
from fwnet.layers import FWNet
from fwnet.oracles import Softmin
from fwnet.problems import Quadratic
from fwnet.solvers import FrankWolfe
from fwnet.steps import OpenLoop

_DEPTH = 300  # steps of the default network


def is_network(solver: Any) -> bool:
    """Whether a `solver` argument asks for a network: "fwnet", an `FWNet` or a core solver."""
    return isinstance(solver, (FWNet, FrankWolfe)) or (
        isinstance(solver, str) and solver == "fwnet"
    )


def check_network(solver: Any) -> None:
    """Raise unless a network or core solver works on the simplex, where the dual lives."""
    core = solver.solver if isinstance(solver, FWNet) else solver
    if isinstance(core, FrankWolfe) and not isinstance(core.domain, Simplex):
        raise ValueError(f"solver must work over fwnet.Simplex(); got one over {core.domain}.")


def default_network(depth: int) -> FWNet:
    """Softmin with a relative, annealed β, as many steps as `depth`.

    2/(t + 30) in place of 2/(t + 2): the first step must not forget the start.
    """
    oracle = Softmin(10.0, relative=True, growth=0.5)
    return FWNet(FrankWolfe(Simplex(), OpenLoop(30.0), oracle=oracle, max_steps=depth))


def solve_network(points: Points, problem: BinaryProblem, budget: Budget, solver: Any) -> Machine:
    """min ½ αᵀ(yyᵀ∘(k + 1) + diag(1/C))α by the network; its true gap is certified."""
    started = time.perf_counter()
    network = solver
    if isinstance(solver, str):
        network = default_network(min(budget.max_steps, _DEPTH))
    kernel, y = np.asarray(points.columns.square(), dtype=np.float64), problem.y
    Q = y[:, None] * (kernel + problem.bias) * y + np.diag(1.0 / problem.box)
    with torch.no_grad():
        result = network(Quadratic(torch.from_numpy((Q + Q.T) / 2)))
    alpha = np.maximum(result.x.numpy(), 0.0)
    alpha /= alpha.sum()
    weighted = alpha * y
    scores = kernel @ weighted + problem.bias * weighted.sum()
    rho, gap = relative_gap(problem, alpha, scores)
    steps = int(result.steps)
    seconds = time.perf_counter() - started
    record = Round(steps, 0.5 / rho, gap, int(np.count_nonzero(alpha)), seconds)
    stopped = "tolerance" if gap <= budget.tol else "max_iter"
    found = Weights(alpha, scores, rho, gap, steps, stopped, "fwnet", [record])
    found = in_double(points, problem, found)
    return certified_machine(points, problem, found, budget.tol)
