"""FWSVC against outside answers: liblinear, libsvm's one-class solver, SciPy, closed forms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_circles, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import LinearSVC, OneClassSVM

from fwnet.estimators import FWSVC

TOL = 1e-9


def primal(K: np.ndarray, y: np.ndarray, C: np.ndarray | float, model: FWSVC) -> float:
    """P of the fitted classifier from its public attributes only."""
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    f = K @ coef + model.intercept_[0]
    slack = np.maximum(0.0, 1.0 - y * f)
    return float(0.5 * (coef @ K @ coef + model.intercept_[0] ** 2 + np.sum(C * slack**2)))


def dual(K: np.ndarray, y: np.ndarray, C: np.ndarray | float, model: FWSVC) -> float:
    beta = np.zeros(len(y))
    beta[model.support_] = np.abs(model.dual_coef_[0])
    Q = y[:, None] * (K + 1.0) * y + np.diag(np.broadcast_to(1.0 / np.asarray(C), len(y)))
    return float(beta.sum() - 0.5 * beta @ Q @ beta)


def moons(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(n, noise=0.3, random_state=seed)
    return X, 2 * y - 1


@pytest.mark.parametrize("n", [200, 900])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_one_class_svm_on_the_same_matrix_has_the_same_optimum(n: int, C: float) -> None:
    X, y = moons(n)
    K = rbf_kernel(X, gamma=1.5)
    Q = y[:, None] * (K + 1.0) * y + np.eye(n) / C
    peer = OneClassSVM(kernel="precomputed", nu=1 / n, tol=1e-10).fit(Q)
    alpha = np.zeros(n)
    alpha[peer.support_] = peer.dual_coef_[0] / peer.dual_coef_.sum()
    optimum = 0.5 / (alpha @ Q @ alpha)
    model = FWSVC(C=C, gamma=1.5, tol=TOL).fit(X, y)
    assert primal(K, y, C, model) == pytest.approx(optimum, rel=1e-6)
    assert dual(K, y, C, model) == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("solver", ["auto", "newton", "corrective", "pairwise", "liblinear"])
def test_liblinear_with_half_the_C_has_the_same_optimum(solver: str) -> None:
    X, y = make_classification(700, 20, n_informative=8, flip_y=0.1, random_state=3)
    # A column of ones regularises liblinear's bias by itself, without its intercept option.
    with_one = np.column_stack([X, np.ones(len(X))])
    peer = LinearSVC(C=1.0, tol=1e-10, fit_intercept=False, dual=False, max_iter=10_000)
    peer.fit(with_one, y)
    tol = 1e-8 if solver == "liblinear" else TOL
    model = FWSVC(C=2.0, kernel="linear", solver=solver, tol=tol).fit(X, y)
    assert model.coef_[0] == pytest.approx(peer.coef_[0, :-1], abs=1e-4)
    assert model.intercept_[0] == pytest.approx(peer.coef_[0, -1], abs=1e-4)
    sign, K = 2 * y - 1, linear_kernel(X)
    slack = np.maximum(0.0, 1.0 - sign * (with_one @ peer.coef_[0]))
    optimum = 0.5 * float(peer.coef_[0] @ peer.coef_[0]) + float(slack @ slack)
    w = np.append(model.coef_[0], model.intercept_[0])
    ours = np.maximum(0.0, 1.0 - sign * (with_one @ w))
    assert 0.5 * float(w @ w) + float(ours @ ours) == pytest.approx(optimum, rel=1e-6)
    assert dual(K, sign, 2.0, model) == pytest.approx(optimum, rel=1e-6)


def test_scipy_finds_the_same_weights() -> None:
    X, y = moons(25)
    Q = y[:, None] * (rbf_kernel(X, gamma=1.0) + 1.0) * y + np.eye(25) / 3.0
    simplex = {"type": "eq", "fun": lambda a: a.sum() - 1.0, "jac": lambda a: np.ones(25)}
    answer = minimize(
        lambda a: (0.5 * a @ Q @ a, Q @ a),
        np.full(25, 1 / 25),
        jac=True,
        bounds=[(0, None)] * 25,
        constraints=[simplex],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    model = FWSVC(C=3.0, gamma=1.0).fit(X, y)
    beta = np.zeros(25)
    beta[model.support_] = np.abs(model.dual_coef_[0])
    assert beta / beta.sum() == pytest.approx(answer.x, abs=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "precomputed", "callable"])
@pytest.mark.parametrize("n", [150, 1200])
def test_reported_gap_is_the_gap(kernel: str, n: int) -> None:
    X, y = moons(n)
    K = {
        "rbf": rbf_kernel(X, gamma=0.7),
        "poly": polynomial_kernel(X, gamma=0.7, degree=3, coef0=1.0),
        "linear": linear_kernel(X),
        "precomputed": rbf_kernel(X, gamma=0.7),
        "callable": rbf_kernel(X, gamma=0.7),
    }[kernel]
    function = (lambda A, B: rbf_kernel(A, B, gamma=0.7)) if kernel == "callable" else kernel
    model = FWSVC(kernel=function, gamma=0.7, coef0=1.0)
    model.fit(K if kernel == "precomputed" else X, y)
    if kernel == "linear":
        value = 0.5 * float(model.coef_[0] @ model.coef_[0] + model.intercept_[0] ** 2)
        slack = np.maximum(0.0, 1.0 - y * (X @ model.coef_[0] + model.intercept_[0]))
        value += 0.5 * float(slack @ slack)
    else:
        value = primal(K, y, 1.0, model)
    gap = (value - dual(K, y, 1.0, model)) / value
    assert model.duality_gap_ <= 1e-3
    assert model.duality_gap_ == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize("mode", ["pairwise", "corrective"])
@pytest.mark.parametrize("cache_size", [0.3, 200])
def test_every_path_reaches_the_same_optimum(mode: str, cache_size: float) -> None:
    X, y = moons(800)
    K = rbf_kernel(X, gamma=2.0)
    best = primal(K, y, 10.0, FWSVC(C=10.0, gamma=2.0, tol=1e-10).fit(X, y))
    if mode == "pairwise" and cache_size < 1:
        text = "solver='pairwise' keeps the whole kernel matrix, 5 MB, but cache_size=0.3 MB"
        with pytest.raises(ValueError, match=text):
            FWSVC(gamma=2.0, solver=mode, cache_size=cache_size, tol=1e-6).fit(X, y)
        return
    model = FWSVC(C=10.0, gamma=2.0, solver=mode, cache_size=cache_size, tol=1e-7).fit(X, y)
    assert model.solver_ == mode
    assert primal(K, y, 10.0, model) == pytest.approx(best, rel=1e-6)


def test_blocks_take_turns_where_most_points_are_support_vectors_without_room() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=3000) > 0).astype(int)
    X, test, y, truth = X[:1500], X[1500:], y[:1500], X[1500:, 0] * X[1500:, 1] > 0
    K, sign = rbf_kernel(X, gamma=0.2), 2 * y - 1
    whole = FWSVC(gamma=0.2, tol=1e-6).fit(X, y)
    turns = FWSVC(gamma=0.2, tol=1e-4, cache_size=0.5).fit(X, y)
    assert len(turns.support_) > 1000
    assert turns.duality_gap_ <= 1e-4
    assert primal(K, sign, 1.0, turns) == pytest.approx(primal(K, sign, 1.0, whole), rel=2e-4)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        early = FWSVC(gamma=0.2, cache_size=0.5, max_iter=1200).fit(X, y)
    assert early.duality_gap_ > 0.05
    assert (
        early.score(test, truth) > turns.score(test, truth) - 0.05
    )  # of some points, not the worst


def test_small_problems_are_solved_exactly() -> None:
    X, y = moons(200)
    model = FWSVC(C=5.0).fit(X, y)
    assert model.duality_gap_ < 1e-12


def test_two_points_in_closed_form() -> None:
    # K = yyT(k + 1) + I/C on two mirrored points: both weights are 1/2.
    X, y, C, k = np.array([[0.0], [1.0]]), np.array([-1, 1]), 4.0, np.exp(-1.0)
    rho = 0.5 * (2.0 + 1.0 / C) - 0.5 * (k + 1.0)
    model = FWSVC(C=C, gamma=1.0).fit(X, y)
    assert model.dual_coef_[0] == pytest.approx([-0.5 / rho, 0.5 / rho], rel=1e-12)
    assert model.intercept_[0] == pytest.approx(0.0, abs=1e-12)


def test_sample_weight_scales_C_of_its_point() -> None:
    X, y = moons(600)
    weight = np.random.default_rng(0).integers(0, 4, 600)
    repeated = np.repeat(np.arange(600), weight)
    model = FWSVC(C=2.0, gamma=1.0, tol=1e-10).fit(X, y, sample_weight=weight)
    peer = FWSVC(C=2.0, gamma=1.0, tol=1e-10).fit(X[repeated], y[repeated])
    assert model.decision_function(X) == pytest.approx(peer.decision_function(X), abs=1e-4)
    assert not np.isin(np.flatnonzero(weight == 0), model.support_).any()


def test_class_weight_scales_C_of_its_class() -> None:
    X, y = moons(500)
    by_class = FWSVC(gamma=1.0, class_weight={1: 3.0, -1: 0.5}, tol=1e-10).fit(X, y)
    by_point = FWSVC(gamma=1.0, tol=1e-10).fit(X, y, sample_weight=np.where(y == 1, 3.0, 0.5))
    assert by_class.decision_function(X) == pytest.approx(by_point.decision_function(X), abs=1e-6)


def test_separable_and_nearly_hard_margin() -> None:
    X, y = make_circles(600, factor=0.2, noise=0.05, random_state=0)
    K = rbf_kernel(X, gamma=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FWSVC(C=1e6, gamma=1.0, tol=1e-5).fit(X, y)
    sign = 2 * y - 1
    value = primal(K, sign, 1e6, model)
    assert (value - dual(K, sign, 1e6, model)) / value <= 1e-5
    assert model.score(X, y) == 1.0


def test_pairs_of_classes_from_a_kernel_matrix_that_the_store_cannot_hold() -> None:
    X, y = make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)
    K = rbf_kernel(X, gamma=0.2)
    wide, narrow = (
        FWSVC(kernel="precomputed", multi_class="ovo", tol=1e-6, cache_size=size).fit(K, y)
        for size in (200, 0.2)
    )
    assert narrow.decision_function(K) == pytest.approx(wide.decision_function(K), abs=1e-2)
