"""LowRankRegressor, LowRankCompletion and LowRankSoftmaxClassifierCV against outside answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from estimators.test_low_rank_softmax import EXPECTED
from fwnet.estimators import (
    LowRankCompletion,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
    LowRankSoftmaxClassifierCV,
)
from fwnet.estimators.low_rank import estimator
from fwnet.estimators.low_rank.solve import Budget


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        LowRankRegressor(50.0, tol=0.1, max_iter=20),
        LowRankSoftmaxClassifierCV([60.0], cv=2, tol=0.5, path_tol=0.9, max_iter=3),
        LowRankCompletion(5.0),  # its tags say that random features are no input
    ],
    ids=lambda model: type(model).__name__,
)
def test_check_estimator(model: object) -> None:
    report = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    assert [r["check_name"] for r in report if r["status"] == "failed"] == []


def regression(n: int = 400, d: int = 15, m: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 1.0
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, m))
    return X, X @ W + 3.0 + 0.5 * rng.normal(size=(n, m))


def test_a_large_ball_gives_least_squares() -> None:
    X, Y = regression()
    peer = LinearRegression().fit(X, Y)
    model = LowRankRegressor(40.0, tol=1e-4, max_iter=1000).fit(X, Y)
    assert model.predict(X) == pytest.approx(peer.predict(X), abs=1e-3)
    assert model.coef_ == pytest.approx(peer.coef_, abs=1e-3)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-2)


def test_a_chosen_ball_predicts_better_than_least_squares() -> None:
    X, Y = regression()
    few = slice(20)  # 20 rows of 15 features: least squares fits their noise
    model, plain = LowRankRegressor().fit(X[few], Y[few]), LinearRegression().fit(X[few], Y[few])
    assert model.score(X[60:], Y[60:]) >= plain.score(X[60:], Y[60:]) + 0.1
    X, Y = X[:60], Y[:60]
    one = LowRankRegressor(5.0).fit(X, Y[:, 0])
    assert one.predict(X).shape == (60,)
    assert np.linalg.norm(np.append(one.coef_, one.intercept_ - one.offset_)) <= 5.0


def test_one_output_in_a_ball_is_ridge_regression() -> None:
    X, Y = regression()
    X, y = X - X.mean(0), Y[:, 0] - Y[:, 0].mean()
    model = LowRankRegressor(0.7, fit_intercept=False, tol=1e-6, max_iter=1000).fit(X, y)
    w = model.coef_[0]
    assert np.linalg.norm(w) == pytest.approx(0.7, rel=1e-5)
    pull = X.T @ (y - X @ w)  # at the best w on the sphere, parallel to w
    assert pull @ w == pytest.approx(np.linalg.norm(pull) * 0.7, rel=1e-4)


def test_sparse_rows_of_a_regression() -> None:
    X, Y = regression()
    X[np.abs(X) < 1] = 0
    dense, thin = (LowRankRegressor(8.0).fit(x, Y) for x in (X, sparse.csr_matrix(X)))
    assert thin.predict(sparse.csr_matrix(X)) == pytest.approx(dense.predict(X), abs=0.05)


def seen_entries(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    M = 2.0 + rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    return M.astype(dtype), np.argwhere(rng.random(M.shape) < 0.4), M


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_low_rank_matrix_is_completed(dtype: type) -> None:
    M, seen, _ = seen_entries(dtype)
    values = M[tuple(seen.T)]
    radius = np.linalg.norm(M - values.mean(), "nuc")
    model = LowRankCompletion(radius, shape=M.shape, tol=0.1).fit(seen, values)
    everywhere = np.argwhere(np.ones(M.shape))
    filled = model.predict(everywhere).reshape(M.shape)
    assert np.sqrt(np.mean((filled - M) ** 2)) < 0.1 * M.std()
    assert filled == pytest.approx(model.dense(), abs=1e-4)
    assert model.s_.sum() <= radius * (1 + 1e-6)


def test_a_chosen_radius_completes_nearly_as_well_as_the_best_one() -> None:
    M, seen, _ = seen_entries()
    noisy = (M + np.random.default_rng(1).normal(size=M.shape))[tuple(seen.T)]

    def error(radius: object) -> float:
        model = LowRankCompletion(radius, shape=M.shape, tol=0.05).fit(seen, noisy)
        return float(np.sqrt(np.mean((model.dense() - M) ** 2)))

    assert error("auto") <= 1.1 * min(error(radius) for radius in (20.0, 40.0, 60.0, 80.0, 120.0))


def test_completion_is_certified() -> None:
    M, seen, _ = seen_entries()
    model = LowRankCompletion(40.0, tol=1e-3).fit(seen, M[tuple(seen.T)])
    W = model.dense() - model.mean_
    residual = np.zeros(M.shape)
    residual[tuple(seen.T)] = (model.dense() - M)[tuple(seen.T)]
    gap = np.sum(residual * W) + 40.0 * np.linalg.norm(residual, 2)
    assert model.value_ == pytest.approx(0.5 * np.sum(residual**2), rel=1e-6)
    assert gap <= model.duality_gap_ <= 1.1 * gap
    assert model.duality_gap_ <= 1e-3 * model.value_
    assert np.linalg.norm(W, "nuc") <= 40.0


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        ([[0, 1, 2]], [1.0], r"X must hold positions \(n, 2\)"),
        ([[0.5, 1.0]], [1.0], "X must hold whole numbers"),
        ([[-1, 0]], [1.0], "positions of at least 0; got -1"),
        ([[0, 1]], [1.0, 2.0], "one value a position"),
        ([[0, 1]], [np.nan], "NaN or infinity at position 0"),
        ([[0, 9]], [1.0], r"X\[0\] names column 9, but the matrix has 3"),
    ],
)
def test_bad_entries(X: list, y: list, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LowRankCompletion(1.0, shape=(2, 3)).fit(np.array(X), y)


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "model.fwnet"
    X, Y = regression()
    model = LowRankRegressor(8.0).fit(X, Y)
    model.save(path)
    assert np.array_equal(LowRankRegressor.load(path).predict(X), model.predict(X))
    M, seen, _ = seen_entries()
    completion = LowRankCompletion(40.0).fit(seen, M[tuple(seen.T)])
    completion.save(path)
    again = LowRankCompletion.load(path)
    assert np.array_equal(again.predict(seen), completion.predict(seen))
    with pytest.raises(
        ValueError, match=r"holds a LowRankCompletion, not a LowRank\w+\. Load it with"
    ):
        LowRankRegressor.load(path)


def test_cross_validation_chooses_a_radius() -> None:
    X, y = load_digits(return_X_y=True)
    X, y, test = X[:700] / 16, y[:700], slice(700, None)
    model = LowRankSoftmaxClassifierCV(4, cv=2, path_tol=0.1, tol=0.1).fit(X, y)
    assert model.scores_.shape == (2, 4)
    assert model.radius_ == model.radii_[model.scores_.mean(0).argmax()]
    fixed = LowRankSoftmaxClassifier(model.radius_, tol=0.1).fit(X, y)
    assert model.duality_gap_ == fixed.duality_gap_
    assert (model.rank_, model.U_.shape[1]) == (fixed.rank_, len(model.s_))
    images, labels = load_digits(return_X_y=True)
    rivals = [LogisticRegression(C=C, max_iter=3000).fit(X, y) for C in (0.1, 1.0, 10.0)]
    best = max(rival.score(images[test] / 16, labels[test]) for rival in rivals)
    assert model.score(images[test] / 16, labels[test]) >= best - 0.02
    with pytest.raises(ValueError, match="radii must be a whole number above 0"):
        LowRankSoftmaxClassifierCV([1.0, -2.0]).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [0.1, 1 / 3, 5.0])
def test_constant_targets_leave_nothing_to_fit(constant: float, dtype: Any) -> None:
    generator = np.random.default_rng(0)
    X, Y = generator.standard_normal((100, 6)).astype(dtype), np.full((100, 3), constant, dtype)
    model = LowRankRegressor(radius=1.0).fit(X, Y, generator.uniform(size=100))
    assert (model.status_, model.value_, model.duality_gap_) == ("converged", 0.0, 0.0)
    assert np.array_equal(model.predict(X), Y)
    pairs = np.argwhere(np.ones((10, 8)))
    entries = LowRankCompletion(radius=1.0).fit(pairs, Y.ravel()[:80])
    assert (entries.status_, entries.duality_gap_) == ("converged", 0.0)
    assert np.array_equal(entries.predict(pairs), Y.ravel()[:80])


def test_choosing_a_radius_and_solving_share_one_limit_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    for name in ("choose_radius", "solve"):
        real = getattr(estimator, name)

        def noted(*args: Any, real: Any = real, **options: Any) -> Any:
            budget = next(arg for arg in args if isinstance(arg, Budget))
            limits.append(budget.max_seconds or 0.0)
            return real(*args, **options)

        monkeypatch.setattr(estimator, name, noted)
    X, Y = regression(60)
    LowRankRegressor(max_time=100.0).fit(X, Y)
    choosing, solving = limits[:2]
    assert choosing == 50.0
    assert 0.0 < solving < 100.0
