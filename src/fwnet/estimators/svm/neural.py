"""The paper's neural SVM: the dual solved by a Frank-Wolfe network of the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fwnet.domains import Simplex
from fwnet.estimators.svm.kernel_machine import Points, solve_kernel, with_vector
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.margin_problem import BinaryProblem, Expansion, record
from fwnet.layers import FWNet
from fwnet.oracles import Softmin
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe
from fwnet.steps import OpenLoop
from fwnet.trace import Clock, Status, Trace

_DEPTH = 300  # steps of the default network
_PASSES = 6  # making the kernel symmetric so often takes as long as the dual, a step and its gap


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


def solve_network(points: Points, problem: BinaryProblem, limits: Limits, solver: Any) -> Expansion:
    """min ½ αᵀ(yyᵀ∘(k + 1) + diag(1/C))α by the network; its true gap is certified.

    Where the time does not last to build the dual's matrix, the kernel solver returns its start.
    """
    clock, network = Clock(), solver
    if isinstance(solver, str):
        network = default_network(min(limits.max_steps, _DEPTH))
    try:
        with points.gram.kernel.limited(limits.clock):
            kernel, y = np.asarray(points.gram.square(), dtype=np.float64), problem.y
        began = limits.clock.seconds
        symmetric = (kernel + kernel.T) / 2
        if limits.clock.left < _PASSES * (limits.clock.seconds - began):
            raise OutOfTime
    except OutOfTime:
        return solve_kernel(points, problem, limits, "auto")
    K, labels, C = (torch.from_numpy(a) for a in (symmetric, y, problem.box))
    dual = SVMDual(K, labels, C=C, bias=problem.bias == 1.0)
    x, steps = _run(network, dual, limits.clock)
    alpha = np.maximum(x.numpy(), 0.0)
    alpha /= alpha.sum()
    weighted = alpha * y
    scores = kernel @ weighted + problem.bias * weighted.sum()
    found = points.certificate(problem, limits)(weighted, scores + weighted / problem.box)
    trace = Trace()
    record(trace, steps, -found.dual, found.gap, clock)
    limits.show(found.gap)
    status: Status = limits.status(found.gap, steps) or "max_steps"
    coef = problem.scale(found) * weighted
    solved = Expansion(coef, problem.intercept(coef), "fwnet", status, trace)
    return with_vector(points, problem, solved, limits.tol)


@torch.no_grad()
def _run(network: Any, problem: SVMDual, clock: Clock) -> tuple[torch.Tensor, int]:
    """Return the last iterate and the number of steps, fewer than the network's by the clock."""
    if isinstance(network, FrankWolfe):
        result = network(problem, on_step=lambda record: clock.is_over)
        return result.x, int(result.steps)
    steps, x = 0, network.solver.begin(problem, None)[0].x
    for state in network.cells(problem):
        steps, x = steps + 1, state.it.x
        if clock.is_over:
            break
    return x, steps
