"""FWOneClassSVM against libsvm's one-class solver, CVXPY and closed forms; its conventions."""

from __future__ import annotations

import pickle

import cvxpy
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import check_estimator

import fwnet
from fwnet.estimators import FWOneClassSVM


def cloud(n: int, d: int = 2) -> np.ndarray:
    rng = np.random.default_rng(n)
    return np.vstack([rng.normal(size=(n - n // 20, d)), rng.uniform(-6, 6, (n // 20, d))])


@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"kernel": "poly"}])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(parameters: dict[str, str]) -> None:
    report = check_estimator(FWOneClassSVM(**parameters), on_fail=None, on_skip=None)
    wrong = [r["check_name"] for r in report if r["status"] not in ("passed", "skipped")]
    assert wrong == []


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_libsvm_on_the_matrix_with_its_diagonal_agrees(n: int, kernel: str, C: float) -> None:
    X, new = cloud(n), cloud(100)
    K = {
        "rbf": rbf_kernel(X, gamma=0.5),
        "poly": polynomial_kernel(X, gamma=0.5, coef0=1.0),
        "linear": linear_kernel(X),
    }[kernel]
    across = {
        "rbf": rbf_kernel(new, X, gamma=0.5),
        "poly": polynomial_kernel(new, X, gamma=0.5, coef0=1.0),
        "linear": linear_kernel(new, X),
    }[kernel]
    peer = OneClassSVM(kernel="precomputed", nu=1 / n, tol=1e-12).fit(K + np.eye(n) / C)
    model = FWOneClassSVM(C, kernel=kernel, gamma=0.5, coef0=1.0, tol=1e-9).fit(X)
    assert model.dual_coef_.sum() == pytest.approx(1.0)
    assert model.offset_ == pytest.approx(float(peer.offset_[0]), rel=1e-6)
    scores = across[:, peer.support_] @ peer.dual_coef_[0]
    assert model.score_samples(new) == pytest.approx(scores, rel=1e-3, abs=1e-5 * K.max())
    assert np.array_equal(model.decision_function(new), model.score_samples(new) - model.offset_)
    assert np.array_equal(model.predict(new), np.where(model.decision_function(new) >= 0, 1, -1))


def test_cvxpy_finds_the_primal_optimum() -> None:
    X, C = cloud(60), 3.0
    w, rho = cvxpy.Variable(2), cvxpy.Variable()
    goal = 0.5 * cvxpy.sum_squares(w) - rho + C / 2 * cvxpy.sum_squares(cvxpy.pos(rho - X @ w))
    optimum = cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver="CLARABEL")
    model = FWOneClassSVM(C, kernel="linear").fit(X)
    alpha = np.zeros(60)
    alpha[model.support_] = model.dual_coef_[0]
    dual = -0.5 * alpha @ (X @ X.T + np.eye(60) / C) @ alpha
    assert dual == pytest.approx(optimum, rel=1e-6)
    assert model.offset_ == pytest.approx(float(rho.value), rel=1e-4)


def test_the_gap_bounds_the_distance_to_the_optimum() -> None:
    X = cloud(2000)
    best = FWOneClassSVM(5.0, tol=1e-9).fit(X).offset_
    model = FWOneClassSVM(5.0, tol=1e-2).fit(X)
    assert model.duality_gap_ <= 1e-2
    assert best <= model.offset_ <= best / (1.0 - model.duality_gap_)
    assert isinstance(model.trace_, fwnet.Trace)
    assert model.trace_[-1].gap == pytest.approx(model.duality_gap_, abs=1e-4)


def test_with_rbf_it_is_the_minimum_enclosing_ball() -> None:
    # Three equal sides, and a point in the middle that is no support vector when C is large.
    corners = np.array([[0.0, 1.0], [-(0.75**0.5), -0.5], [0.75**0.5, -0.5], [0.0, 0.0]])
    model = FWOneClassSVM(1e6, gamma=0.1).fit(corners)
    assert list(model.support_) == [0, 1, 2]
    assert model.dual_coef_[0] == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert model.predict(corners)[3] == 1


def test_support_vectors_are_the_outliers_and_a_small_C_makes_more() -> None:
    X = cloud(1000)
    counts = []
    for C in (0.01, 1.0, 100.0):
        model = FWOneClassSVM(C, tol=1e-12).fit(X)  # a gap is the square of an error in a score
        counts.append(len(model.support_))
        outside = np.flatnonzero(model.decision_function(X) < -1e-6)
        assert np.isin(outside, model.support_).all()
    assert counts == sorted(counts, reverse=True)


def test_weights_sparse_points_and_pickling() -> None:
    X = np.round(cloud(300), 1)
    weight = np.random.default_rng(0).integers(0, 3, 300)
    weighted = FWOneClassSVM(gamma=0.5).fit(X, sample_weight=weight)
    repeated = FWOneClassSVM(gamma=0.5).fit(np.repeat(X, weight, axis=0))
    assert weighted.score_samples(X) == pytest.approx(repeated.score_samples(X), abs=1e-9)
    thin = FWOneClassSVM(gamma=0.5).fit(sparse.csr_array(X), sample_weight=weight)
    again = pickle.loads(pickle.dumps(thin))
    assert again.score_samples(X) == pytest.approx(weighted.score_samples(X), abs=1e-9)
    given = FWOneClassSVM(kernel="precomputed").fit(rbf_kernel(X, gamma=0.5), sample_weight=weight)
    assert given.offset_ == pytest.approx(weighted.offset_, rel=1e-9)


def test_a_norm_that_single_precision_cannot_see() -> None:
    # |w|² is a difference of numbers of 1e7: in float32, ρ came out negative.
    X = 100.0 * np.random.default_rng(0).normal(size=(500, 20))
    model = FWOneClassSVM(kernel="linear", C=1000.0).fit(X)
    alpha = np.zeros(500)
    alpha[model.support_] = model.dual_coef_[0]
    gradient = X @ (alpha @ X) + alpha / 1000.0
    rho = alpha @ gradient
    assert model.duality_gap_ <= 1e-3
    assert model.offset_ == pytest.approx(rho, rel=1e-6)
    assert gradient.min() == pytest.approx(rho, rel=1e-2)  # no vertex of the simplex is better


def test_bad_input() -> None:
    X = cloud(40)
    with pytest.raises(ValueError, match="C must be a positive finite number; got -1"):
        FWOneClassSVM(C=-1).fit(X)
    with pytest.raises(ValueError, match="the smallest eigenvalue of k is -"):
        FWOneClassSVM(kernel="precomputed").fit(rbf_kernel(X) - 1.0)
    with pytest.raises(ValueError, match="Every sample_weight is zero"):
        FWOneClassSVM().fit(X, sample_weight=np.zeros(40))
    with pytest.warns(ConvergenceWarning, match=r"FWOneClassSVM stopped after 3 steps \(max_iter"):
        FWOneClassSVM(max_iter=3).fit(cloud(1000))
    one = FWOneClassSVM().fit([[1.0, 2.0]])
    assert one.predict([[1.0, 2.0], [50.0, 2.0]]).tolist() == [-1, -1]  # its slack is 1/C
    assert one.offset_ == pytest.approx(2.0)
