"""One list of every rule, solver, domain and problem that the laws run on; a class joins by a line.

Constraints and objectives are written a second time here, so that nothing checks itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional

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
    """A domain with its constraints for CVXPY, and by how much points leave it."""

    domain: fwnet.Domain
    shape: tuple[int, ...]
    constraints: Callable[[Any], list[Any]]
    violation: Callable[[Tensor], Tensor]  # points (N, *shape), float64 -> (N,)

    def __str__(self) -> str:
        return type(self.domain).__name__

    @property
    def size(self) -> float:
        return max(1.0, self.domain.diameter(self.shape))


def _worst(*errors: Tensor) -> Tensor:
    return torch.stack([error.flatten(1).amax(-1) for error in errors]).amax(0)


def _sum_and_caps(total: float, cap: float) -> Callable[[Tensor], Tensor]:
    return lambda x: _worst(-x, x - cap, (x.sum(-1, keepdim=True) - total).abs())


def _svals(x: Tensor) -> Tensor:
    return torch.linalg.svdvals(x)


# Radii that float32 cannot hold, so that a float32 step on the way of float64 shows.
DOMAINS = [
    DomainCase(
        fwnet.Simplex(2.1), (8,), lambda x: [x >= 0, cp.sum(x) == 2.1], _sum_and_caps(2.1, 2.1)
    ),
    DomainCase(
        fwnet.HyperSimplex(3, 0.6),
        (8,),
        lambda x: [x >= 0, x <= 0.6, cp.sum(x) == 1.8],
        _sum_and_caps(1.8, 0.6),
    ),
    DomainCase(
        fwnet.L1Ball(1.3),
        (8,),
        lambda x: [cp.norm1(x) <= 1.3],
        lambda x: x.abs().sum(-1) - 1.3,
    ),
    DomainCase(
        fwnet.L2Ball(0.8),
        (8,),
        lambda x: [cp.sum_squares(x) <= 0.64],
        lambda x: x.norm(dim=-1) - 0.8,
    ),
    DomainCase(
        fwnet.LInfBall(0.3),
        (8,),
        lambda x: [cp.norm_inf(x) <= 0.3],
        lambda x: x.abs().amax(-1) - 0.3,
    ),
    DomainCase(
        fwnet.Box(-0.2, 0.4),
        (8,),
        lambda x: [x >= -0.2, x <= 0.4],
        lambda x: _worst(x - 0.4, -0.2 - x),
    ),
    DomainCase(
        fwnet.KSparseBall(2, 0.6),
        (8,),
        lambda x: [cp.norm1(x) <= 1.2, cp.norm_inf(x) <= 0.6],
        lambda x: torch.maximum(x.abs().sum(-1) - 1.2, x.abs().amax(-1) - 0.6),
    ),
    DomainCase(
        fwnet.Product(
            (fwnet.Simplex(), fwnet.L1Ball(0.7), fwnet.Box(0.0, 1.0)), ((3,), (3,), (2,))
        ),
        (8,),
        lambda x: [
            x[:3] >= 0,
            cp.sum(x[:3]) == 1,
            cp.norm1(x[3:6]) <= 0.7,
            x[6:] >= 0,
            x[6:] <= 1,
        ],
        lambda x: torch.stack(
            [
                _sum_and_caps(1.0, 1.0)(x[:, :3]),
                x[:, 3:6].abs().sum(-1) - 0.7,
                _worst(x[:, 6:] - 1.0, -x[:, 6:]),
            ]
        ).amax(0),
    ),
    DomainCase(
        fwnet.TraceNormBall(1.3),
        (4, 3),
        lambda x: [cp.normNuc(x) <= 1.3],
        lambda x: _svals(x).sum(-1) - 1.3,
    ),
    DomainCase(
        fwnet.SpectralBall(0.6),
        (4, 3),
        lambda x: [cp.sigma_max(x) <= 0.6],
        lambda x: _svals(x)[:, 0] - 0.6,
    ),
    DomainCase(
        fwnet.Birkhoff(3),
        (3, 3),
        lambda x: [x >= 0, cp.sum(x, 0) == 1, cp.sum(x, 1) == 1],
        lambda x: _worst(-x, (x.sum(-1) - 1).abs(), (x.sum(-2) - 1).abs()),
    ),
]
SIMPLEX, L1, PRODUCT, TRACE_NORM = DOMAINS[0], DOMAINS[2], DOMAINS[7], DOMAINS[8]


# Solvers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SolverCase:
    name: str
    make: Callable[..., fwnet.FrankWolfe]  # (domain, rule, **budgets)
    looks: bool = True  # takes rules that look at f
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


SOLVERS = [
    SolverCase("FrankWolfe", fwnet.FrankWolfe),
    SolverCase("Away", fwnet.AwayFrankWolfe, precise=True),
    SolverCase("Pairwise", fwnet.PairwiseFrankWolfe, precise=True),
    SolverCase("SecondOrder", _second_order, precise=True),
    SolverCase("Blended", fwnet.BlendedPairwise, precise=True),
    SolverCase("Corrective", fwnet.Corrective, precise=True),
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


@dataclass(frozen=True, eq=False)
class ProblemCase:
    """A problem and the same objective in plain torch."""

    name: str
    problem: fwnet.Problem
    value: Callable[[Tensor], Tensor]  # x -> f(x), or (batch,)
    convex: bool = True
    tags: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.name

    @property
    def batched(self) -> bool:
        return self.problem.batch_dims == 1

    @property
    def point(self) -> tuple[int, ...]:
        assert self.problem.shape is not None
        return tuple(self.problem.shape[self.problem.batch_dims :])

    def sample(self, seed: int) -> Tensor:
        assert self.problem.shape is not None
        return 0.5 * normal(seed, *self.problem.shape)


def csr(A: Tensor) -> Tensor:
    """torch calls its CSR tensors a beta, once per process: that is the caller's warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return A.to_sparse_csr()


def forms(A: Tensor) -> dict[str, Any]:
    """One matrix as everything that a problem takes for it."""
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


def _least_squares(A: Tensor, b: Tensor, ridge: Any = 0.0) -> Callable[[Tensor], Tensor]:
    def value(x: Tensor) -> Tensor:
        residual = (A @ x.unsqueeze(-1)).squeeze(-1) - b
        return 0.5 * residual.square().sum(-1) + 0.5 * (ridge * x * x).sum(-1)

    return value


def _quadratic(K: Tensor, c: Any = 0.0) -> Callable[[Tensor], Tensor]:
    return lambda x: 0.5 * (x * (K @ x.unsqueeze(-1)).squeeze(-1)).sum(-1) + (c * x).sum(-1)


def _logistic(X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda w: torch.log1p(torch.exp(-y * (X @ w.unsqueeze(-1)).squeeze(-1))).mean(-1)


def _softmax(X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    def value(W: Tensor) -> Tensor:
        z = X @ W
        each = functional.cross_entropy(z.flatten(0, -2), y.flatten(), reduction="none")
        return each.reshape(y.shape).mean(-1)

    return value


def _svm(X: Tensor, y: Tensor, C: float) -> Callable[[Tensor], Tensor]:
    Q = y.unsqueeze(-1) * (X @ X.mT + 1.0) * y.unsqueeze(-2) + torch.eye(X.shape[-2]) / C
    return _quadratic(Q)


@cache
def problems() -> list[ProblemCase]:
    m, n = 9, 8
    A, b = sparse_like(1, m, n), normal(2, m)
    K, c = spd(3, n, 5), normal(4, n)
    ridge = torch.rand(n, dtype=F64, generator=seeded(5))
    y = labels(6, m)
    cases: list[ProblemCase] = []
    for form, matrix in forms(A).items():
        tags = frozenset({form})
        cases += [
            ProblemCase(
                f"LeastSquares-{form}",
                fwnet.LeastSquares(matrix, b),
                _least_squares(A, b),
                tags=tags,
            ),
            ProblemCase(
                f"LeastSquares-ridge-{form}",
                fwnet.LeastSquares(matrix, b, ridge),
                _least_squares(A, b, ridge),
                tags=tags,
            ),
            ProblemCase(
                f"LogisticRegression-{form}",
                fwnet.LogisticRegression(matrix, y),
                _logistic(A, y),
                tags=tags,
            ),
        ]
    for form, matrix in forms(K).items():
        cases.append(ProblemCase(f"Quadratic-{form}", fwnet.Quadratic(matrix, c), _quadratic(K, c)))
    B = 3
    Ab, bb, yb = normal(7, B, m, n), normal(8, B, m), labels(9, B, m)
    Kb = torch.stack([spd(10 + i, n, 5) for i in range(B)])
    cb = normal(13, B, n)
    X, targets = normal(14, m, 4), torch.randint(0, 3, (m,), generator=seeded(15))
    Xb, targets_b = normal(16, B, m, 4), torch.randint(0, 3, (B, m), generator=seeded(17))
    points, sides = normal(18, n, 3), labels(19, n)
    points_b, sides_b = normal(20, B, n, 3), labels(21, B, n)
    rows = torch.tensor([0, 0, 1, 2, 3, 3, 3, 1, 0])
    cols = torch.tensor([0, 2, 1, 1, 0, 1, 2, 1, 2])  # (1, 1) and (0, 2) are seen twice
    seen = normal(22, len(rows))
    M, all_seen = normal(23, 4, 3), torch.cartesian_prod(torch.arange(4), torch.arange(3))
    gram, gram_b = points @ points.T, points_b @ points_b.mT
    cases += [
        ProblemCase(
            "LeastSquares-batch", fwnet.LeastSquares(Ab, bb, 0.3), _least_squares(Ab, bb, 0.3)
        ),
        ProblemCase("LeastSquares-shared", fwnet.LeastSquares(A, bb), _least_squares(A, bb)),
        ProblemCase(
            "LeastSquares-shared-csr",
            fwnet.LeastSquares(csr(A), bb),
            _least_squares(A, bb),
        ),
        ProblemCase(
            "LeastSquares-shared-free",
            fwnet.LeastSquares(forms(A)["free"], bb, ridge),
            _least_squares(A, bb, ridge),
        ),
        ProblemCase("Quadratic-no-c", fwnet.Quadratic(K), _quadratic(K)),
        ProblemCase("Quadratic-batch", fwnet.Quadratic(Kb, cb), _quadratic(Kb, cb)),
        ProblemCase("Quadratic-batch-one-c", fwnet.Quadratic(Kb, c), _quadratic(Kb, c)),
        ProblemCase("Quadratic-shared", fwnet.Quadratic(K, cb), _quadratic(K, cb)),
        ProblemCase("Quadratic-shared-csr", fwnet.Quadratic(csr(K), cb), _quadratic(K, cb)),
        ProblemCase("Logistic-batch", fwnet.LogisticRegression(Ab, yb), _logistic(Ab, yb)),
        ProblemCase("Softmax", fwnet.SoftmaxRegression(X, targets), _softmax(X, targets)),
        ProblemCase(
            "Softmax-batch", fwnet.SoftmaxRegression(Xb, targets_b), _softmax(Xb, targets_b)
        ),
        ProblemCase("SVM-kernel", fwnet.SVMDual(gram, sides, C=2.0), _svm(points, sides, 2.0)),
        ProblemCase(
            "SVM-features", fwnet.SVMDual(y=sides, features=points, C=2.0), _svm(points, sides, 2.0)
        ),
        ProblemCase("SVM-paper", fwnet.SVMDual(gram, C=0.5), _quadratic(gram + 2.0 * torch.eye(n))),
        ProblemCase(
            "SVM-batch", fwnet.SVMDual(gram_b, sides_b, C=2.0), _svm(points_b, sides_b, 2.0)
        ),
        ProblemCase(
            "SVM-batch-features",
            fwnet.SVMDual(y=sides_b, features=points_b, C=2.0),
            _svm(points_b, sides_b, 2.0),
        ),
        ProblemCase(
            "Completion",
            fwnet.MatrixCompletion(rows, cols, seen, (4, 3)),
            lambda W: 0.5 * (W[rows, cols] - seen).square().sum(),
        ),
        ProblemCase(
            "Completion-full",
            fwnet.MatrixCompletion(*all_seen.T.int(), M.flatten(), (4, 3)),
            lambda W: 0.5 * (W - M).square().sum(),
        ),
    ]
    return cases


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
