"""One list of every rule, domain and solver that the laws run on; a new class is one line.

Constraints and objectives are written a second time here, so that nothing checks itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse
import torch
from torch import Tensor

import domains.cases as known
import fwnet
from fwnet.iterates import Iterate, Move
from fwnet.oracles import Linearization

F64 = torch.float64
FEASIBLE = {torch.float32: 1e-6, torch.float64: 1e-10}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=seeded(seed))


def labels(seed: int, *shape: int) -> Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=seeded(seed)).double() - 1.0


# Rules ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RuleCase:
    name: str
    make: Callable[[], Any]
    monotone: bool = False  # f never rises, on quadratics
    everywhere: bool = False  # nor on other smooth f

    def __str__(self) -> str:
        return self.name


RULES = [
    RuleCase("OpenLoop", fwnet.OpenLoop),
    RuleCase("OpenLoop10", lambda: fwnet.OpenLoop(offset=10)),
    RuleCase("LogOpenLoop", fwnet.LogOpenLoop),
    RuleCase("Constant", lambda: fwnet.Constant(0.2)),
    RuleCase("LineSearch", fwnet.LineSearch, True, True),
    RuleCase("OverRelaxed", lambda: fwnet.OverRelaxed(1.7), True),
    RuleCase("ShortStep", fwnet.ShortStep, True, True),
    RuleCase("Backtracking", fwnet.Backtracking, True, True),
    RuleCase("Armijo", fwnet.Armijo, True, True),
    RuleCase("Monotonic", fwnet.Monotonic, True, True),
    RuleCase("callable", lambda: lambda t: 1.0 / (t + 1)),
    RuleCase("too_far", lambda: lambda t: 7.0),
    RuleCase("backward", lambda: lambda t: torch.tensor(-1.0, dtype=F64)),
]


# Domains ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DomainCase:
    """What is known of a domain, and its constraints for CVXPY."""

    facts: known.Case
    constraints: Callable[[Any], list[Any]]

    def __str__(self) -> str:
        return type(self.domain).__name__

    @property
    def domain(self) -> fwnet.Domain:
        return self.facts.domain

    @property
    def shape(self) -> tuple[int, ...]:
        return self.facts.shape

    @property
    def violation(self) -> Callable[[Tensor], Tensor]:
        """Points (N, *shape), float64 -> by how much they leave it, (N,)."""
        return self.facts.violation

    @property
    def size(self) -> float:
        return max(1.0, self.domain.diameter(self.shape))


# Radii that float32 cannot represent, to reveal a float32 step within float64 code.
PARTS = [known.simplex(3, 1.0), known.l1(3, 0.7), known.box(2, 0.0, 1.0)]
DOMAINS = [
    DomainCase(known.simplex(8, 2.1), lambda x: [x >= 0, cp.sum(x) == 2.1]),
    DomainCase(known.hyper_simplex(8, 3, 0.6), lambda x: [x >= 0, x <= 0.6, cp.sum(x) == 1.8]),
    DomainCase(known.l1(8, 1.3), lambda x: [cp.norm1(x) <= 1.3]),
    DomainCase(known.l2(8, 0.8), lambda x: [cp.sum_squares(x) <= 0.64]),
    DomainCase(known.l_inf(8, 0.3), lambda x: [cp.norm_inf(x) <= 0.3]),
    DomainCase(known.box(8, -0.2, 0.4), lambda x: [x >= -0.2, x <= 0.4]),
    DomainCase(known.k_sparse(8, 2, 0.6), lambda x: [cp.norm1(x) <= 1.2, cp.norm_inf(x) <= 0.6]),
    DomainCase(
        known.product(PARTS),
        lambda x: [
            x[:3] >= 0,
            cp.sum(x[:3]) == 1,
            cp.norm1(x[3:6]) <= 0.7,
            x[6:] >= 0,
            x[6:] <= 1,
        ],
    ),
    DomainCase(known.trace_norm(4, 3, 1.3), lambda x: [cp.normNuc(x) <= 1.3]),
    DomainCase(known.spectral(4, 3, 0.6), lambda x: [cp.sigma_max(x) <= 0.6]),
    DomainCase(known.birkhoff(3), lambda x: [x >= 0, cp.sum(x, 0) == 1, cp.sum(x, 1) == 1]),
]
SIMPLEX, L1, PRODUCT, TRACE_NORM = DOMAINS[0], DOMAINS[2], DOMAINS[7], DOMAINS[8]


# Solvers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SolverCase:
    name: str
    make: Callable[..., fwnet.FrankWolfe]  # (domain, rule, **budgets)
    looks: bool = True  # takes rules that evaluate f
    product_only: bool = False
    precise: bool = False  # converges linearly on polytopes

    def __str__(self) -> str:
        return self.name

    def suits(self, case: DomainCase) -> bool:
        return isinstance(case.domain, fwnet.Product) or not self.product_only

    def rules(self) -> Iterator[RuleCase]:
        return (
            rule for rule in RULES if self.looks or not rule.monotone or rule.name == "ShortStep"
        )


def _second_order(domain: fwnet.Domain, rule: Any = None, **budgets: Any) -> fwnet.FrankWolfe:
    return fwnet.PairwiseFrankWolfe(domain, rule, second_order=True, **budgets)


def _stochastic(domain: fwnet.Domain, rule: Any = None, **budgets: Any) -> fwnet.FrankWolfe:
    return fwnet.StochasticFrankWolfe(domain, rule, batch_size=4, **budgets)


def _averaging(domain: fwnet.Domain, rule: Any = None, **budgets: Any) -> fwnet.FrankWolfe:
    return fwnet.FrankWolfe(domain, rule, direction=fwnet.Averaging(), **budgets)


SOLVERS = [
    SolverCase("FrankWolfe", fwnet.FrankWolfe),
    SolverCase("Away", fwnet.AwayFrankWolfe, precise=True),
    SolverCase("Pairwise", fwnet.PairwiseFrankWolfe, precise=True),
    SolverCase("SecondOrder", _second_order, precise=True),
    SolverCase("Blended", fwnet.BlendedPairwise, precise=True),
    SolverCase("Corrective", fwnet.Corrective, precise=True),
    SolverCase("Averaging", _averaging),
    SolverCase("Lazy", fwnet.LazyFrankWolfe),
    SolverCase("Stochastic", _stochastic, looks=False),
    SolverCase("Blocks", fwnet.BlockCoordinateFrankWolfe, product_only=True),
]
PAIRS = [(solver, case) for solver in SOLVERS for case in DOMAINS if solver.suits(case)]


def walk(
    solver: fwnet.FrankWolfe, problem: fwnet.Problem, x0: Any, steps: int
) -> Iterator[tuple[Iterate, Linearization, Move, Tensor, Iterate]]:
    """The solver step by step: iterate, linearisation, move, step size, next iterate."""
    with torch.no_grad():
        it, state = solver.begin(problem, x0)
        for _ in range(steps):
            lin, state = solver.look(problem, it, state)
            move, step_size, state = solver.choose(problem, it, lin, state)
            there = move.arrive(step_size)
            yield it, lin, move, step_size, there
            it = there


# Problems ---------------------------------------------------------------------------------------


def csr(A: Tensor) -> Tensor:
    """Hide torch's warning, once per process, that CSR tensors are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return A.to_sparse_csr()


def forms(A: Tensor) -> dict[str, Any]:
    """One matrix in every form that a problem accepts."""
    return {
        "dense": A,
        "csr": csr(A),
        "coo": A.to_sparse_coo(),
        "scipy": scipy.sparse.coo_matrix(A.numpy()),
        "free": fwnet.MatrixFree(lambda x: A @ x, lambda z: A.T @ z, tuple(A.shape), F64),
    }


def sparse_like(seed: int, *shape: int) -> Tensor:
    keep = torch.rand(*shape, generator=seeded(seed + 1000)) < 0.6
    return normal(seed, *shape) * keep


def spd(seed: int, n: int, rank: int) -> Tensor:
    root = normal(seed, n, rank)
    return root @ root.T


def problem_for(case: DomainCase, dtype: torch.dtype = F64) -> fwnet.Problem:
    """A quadratic on the domain whose optimum is on the boundary, not a vertex."""
    if len(case.shape) == 1:
        return fwnet.LeastSquares(normal(30, 12, *case.shape).to(dtype), normal(31, 12).to(dtype))
    places = torch.cartesian_prod(*(torch.arange(k) for k in case.shape))
    return fwnet.MatrixCompletion(*places.T, _target(case).flatten().to(dtype), case.shape)


def _target(case: DomainCase) -> Tensor:
    return normal(32, *case.shape)


def sampled_problem_for(case: DomainCase, dtype: torch.dtype = F64) -> fwnet.Problem:
    """A sum of terms."""
    if len(case.shape) == 1:
        return problem_for(case, dtype)
    d, m = case.shape
    y = torch.randint(0, m, (12,), generator=seeded(33))
    return fwnet.SoftmaxRegression(normal(34, 12, d).to(dtype), y, m)


def suited_problem(solver: SolverCase, case: DomainCase, dtype: torch.dtype = F64) -> fwnet.Problem:
    return problem_for(case, dtype) if solver.looks else sampled_problem_for(case, dtype)


def best_value(case: DomainCase) -> float:
    """min f of `problem_for`, by CVXPY."""
    return _solved(DOMAINS.index(case))


@cache
def _solved(index: int) -> float:
    case = DOMAINS[index]
    x = cp.Variable(case.shape)
    if len(case.shape) == 1:
        residual = normal(30, 12, *case.shape).numpy() @ x - normal(31, 12).numpy()
    else:
        residual = cp.vec(x - _target(case).numpy(), order="C")
    objective = cp.Minimize(0.5 * cp.sum_squares(residual))
    return solved(cp.Problem(objective, case.constraints(x)))


def solved(problem: Any) -> float:
    """The optimum by an interior-point method, to about ten digits."""
    value = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status == "optimal"
    return float(np.asarray(value))
