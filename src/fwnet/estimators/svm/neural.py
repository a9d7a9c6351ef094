"""The paper's neural SVM: the dual solved by a Frank-Wolfe network of the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fwnet.domains import Simplex
from fwnet.estimators.svm.gram_matrix import DualMatrix
from fwnet.estimators.svm.kernel_machine import Points, solve_kernel, with_vector
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.limits import Limits, OutOfTime, check_time
from fwnet.estimators.svm.margin_problem import BinaryProblem, Expansion, record
from fwnet.layers import FWNet
from fwnet.numerics.linear_maps import DenseMap, LinearMap
from fwnet.oracles import Softmin
from fwnet.problems import SVMDual
from fwnet.solvers import FrankWolfe
from fwnet.steps import OpenLoop
from fwnet.trace import Clock, Recorder, Status

_DEPTH = 300  # steps of the default network
_SECONDS = 1e-8  # at most, for an entry of the matrix: to make it, for a step and for its gap


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
    """min ½ αᵀQα by the network, Q = yyᵀ∘(k + 1) + diag(1/C); its true gap is certified.

    The default network multiplies by Q without building it. One of the user's may need its
    entries. Where the time is too short for either, the kernel solver returns its start.
    """
    recorder, gram, network = Recorder(limits.observers), points.gram, solver
    y, box, bias = problem.y, problem.box, problem.bias
    matrix: LinearMap = DualMatrix(gram, y, box, bias)
    try:
        with gram.kernel.limited(limits.clock):
            if isinstance(solver, str):
                network = default_network(min(limits.max_steps, _DEPTH))
            else:
                kernel = gram.square()
                check_time(Clock(limits.clock.left - _SECONDS * gram.n**2))
                matrix = DenseMap(torch.from_numpy(_signed(kernel, problem)), symmetric=True)
            x, steps = _run(network, SVMDual(matrix, C=None), limits.clock)
    except OutOfTime:
        return solve_kernel(points, problem, limits, "auto")
    alpha = np.maximum(x.numpy(), 0.0)
    alpha /= alpha.sum()
    weighted = alpha * y
    found = points.certificate(problem, limits)(weighted, gram.ridged(weighted, bias, box))
    record(recorder, steps, -found.dual, found.gap)
    status: Status = limits.status(found.gap, steps) or "max_steps"
    coef = problem.scale(found) * weighted
    solved = Expansion(coef, problem.intercept(coef), "fwnet", status, recorder.trace)
    return with_vector(points, problem, solved, limits.tol)


def _signed(kernel: Array, problem: BinaryProblem) -> Array:
    """yyᵀ∘(K + bias) + diag(1/C) in float64, in place: it takes as long as to read it."""
    Q = kernel.astype(np.float64)
    Q += problem.bias
    Q *= problem.y
    Q *= problem.y[:, None]
    Q.flat[:: len(Q) + 1] += 1 / problem.box
    return Q


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
