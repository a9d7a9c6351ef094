"""Families: what they draw, their minima against other solvers, their splits, their errors."""

from __future__ import annotations

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

import fwnet
from fwnet import learned
from fwnet.iterates import Iterate
from fwnet.learned import families
from fwnet.numerics.linear_maps import DenseMap
from learned_cases import seeded, svm_family, two_gaussians

FAMILIES = {
    "svm": svm_family(n=(12, 24)),
    "quadratic": families.QuadraticFamily(n=(8, 16), dtype=torch.float64),
    "given spectrum": families.QuadraticFamily(spectrum=torch.linspace(0.1, 1, 7)),
    "quadratic, l1": families.QuadraticFamily(n=9, domain=fwnet.L1Ball(2.0), dtype=torch.float64),
    "least squares": families.LeastSquaresFamily(n=(8, 16), dtype=torch.float64),
    "least squares, l1": families.LeastSquaresFamily(
        n=8, domain=fwnet.L1Ball(1.5), dtype=torch.float64
    ),
    "mixture": families.Mixture([svm_family(), families.LeastSquaresFamily(n=10)]),
}


class Ridged(learned.ProblemFamily):
    """Least squares with a ridge of its own for each coordinate."""

    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.LeastSquares:
        b = torch.randn(batch, 4, generator=generator, dtype=torch.float64)
        ridge = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
        return fwnet.LeastSquares(torch.ones(4, 3, dtype=torch.float64), b, ridge)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_same_seed_draws_the_same_batch(family: learned.ProblemFamily) -> None:
    one, two = (family.sample(3, seeded(4)) for _ in range(2))
    assert one.batch_dims == 1
    assert one.shape == two.shape
    assert one.shape[0] == 3
    x = family.domain.start(tuple(one.shape), one.dtype)
    assert torch.equal(one.value(one.at(x)), two.value(two.at(x)))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_best_values_against_scipy(family: learned.ProblemFamily) -> None:
    problem = family.sample(2, seeded(1))
    best = family.best_values(problem)
    for k in range(2):
        assert best[k].item() == pytest.approx(scipy_minimum(family, problem, k), rel=2e-5)


def scipy_minimum(family: learned.ProblemFamily, problem: fwnet.Problem, k: int) -> float:
    """min f of problem k by SLSQP over the weights of all vertices."""
    n, radius = problem.shape[-1], family.domain.radius
    eye = radius * np.eye(n)
    vertices = np.vstack([eye, -eye]) if isinstance(family.domain, fwnet.L1Ball) else eye

    def f(w: np.ndarray) -> tuple[float, np.ndarray]:
        x = torch.zeros(problem.shape, dtype=problem.dtype)
        x[k] = torch.as_tensor(w @ vertices).to(x)
        it = problem.at(x)
        gradient = problem.gradient(it)[k].double().numpy()
        return problem.value(it)[k].item(), vertices @ gradient

    start = np.full(len(vertices), 1 / len(vertices))
    found = scipy_minimize(
        f,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"maxiter": 500, "ftol": 1e-13},
    )
    return float(found.fun)


def test_log_uniform_has_a_uniform_logarithm() -> None:
    drawn = learned.LogUniform(0.1, 1000.0).sample(4000, seeded()).log10()
    shares = torch.histc(drawn, 4, -1, 3) / 4000
    assert torch.allclose(shares, torch.full((4,), 0.25, dtype=shares.dtype), atol=0.03)


def test_a_ridge_is_part_of_the_minimum() -> None:
    problem = Ridged().sample(2, seeded(1))
    solved = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), max_steps=500, tol=1e-9)(problem)
    assert solved.status == ("converged", "converged")
    assert torch.allclose(Ridged().best_values(problem), solved.value, rtol=0, atol=1e-8)


def test_an_svm_family_is_the_dual_of_its_data() -> None:
    X, y = two_gaussians(20)
    family = families.SVMFamily(
        [(X, y)], C=2.0, n=20, kernels=[families.LinearKernel()], dtype=torch.float64
    )
    Q = family.sample(1, seeded()).matrix.matrix[0]
    signs = 2.0 * y - 1.0
    gram = X @ X.T
    dual = fwnet.SVMDual(gram / gram.diagonal().mean(), signs, C=2.0)
    wanted = torch.linalg.eigvalsh(dual.form.matrix.matrix)
    assert torch.allclose(torch.linalg.eigvalsh(Q), wanted)  # the same, rows in another order


def test_the_minimum_of_softmax_regression_against_cvxpy() -> None:
    X = torch.randn(40, 4, generator=seeded(), dtype=torch.float64)
    y = torch.arange(40) % 3
    family = families.SoftmaxFamily([(X, y)], radius=2.0, n=20)
    problem = family.sample(1, seeded(2))
    W = cp.Variable((4, 3))
    Z = problem.X[0].numpy() @ W
    chosen = np.eye(3)[problem.y[0].numpy()]
    loss = cp.sum(cp.log_sum_exp(Z, axis=1)) - cp.sum(cp.multiply(chosen, Z))
    program = cp.Problem(cp.Minimize(loss / 20), [cp.normNuc(W) <= 2.0])
    wanted = program.solve(solver=cp.SCS, eps=1e-8)
    assert family.best_values(problem).item() == pytest.approx(wanted, rel=1e-5)


class Logistic(learned.ProblemFamily):
    """Logistic regression in float32 over an l1 ball."""

    domain = fwnet.L1Ball(5.0)

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        X = torch.randn(batch, 40, 12, generator=generator)
        noise = torch.randn(batch, 40, generator=generator)
        return fwnet.LogisticRegression(X, torch.where(X[..., 0] + noise > 0, 1.0, -1.0))


def test_the_minimum_of_logistic_regression_against_cvxpy() -> None:
    problem = Logistic().sample(1, seeded(3))
    assert isinstance(problem, fwnet.LogisticRegression)
    w = cp.Variable(12)
    assert isinstance(problem.matrix, DenseMap)
    X, y = problem.matrix.matrix[0].double().numpy(), problem.y[0].double().numpy()
    loss = cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / 40
    wanted = cp.Problem(cp.Minimize(loss), [cp.norm1(w) <= 5.0]).solve(cp.CLARABEL)
    assert Logistic().best_values(problem).item() == pytest.approx(wanted, rel=1e-6)


class Sensing(learned.ProblemFamily):
    """½ |A vec W − b|² over trace-norm balls: a problem of a user's own, batched."""

    def __init__(self, domain: fwnet.Domain) -> None:
        self.domain = domain

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        A = torch.randn(batch, 40, 30, generator=generator, dtype=torch.float64)
        return SensingProblem(A, torch.randn(batch, 40, generator=generator, dtype=torch.float64))


class SensingProblem(fwnet.Problem):
    def __init__(self, A: torch.Tensor, b: torch.Tensor) -> None:
        self.A, self.b, self.dtype, self.device = A, b, A.dtype, A.device
        self.shape, self.batch_dims = torch.Size((len(b), 6, 5)), 1

    def residual(self, it: Iterate) -> torch.Tensor:
        return torch.einsum("bmk,bk->bm", self.A, it.x.flatten(1)) - self.b

    def value(self, it: Iterate) -> torch.Tensor:
        return 0.5 * self.residual(it).square().sum(-1)

    def gradient(self, it: Iterate) -> torch.Tensor:
        return torch.einsum("bmk,bm->bk", self.A, self.residual(it)).unflatten(1, (6, 5))


def test_the_minimum_of_matrix_sensing_against_cvxpy() -> None:
    family = Sensing(fwnet.TraceNormBall(2.0))  # a line search is 1e-3 above it after 2000 steps
    problem = family.sample(1, seeded(3))
    assert isinstance(problem, SensingProblem)
    W = cp.Variable((6, 5))
    misfit = problem.A[0].numpy() @ cp.vec(W, order="C") - problem.b[0].numpy()
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(misfit)), [cp.normNuc(W) <= 2.0])
    wanted = program.solve(cp.CLARABEL)
    assert family.best_values(problem).item() == pytest.approx(wanted, rel=1e-6)


def test_a_minimum_that_is_hardly_known_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    short = partial(fwnet.minimize, max_steps=3)
    monkeypatch.setattr(
        families.base, "minimize", lambda problem, domain, **budgets: short(problem, domain)
    )
    family = Sensing(fwnet.SchattenBall(1.5))  # no projection
    with pytest.warns(UserWarning, match=r"Sensing.best_values knows a minimum only to a relative"):
        family.best_values(family.sample(1, seeded(3)))


def test_a_spectrum_is_kept() -> None:
    spectrum = torch.linspace(0.1, 1, 7, dtype=torch.float64)
    family = families.QuadraticFamily(spectrum=spectrum, dtype=torch.float64)
    K = family.sample(2, seeded()).matrix.matrix
    assert torch.allclose(torch.linalg.eigvalsh(K), spectrum.expand(2, 7))


def test_splits_share_no_pair_and_no_row() -> None:
    X = torch.randn(100, 3, generator=seeded())
    many = families.SVMFamily([(X, torch.arange(100) % 5)]).split(1)
    pairs = [set(family._sources[0].pairs) for family in many]
    assert set.union(*pairs) == {(a, b) for a in range(5) for b in range(a + 1, 5)}
    assert sum(map(len, pairs)) == 10
    two = families.SVMFamily([(X, torch.arange(100) % 2)]).split(1)
    rows = [{tuple(row.tolist()) for row in family._sources[0].X} for family in two]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 100


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: families.SVMFamily([]), "at least one data set"),
        (
            lambda: families.SVMFamily([(torch.ones(4, 2), torch.ones(4))]),
            r"must have at least two classes; all labels are \[1.0\]",
        ),
        (
            lambda: families.SVMFamily([(torch.full((4, 2), torch.nan), torch.arange(4))]),
            "must be finite",
        ),
        (lambda: svm_family(n=(20, 10)), "low <= high"),
        (lambda: svm_family(C=-1.0), "positive finite number"),
        (lambda: learned.LogUniform(2.0, 1.0), "low <= high"),
        (lambda: learned.LogUniform(1e-300, 1e300), "a finite high / low"),
        (lambda: families.QuadraticFamily(spectrum=-torch.ones(3)), "no eigenvalue below 0"),
        (lambda: families.Mixture([]), "at least one family"),
        (lambda: families.Mixture(svm_family()), "list of at least one family"),
        (lambda: families.Mixture(["svm"]), r"Mixture\(families\)\[0\] must be a ProblemFamily"),
        (
            lambda: families.Mixture([families.SVMFamily]),
            r"must be a ProblemFamily; got the class SVMFamily: write SVMFamily\(\)\.$",
        ),
        (lambda: svm_family(n="16"), "must be a whole number of at least 4; got '16'"),
        (lambda: svm_family(n=8.5), "must be a whole number of at least 4; got 8.5"),
        (lambda: svm_family(n=(8, 9, 10)), r"whole number of at least 4; got \(8, 9, 10\)"),
        (
            lambda: families.SVMFamily((torch.ones(4, 2), torch.arange(4))),
            r"SVMFamily\(datasets\)\[0\] must be a pair \(X, y\); got Tensor",
        ),
        (
            lambda: families.SVMFamily([two_gaussians()], kernels=["rbf"]),
            "a kernel must be a function; got 'rbf'",
        ),
        (lambda: families.SoftmaxFamily([]), "at least one data set"),
        (lambda: families.SoftmaxFamily([torch.eye(3)]), r"must be a pair \(X, y\); got Tensor"),
        (
            lambda: families.SoftmaxFamily([(torch.eye(3), [0, 1, 2])]),
            r"\[0\] must be \(X, y\), tensors of shapes \(n, d\) and \(n,\)",
        ),
        (
            lambda: families.SoftmaxFamily([(torch.eye(3), torch.zeros(3).long())]),
            "at least two classes",
        ),
        (
            lambda: families.Mixture(
                [svm_family(), families.QuadraticFamily(domain=fwnet.L1Ball())]
            ),
            "one domain",
        ),
    ],
)
def test_errors_are_sentences(make: object, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        make()


class InTheBall(learned.ProblemFamily):
    """The same problem as a quadratic and as least squares, in float32 or float64."""

    domain = fwnet.L2Ball(1.0)

    def __init__(self, squares: bool, dtype: torch.dtype) -> None:
        self.squares, self.dtype = squares, dtype

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        A = torch.randn(batch, 60, 30, generator=generator).to(self.dtype)
        b = torch.randn(batch, 60, generator=generator).to(self.dtype)
        if self.squares:
            return fwnet.LeastSquares(A, b, 0.5)
        return fwnet.Quadratic(A.mT @ A / 60, -(A.mT @ b.unsqueeze(-1)).squeeze(-1) / 200)


@pytest.mark.parametrize("squares", [False, True])
def test_the_minimum_of_float32_problems_is_that_of_float64(squares: bool) -> None:
    found = {}
    for dtype in (torch.float32, torch.float64):
        family = InTheBall(squares, dtype)
        found[dtype] = family.best_values(family.sample(3, seeded()))
    assert found[torch.float32].dtype == torch.float32
    torch.testing.assert_close(
        found[torch.float32].double(), found[torch.float64], rtol=1e-5, atol=0
    )
