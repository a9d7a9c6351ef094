"""Optima against scikit-learn, SciPy and CVXPY."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import torch
from sklearn.linear_model import Lasso
from sklearn.svm import SVC, LinearSVC

import fwnet
from cases import F64, csr, forms, labels, normal, seeded, solved

POLYTOPE_SOLVERS = [
    fwnet.AwayFrankWolfe,
    fwnet.PairwiseFrankWolfe,
    fwnet.BlendedPairwise,
    fwnet.Corrective,
]


@pytest.mark.parametrize("make", POLYTOPE_SOLVERS)
@pytest.mark.parametrize("form", ["dense", "csr", "scipy", "free"])
def test_lasso(make: type, form: str) -> None:
    """The constrained form at the radius that the penalised solution has."""
    m, n = 40, 15
    A, b = normal(1, m, n), normal(2, m) + 2.0 * normal(1, m, n)[:, 0]
    model = Lasso(alpha=0.2, fit_intercept=False, tol=1e-14, max_iter=100_000)
    model.fit(A.numpy(), b.numpy())
    wanted = torch.from_numpy(model.coef_)
    radius = float(wanted.abs().sum())
    result = make(fwnet.L1Ball(radius), tol=1e-9, max_steps=5000)(
        fwnet.LeastSquares(forms(A)[form], b)
    )
    assert result.status == "converged"
    torch.testing.assert_close(result.x, wanted, rtol=0, atol=1e-5)


def svm_data() -> tuple[torch.Tensor, torch.Tensor]:
    y = labels(3, 40)
    return normal(4, 40, 3) + y.unsqueeze(-1) * 0.8, y


@pytest.mark.parametrize("C", [0.3, 4.0])
@pytest.mark.parametrize("kernel", [True, False])
def test_svm_dual_is_liblinear_with_half_of_c(C: float, kernel: bool) -> None:
    X, y = svm_data()
    liblinear = LinearSVC(
        C=C / 2,
        loss="squared_hinge",
        dual=False,
        tol=1e-12,
        max_iter=100_000,
        intercept_scaling=1.0,
    )
    liblinear.fit(X.numpy(), y.numpy())
    data = {"K": X @ X.T} if kernel else {"features": X}
    problem = fwnet.SVMDual(y=y, C=C, **data)
    result = fwnet.PairwiseFrankWolfe(
        fwnet.Simplex(), second_order=True, tol=1e-12, max_steps=20_000
    )(problem)
    alpha = result.x * y / (2 * result.value)
    w = torch.cat([X.T @ alpha, alpha.sum().reshape(1)])
    wanted = np.concatenate([liblinear.coef_[0], liblinear.intercept_])
    np.testing.assert_allclose(w.numpy(), wanted, atol=1e-6)
    margins = y * (X @ torch.from_numpy(liblinear.coef_[0]) + float(liblinear.intercept_[0]))
    primal = 0.5 * float((wanted**2).sum()) + C / 2 * float(
        (1 - margins).clamp_min(0).square().sum()
    )
    gap, value = problem.hinge_gap(problem.at(result.x))
    assert float(value) == pytest.approx(primal, rel=1e-7)
    assert float(gap) + 1e-9 >= 0
    assert float(gap) <= 1e-6 * primal
    assert float(1 / (4 * result.value)) == pytest.approx(primal, rel=1e-7)  # strong duality


def test_hinge_gap_bounds_the_distance_to_the_optimum() -> None:
    X, y = svm_data()
    problem = fwnet.SVMDual(X @ X.T, y, C=2.0)
    solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-13, max_steps=20_000)
    best = float(1 / (4 * solver(problem).value))
    for seed in range(5):
        raw = torch.rand(40, dtype=F64, generator=seeded(seed))
        alpha = raw / raw.sum()
        gap, primal = problem.hinge_gap(problem.at(alpha))
        w = X.T @ (alpha * y)
        bias = float((alpha * y).sum())
        rho = 2 * float(problem.value(problem.at(alpha)))
        margins = y * (X @ w + bias) / rho
        by_hand = 0.5 * (float(w @ w) + bias**2) / rho**2 + float(
            (1 - margins).clamp_min(0).square().sum()
        )
        assert float(primal) == pytest.approx(by_hand, rel=1e-10)
        assert float(primal) >= best - 1e-9
        assert float(primal - gap) <= best + 1e-9


def test_hard_margin_is_the_distance_of_two_hulls() -> None:
    """min ½ αᵀ(yyᵀ ∘ K)α over the simplex, no bias: libsvm with a huge C and no intercept."""
    X, y = svm_data()
    X = X + 6.0 * y.unsqueeze(-1)  # separable through the origin
    result = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-12, max_steps=20_000)(
        fwnet.SVMDual(X @ X.T, y, C=None, bias=False)
    )
    x = cp.Variable(3)
    program = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(x)), [cp.multiply(y.numpy(), X.numpy() @ x) >= 1]
    )
    assert float(1 / (4 * result.value)) == pytest.approx(solved(program), rel=1e-6)
    assert SVC(kernel="linear", C=1e6).fit(X.numpy(), y.numpy()).score(X.numpy(), y.numpy()) == 1.0


@pytest.mark.parametrize("make", POLYTOPE_SOLVERS)
def test_logistic_regression_on_the_l1_ball(make: type) -> None:
    X, y = normal(5, 30, 6), labels(6, 30)
    w = cp.Variable(6)
    loss = cp.sum(cp.logistic(cp.multiply(-y.numpy(), X.numpy() @ w))) / 30
    best = solved(cp.Problem(cp.Minimize(loss), [cp.norm1(w) <= 1.2]))
    for data in (X, csr(X)):
        result = make(fwnet.L1Ball(1.2), tol=1e-8, max_steps=3000)(
            fwnet.LogisticRegression(data, y)
        )
        assert result.status == "converged"
        assert float(result.value) == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize(
    "solver",
    [
        fwnet.FrankWolfe(fwnet.TraceNormBall(2.0), fwnet.LineSearch(), tol=1e-3, max_steps=4000),
        fwnet.BlendedPairwise(fwnet.TraceNormBall(2.0), tol=1e-3, max_steps=2000),
        fwnet.Corrective(fwnet.TraceNormBall(2.0), tol=1e-5, max_steps=2000),
        fwnet.FrankWolfe(
            fwnet.TraceNormBall(2.0),
            fwnet.LineSearch(),
            oracle=fwnet.PowerIteration(5),
            tol=1e-3,
            max_steps=4000,
        ),
    ],
    ids=["FrankWolfe", "Blended", "Corrective", "PowerIteration"],
)
def test_softmax_regression_on_the_trace_norm_ball(solver: fwnet.FrankWolfe) -> None:
    X, y = normal(7, 20, 5), torch.randint(0, 3, (20,), generator=seeded(8))
    W = cp.Variable((5, 3))
    scores = X.numpy() @ W
    chosen = cp.sum(cp.multiply(np.eye(3)[y.numpy()], scores))
    loss = (cp.sum(cp.log_sum_exp(scores, axis=1)) - chosen) / 20
    best = solved(cp.Problem(cp.Minimize(loss), [cp.normNuc(W) <= 2.0]))
    result = solver(fwnet.SoftmaxRegression(X, y))
    assert result.status == "converged"
    assert -1e-7 <= float(result.value) - best <= solver.tol


@pytest.mark.parametrize("make", [fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe, fwnet.Corrective])
def test_matrix_completion(make: type) -> None:
    seen = torch.rand(6, 5, generator=seeded(9)) < 0.6
    rows, cols = seen.nonzero().T
    values = (normal(10, 6, 2) @ normal(11, 2, 5))[rows, cols]
    X = cp.Variable((6, 5))
    residual = (
        cp.hstack([X[int(i), int(j)] for i, j in zip(rows, cols, strict=True)]) - values.numpy()
    )
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(residual)), [cp.normNuc(X) <= 3.0])
    best = solved(program)
    result = make(fwnet.TraceNormBall(3.0), fwnet.LineSearch(), tol=1e-3, max_steps=3000)(
        fwnet.MatrixCompletion(rows, cols, values, (6, 5))
    )
    assert result.status == "converged"
    assert -1e-7 <= float(result.value) - best <= 1e-3


def test_a_function_on_a_polytope_against_scipy() -> None:
    """Rosenbrock-like, not quadratic, on a box: L-BFGS-B finds the same minimum."""
    target = normal(12, 5)

    def objective(x: torch.Tensor) -> torch.Tensor:
        return ((x - target) ** 4).sum() + torch.logsumexp(x, 0)

    wanted = scipy.optimize.minimize(
        lambda x: float(objective(torch.from_numpy(x))),
        np.zeros(5),
        method="L-BFGS-B",
        bounds=[(-0.3, 0.3)] * 5,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    for make in (fwnet.FrankWolfe, fwnet.AwayFrankWolfe, fwnet.PairwiseFrankWolfe):
        solver = make(fwnet.Box(-0.3, 0.3), fwnet.LineSearch(), tol=1e-6, max_steps=5000)
        result = solver(objective, torch.zeros(5, dtype=F64))
        assert float(result.value) == pytest.approx(float(wanted.fun), abs=1e-5)


def test_stochastic_gets_near() -> None:
    A = normal(13, 500, 10)
    truth = torch.zeros(10, dtype=F64)
    truth[:3] = torch.tensor([0.5, -0.3, 0.2])
    problem = fwnet.LeastSquares(A, A @ truth + 0.1 * normal(14, 500))
    best = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(1.0), tol=1e-9, max_steps=5000)(problem)
    start = float(problem.value(problem.at(torch.zeros(10, dtype=F64))))
    result = fwnet.StochasticFrankWolfe(fwnet.L1Ball(1.0), batch_size=50, max_steps=1000, tol=0.0)(
        problem
    )
    assert float(result.value - best.value) <= 0.02 * (start - float(best.value))
    assert float(result.gap) >= float(result.value - best.value) - 1e-9
    other = fwnet.StochasticFrankWolfe(
        fwnet.L1Ball(1.0), batch_size=50, max_steps=20, generator=seeded(5)
    )(problem)
    assert not torch.equal(other.x, result.x)


def test_spectraplex_finds_the_smallest_eigenvalue() -> None:
    C = normal(15, 5, 5)
    C = C + C.T
    result = fwnet.minimize(
        lambda X: (C * X).sum(), fwnet.Spectraplex(), torch.eye(5, dtype=F64) / 5, tol=1e-8
    )
    assert float(result.value) == pytest.approx(float(torch.linalg.eigvalsh(C)[0]), abs=1e-8)
