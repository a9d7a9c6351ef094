"""FWSVR against liblinear, kernel ridge regression and CVXPY; its conventions."""

from __future__ import annotations

import pickle

import cvxpy
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR, LinearSVR
from sklearn.utils.estimator_checks import check_estimator

import fwnet
from fwnet.estimators import FWSVR


def waves(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


def value(f: np.ndarray, y: np.ndarray, square: float, C: float, epsilon: float) -> float:
    return 0.5 * square + 0.5 * C * float(np.sum(np.maximum(0.0, np.abs(y - f) - epsilon) ** 2))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(kernel: str) -> None:
    report = check_estimator(FWSVR(kernel=kernel), on_fail=None, on_skip=None)
    wrong = [r["check_name"] for r in report if r["status"] not in ("passed", "skipped")]
    assert wrong == []


@pytest.mark.parametrize("n", [300, 7000])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_liblinear_with_half_the_C_has_the_same_optimum(n: int, epsilon: float) -> None:
    X, y = make_regression(n, 12, noise=2.0, random_state=0)
    y = y / 50
    # A column of ones regularises liblinear's bias by itself, without its intercept option.
    with_one = np.column_stack([X, np.ones(n)])
    loss = "squared_epsilon_insensitive"
    peer = LinearSVR(
        C=0.5, epsilon=epsilon, loss=loss, fit_intercept=False, dual=False, tol=1e-10
    ).fit(with_one, y)
    model = FWSVR(C=1.0, epsilon=epsilon, kernel="linear", tol=1e-9).fit(X, y)
    assert model.solver_ == "newton"
    assert model.coef_ == pytest.approx(peer.coef_[:-1], abs=1e-5)
    assert model.intercept_[0] == pytest.approx(peer.coef_[-1], abs=1e-5)
    assert model.predict(X) == pytest.approx(with_one @ peer.coef_, abs=1e-4)


def test_many_features_go_to_liblinear_and_are_certified() -> None:
    X = sparse.random(300, 2500, density=0.01, random_state=0, format="csr")
    y = np.asarray(X @ np.random.default_rng(0).normal(size=2500))
    model = FWSVR(kernel="linear", tol=1e-5).fit(X, y)
    assert model.solver_ == "liblinear"
    dense = FWSVR(kernel="precomputed", tol=1e-9).fit((X @ X.T).toarray(), y)
    assert model.duality_gap_ <= 1e-5
    assert model.predict(X) == pytest.approx(dense.predict((X @ X.T).toarray()), abs=1e-3)


def test_without_a_tube_it_is_kernel_ridge_regression() -> None:
    X, y = waves(400)
    K = rbf_kernel(X, gamma=0.5)
    peer = KernelRidge(alpha=1 / 3.0, kernel="precomputed").fit(K + 1.0, y)  # + 1: the bias
    model = FWSVR(C=3.0, epsilon=0.0, gamma=0.5, tol=1e-10).fit(X, y)
    assert model.predict(X) == pytest.approx(peer.predict(K + 1.0), abs=1e-9)


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_cvxpy_finds_the_same_function(C: float) -> None:
    X, y = waves(80)
    K, epsilon = rbf_kernel(X, gamma=0.5), 0.2
    root = np.linalg.cholesky(K + 1e-10 * np.eye(80))
    v, b = cvxpy.Variable(80), cvxpy.Variable()
    outside = cvxpy.pos(cvxpy.abs(y - root @ v - b) - epsilon)
    goal = 0.5 * (cvxpy.sum_squares(v) + b**2) + C / 2 * cvxpy.sum_squares(outside)
    optimum = cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver="CLARABEL")
    model = FWSVR(C=C, epsilon=epsilon, gamma=0.5, tol=1e-9).fit(X, y)
    coef = np.zeros(80)
    coef[model.support_] = model.dual_coef_[0]
    square = coef @ K @ coef + model.intercept_[0] ** 2
    assert value(model.predict(X), y, square, C, epsilon) == pytest.approx(optimum, rel=1e-6)
    assert model.intercept_[0] == pytest.approx(float(b.value), abs=1e-4)
    assert -model.trace_[-1].value == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("cache_size", [3, 200])
def test_rounds_on_growing_hulls_reach_the_optimum_of_all_points(cache_size: float) -> None:
    X, y = waves(2500)
    K = rbf_kernel(X, gamma=0.5)
    model = FWSVR(C=10.0, epsilon=0.15, gamma=0.5, tol=1e-8, cache_size=cache_size).fit(X, y)
    assert model.duality_gap_ <= 1e-8
    assert model.n_iter_ > 1
    coef = np.zeros(2500)
    coef[model.support_] = model.dual_coef_[0]
    rest = y - K @ coef - coef.sum()  # the optimality condition, from public attributes only
    wanted = 10.0 * np.sign(rest) * np.maximum(0.0, np.abs(rest) - 0.15)
    primal = value(y - rest, y, float(coef @ (y - rest)), 10.0, 0.15)
    # P − D is at least ½(Ce − u)²/C of any point.
    assert coef == pytest.approx(wanted, abs=(2 * 10.0 * 1e-8 * primal) ** 0.5)
    assert model.score(X, y) >= SVR(C=10.0, gamma=0.5, epsilon=0.15).fit(X, y).score(X, y) - 0.005


def test_weights_sparse_points_and_pickling() -> None:
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200] * 20, (y[:200] - y[:200].mean()) / 50
    weight = np.random.default_rng(0).integers(0, 3, 200)
    for kernel in ("rbf", "linear"):
        model = FWSVR(kernel=kernel, gamma=0.1, tol=1e-9)
        weighted = pickle.loads(pickle.dumps(model.fit(X, y, sample_weight=weight))).predict(X)
        repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(X)
        assert weighted == pytest.approx(repeated, abs=1e-5)
        thin = model.fit(sparse.csr_array(X), y, sample_weight=weight).predict(sparse.csr_array(X))
        assert thin == pytest.approx(weighted, abs=1e-5)
        assert isinstance(model.trace_, fwnet.Trace)


def test_a_tube_that_holds_all_points_gives_zero() -> None:
    X, y = waves(50)
    for kernel in ("rbf", "linear"):
        model = FWSVR(epsilon=10.0, kernel=kernel)
        with pytest.warns(UserWarning, match="every target lies within epsilon=10 of 0"):
            model.fit(X, y)
        assert (model.predict(X) == 0).all()
        assert model.duality_gap_ == 0
        assert len(model.support_) == 0


def test_kernel_values_beyond_double_precision_end_with_a_warning() -> None:
    X, y = waves(60)
    with pytest.warns(ConvergenceWarning, match=r"\(precision\).*Double precision allows no more"):
        FWSVR(kernel="poly", degree=2, gamma=1.0).fit(1e4 * X, y)
    far = 1e8 * np.random.default_rng(0).normal(size=(60, 90))
    assert FWSVR(kernel="linear").fit(far, y).duality_gap_ <= 1e-3  # by the dual


def test_bad_input() -> None:
    X, y = waves(60)
    with pytest.raises(
        ValueError, match=r"epsilon must be a finite number of at least 0; got -0\.1"
    ):
        FWSVR(epsilon=-0.1).fit(X, y)
    with pytest.raises(ValueError, match="C must be a positive finite number; got 0"):
        FWSVR(C=0).fit(X, y)
    with pytest.raises(ValueError, match=r"y must hold numbers of at most 1e\+150 in size"):
        FWSVR().fit(X, y * 1e200)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        FWSVR().fit(X, np.where(y > 1, np.nan, y))
    with pytest.warns(ConvergenceWarning, match=r"FWSVR stopped after 1 steps \(max_iter\)"):
        FWSVR(max_iter=1, C=100.0, tol=1e-9).fit(*waves(2500))


def test_unscaled_linear_features_fall_back_to_the_dual() -> None:
    # In feature space I + C XᵀX has lost the identity to rounding; the dual's matrix has not.
    rng = np.random.default_rng(0)
    X, y, C, epsilon = 1e5 * rng.normal(size=(20, 60)), rng.normal(size=20), 1e4, 0.1
    model = FWSVR(C, epsilon=epsilon, kernel="linear", tol=1e-6).fit(X, y)
    assert model.solver_ == "pairwise"
    f = X @ model.coef_ + model.intercept_[0]
    square = float(model.coef_ @ model.coef_ + model.intercept_[0] ** 2)
    primal = value(f, y, square, C, epsilon)
    u = np.zeros(20)
    u[model.support_] = model.dual_coef_[0]
    Q = X @ X.T + 1.0 + np.eye(20) / C
    dual = float(y @ u) - epsilon * float(np.abs(u).sum()) - 0.5 * float(u @ Q @ u)
    assert dual <= primal * (1 + 1e-9)  # weak duality, to rounding
    assert primal == pytest.approx(dual, rel=2e-6)


@pytest.mark.slow
def test_a_large_C_hides_no_support_vector_behind_rounding() -> None:
    # u = Ce, and t − f has no digit of an e of 1e-16: its sign must come from u.
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scale, C = 10.0 ** rng.uniform(3, 7), 10.0 ** rng.uniform(2, 6)
        X, y = scale * rng.normal(size=(20, 60)), rng.normal(size=20)
        model = FWSVR(C, kernel="linear", tol=1e-6).fit(X, y)  # a warning is an error here
        assert model.duality_gap_ <= 1e-6


def test_targets_whose_fourth_powers_overflow() -> None:
    """The optimum is that of scaled targets, scaled: gap and scores do not change."""
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 5))
    y = X @ random.standard_normal(5)
    plain = FWSVR(kernel="linear", epsilon=0.0).fit(X, y)
    huge = FWSVR(kernel="linear", epsilon=0.0).fit(X, 1e100 * y)
    assert huge.coef_ / 1e100 == pytest.approx(plain.coef_, rel=1e-9)
    assert huge.duality_gap_ <= 1e-3
