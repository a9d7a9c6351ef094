"""LowRankSoftmaxClassifier: scikit-learn's conventions, outside answers, rows out of memory."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    make_blobs,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from fwnet.estimators import LowRankSoftmaxClassifier, LowRankSoftmaxClassifierCV
from fwnet.estimators.low_rank import radius as choices
from fwnet.estimators.low_rank.solve import rough_fit
from fwnet.low_rank import FactoredProblem, Factors

# The answer is certified to tol, and "auto" splits the rows that it is given: a row with weight 2
# and a row that stands there twice agree within tol at a given radius (see below), not to 1e-7.
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "certified to tol, not to the last bit"
    for kind in ("dense", "sparse")
}


def digits(dtype: type = np.float64, every: int = 3) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return (X[::every] / 16).astype(dtype), y[::every]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_check_estimator() -> None:
    model = LowRankSoftmaxClassifier(tol=0.1, max_iter=30)  # it chooses a radius for every fit
    report = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    wrong = [r["check_name"] for r in report if r["status"] == "failed"]
    assert wrong == []


def test_a_large_ball_gives_logistic_regression() -> None:
    X, y = digits()
    X, y = X[:, 18:22], (y + np.random.default_rng(0).integers(0, 2, len(y))) % 4
    peer = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-8, max_iter=1000).fit(X, y)
    model = LowRankSoftmaxClassifier(100.0, fit_intercept=False, max_iter=2000).fit(X, y)
    loss = -np.log(peer.predict_proba(X)[np.arange(len(y)), y]).mean()
    assert model.value_ - model.duality_gap_ <= loss <= model.value_ + 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_fit_holds(dtype: type) -> None:
    X, y = digits(dtype)
    model = LowRankSoftmaxClassifier(15.0, tol=1e-2).fit(X, y)
    assert model.U_.shape == (65, model.rank_)
    assert model.V_.shape == (10, model.rank_)
    assert model.U_.dtype == model.s_.dtype == dtype
    whole = np.vstack([model.coef_.T, model.intercept_])
    assert np.linalg.norm(whole.astype(float), "nuc") <= 15.0 * (1 + 1e-6)
    assert model.rank_ < 10
    logits = X @ model.coef_.T + model.intercept_
    assert model.decision_function(X) == pytest.approx(logits, abs=1e-4)
    chance = model.predict_proba(X)
    assert chance == pytest.approx(np.exp(model.predict_log_proba(X)), abs=1e-5)
    loss = -np.log(chance[np.arange(len(y)), y].astype(float)).mean()
    assert model.value_ == pytest.approx(loss, rel=1e-4)
    assert 0 <= model.duality_gap_ <= 1e-2 * model.value_
    assert model.trace_[-1].gap == model.duality_gap_
    assert model.status_ == "converged"


# Separable rows: the best radius is large and its gap closes slowly; here predictions count.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_chosen_radius_predicts_as_well_as_tuned_logistic_regression() -> None:
    X, y = digits(np.float32, every=1)
    train, test = slice(0, 900), slice(900, None)
    model = LowRankSoftmaxClassifier(tol=0.1, max_iter=200).fit(X[train], y[train])
    ours = model.score(X[test], y[test])
    rivals = [LogisticRegression(C=C, max_iter=2000) for C in (0.1, 1.0, 10.0)]
    best = max(rival.fit(X[train], y[train]).score(X[test], y[test]) for rival in rivals)
    assert ours >= best - 0.02  # two standard errors of 897 trials at .91


def test_a_choice_costs_no_more_than_a_few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most eleven rough fits of at most 25 passes over few rows: thrice the time of a fit."""
    passes: list[float] = []

    def counted(problem: FactoredProblem, *arguments: Any) -> tuple[Factors, int]:
        W, steps = rough_fit(problem, *arguments)
        passes.append(steps * problem.n)
        return W, steps

    monkeypatch.setattr(choices, "rough_fit", counted)
    cancer, labels = load_breast_cancer(return_X_y=True)
    for X, y in (
        ((cancer - cancer.mean(0)) / cancer.std(0), labels),
        make_classification(6000, 40, n_informative=20, n_classes=10, random_state=0),
    ):
        passes.clear()
        model = LowRankSoftmaxClassifier().fit(X, y)
        assert len(passes) <= 11
        assert max(passes) <= 25 * len(X)
        assert sum(passes) <= 2 * model.n_iter_ * len(X)


def test_a_choice_ends_where_a_larger_ball_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are noise: the minimum of all matrices has a small norm."""
    radii: list[float] = []

    def seen(problem: FactoredProblem, radius: float, *arguments: Any) -> tuple[Factors, int]:
        radii.append(radius)
        return rough_fit(problem, radius, *arguments)

    monkeypatch.setattr(choices, "rough_fit", seen)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 5)), rng.integers(0, 3, size=6000)
    model = LowRankSoftmaxClassifier().fit(X, y)
    free = LowRankSoftmaxClassifier(1e3).fit(X, y)
    assert radii[0] > 2 * free.s_.sum()  # already the smallest ball of the path
    assert len(radii) <= 4
    assert model.value_ <= free.value_ * (1 + 1e-2)


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_choice_sees_past_a_rise_at_small_radii(seed: int) -> None:
    """A class with nearly all the weight needs an intercept; in small balls the features win."""
    X, y = make_blobs(centers=3, random_state=seed, cluster_std=20)
    weight = {0: 1000, 1: 0.0001, 2: 0.0001}
    model = LowRankSoftmaxClassifier(class_weight=weight).fit(X[:50], y[:50])
    assert np.mean(model.predict(X[50:]) == 0) > 0.87  # as scikit-learn's checks ask


def test_weights_are_repetitions() -> None:
    X, y = digits()
    X, y = X[:300], y[:300]
    count = np.random.default_rng(0).integers(0, 4, 300)
    count[:10] = 1  # every class is there
    options = {"radius": 8.0, "tol": 1e-6, "max_iter": 3000}
    weighted = LowRankSoftmaxClassifier(**options).fit(X, y, count)
    repeated = LowRankSoftmaxClassifier(**options).fit(X.repeat(count, 0), y.repeat(count))
    assert weighted.value_ == pytest.approx(repeated.value_, rel=2e-6)
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X), abs=1e-3)
    balanced = LowRankSoftmaxClassifier(**options, class_weight="balanced").fit(X, y)
    inverse = 300 / (10 * np.bincount(y))
    by_hand = LowRankSoftmaxClassifier(**options).fit(X, y, inverse[y])
    assert balanced.value_ == pytest.approx(by_hand.value_, rel=2e-6)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_sparse_equals_dense(make: type) -> None:
    X, y = digits()
    dense = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(X, y)
    thin = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(make(X), y)
    assert thin.value_ == pytest.approx(dense.value_, rel=1e-2)
    assert thin.predict_proba(make(X)) == pytest.approx(dense.predict_proba(X), abs=0.02)


def test_memory_maps_and_blocks_equal_memory(tmp_path: Path) -> None:
    X, y = digits(np.float32)
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", np.float32, "r", shape=X.shape)
    (16 * X).astype(np.uint8).tofile(tmp_path / "bytes")
    small = np.memmap(tmp_path / "bytes", np.uint8, "r", shape=X.shape)
    plain = LowRankSoftmaxClassifier(10.0).fit(X, y)
    assert LowRankSoftmaxClassifier(10.0).fit(mapped, y).value_ == plain.value_
    assert np.array_equal(plain.predict(mapped), plain.predict(X))
    scaled = LowRankSoftmaxClassifier(0.8, tol=5e-2).fit(small, y)
    assert scaled.score(small, y) > 0.9
    cuts = [0, 7, 300, len(y)]
    parts = [(X[a:b], y[a:b]) for a, b in pairwise(cuts)]
    for blocks in (parts, lambda: iter(parts)):
        streamed = LowRankSoftmaxClassifier(10.0).fit_blocks(blocks)
        assert streamed.value_ == pytest.approx(plain.value_, rel=1e-3)
        assert np.mean(streamed.predict(X) == plain.predict(X)) > 0.99


def test_the_row_of_a_nan_in_a_memory_map_is_named(tmp_path: Path) -> None:
    X = np.memmap(tmp_path / "X", np.float32, "w+", shape=(40_000, 3))
    X[:] = 1.0
    X[31_415, 2] = np.nan
    y = np.arange(40_000) % 2
    text = "X contains NaN in row 31415, column 2. Drop the row or fill the entry."
    with pytest.raises(ValueError, match=text):
        LowRankSoftmaxClassifier(1.0).fit(X, y)
    halves = [(X[:20_000], y[:20_000]), (X[20_000:], y[20_000:])]
    with pytest.raises(ValueError, match=text):
        LowRankSoftmaxClassifier(1.0).fit_blocks(halves)
    X[31_415, 2] = -np.inf
    with pytest.raises(ValueError, match="X contains infinity in row 31415, column 2"):
        LowRankSoftmaxClassifier(1.0).fit(X, y)


def test_partial_fit_approaches_fit() -> None:
    X, y = digits(every=1)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = LowRankSoftmaxClassifier(15.0)
    for _ in range(15):
        for lo in range(0, len(y), 300):
            model.partial_fit(X[lo : lo + 300], y[lo : lo + 300], classes=np.arange(10))
    full = LowRankSoftmaxClassifier(15.0).fit(X, y)
    loss = -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()
    assert full.value_ - full.duality_gap_ <= loss <= 1.2 * full.value_
    assert np.isnan(model.duality_gap_)
    assert model.s_.sum() <= 15.0
    with pytest.raises(ValueError, match=r"y\[1\] = 12 is none of the 10 classes"):
        model.partial_fit(X[:2], [3, 12])
    again = model.set_params(warm_start=True, tol=1e-2).fit(X, y)
    assert again.n_iter_ < LowRankSoftmaxClassifier(15.0, tol=1e-2).fit(X, y).n_iter_


def test_a_path_of_radii() -> None:
    X, y = digits()
    models = LowRankSoftmaxClassifier(tol=1e-2).path([2.0, 8.0, 32.0], X, y)
    assert [model.radius_ for model in models] == [2.0, 8.0, 32.0]
    values = [model.value_ for model in models]
    assert values == sorted(values, reverse=True)
    for model in models:
        fixed = LowRankSoftmaxClassifier(model.radius_, tol=1e-2).fit(X, y)
        assert abs(fixed.value_ - model.value_) <= max(fixed.duality_gap_, model.duality_gap_)


@pytest.mark.parametrize("names", [np.arange(10), np.array(list("abcdefghij"))])
def test_save_and_load(names: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "model.fwnet"
    X, y = digits()
    model = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(X, names[y])
    model.save(path)
    again = LowRankSoftmaxClassifier.load(path)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert again.duality_gap_ == model.duality_gap_
    assert pickle.loads(pickle.dumps(model)).score(X, names[y]) == model.score(X, names[y])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is not a whole fitted model"):
        LowRankSoftmaxClassifier.load(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        LowRankSoftmaxClassifier.load(tmp_path / "no model")
    with pytest.raises(OSError, match="cannot be written"):
        model.save(tmp_path / "no folder" / "model")


@pytest.mark.parametrize("parameters", [{"radius": 0}, {"radius": -1.0}, {"radius": "big"}])
def test_a_bad_radius(parameters: dict[str, object]) -> None:
    X, y = digits()
    with pytest.raises(ValueError, match="radius must be 'auto' or a finite number above 0; got"):
        LowRankSoftmaxClassifier(**parameters).fit(X, y)


def test_other_bad_input() -> None:
    X, y = digits()
    with pytest.raises(ValueError, match="needs at least two classes; y has one class, 7"):
        LowRankSoftmaxClassifier(1.0).fit(X, np.full(len(y), 7))
    with pytest.raises(ValueError, match="max_rank must be a whole number of at least 1; got 0"):
        LowRankSoftmaxClassifier(1.0, max_rank=0).fit(X, y)
    with pytest.raises(TypeError, match="an iterator is spent after one"):
        LowRankSoftmaxClassifier(1.0).fit_blocks(iter([(X, y)]))
    with pytest.raises(ValueError, match=r"Block 1: Found array with 0 sample"):
        LowRankSoftmaxClassifier(1.0).fit_blocks([(X, y), (X[:0], y[:0])])
    with pytest.raises(ValueError, match="Block 1 has 3 columns, the blocks before it 64"):
        LowRankSoftmaxClassifier(1.0).fit_blocks([(X, y), (X[:, :3], y)])
    with pytest.raises(ValueError, match="holds no rows"):
        LowRankSoftmaxClassifier(1.0).fit_blocks([])
    with pytest.raises(NotFittedError):
        clone(LowRankSoftmaxClassifier(1.0).fit(X, y)).predict(X)
    with pytest.warns(ConvergenceWarning, match=r"stopped \(max_steps\) at a duality gap of"):
        LowRankSoftmaxClassifier(10.0, max_iter=2).fit(X, y)


def test_path_without_rows_fits_to_those_of_the_last_fit() -> None:
    X, y = (part[:300] for part in digits())
    model = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(X, y)
    radii = [5.0, 20.0]
    remembered, given = model.path(radii), model.path(radii, X, y)
    for one, other, radius in zip(remembered, given, radii, strict=True):
        assert one.radius == radius
        assert not one.warm_start
        np.testing.assert_array_equal(one.coef_, other.coef_)
        cold = LowRankSoftmaxClassifier(radius, tol=1e-2).fit(X, y)
        assert abs(one.value_ - cold.value_) <= max(one.duality_gap_, cold.duality_gap_)
    weighted = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(X, y, np.arange(300.0))
    other = LowRankSoftmaxClassifier(5.0, tol=1e-2, warm_start=True).fit(X, y, np.arange(300.0))
    np.testing.assert_array_equal(weighted.path([5.0])[0].coef_, other.coef_)
    blocks = [(X[:150], y[:150]), (X[150:], y[150:])]
    in_blocks = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit_blocks(blocks).path([5.0])[0]
    assert abs(in_blocks.value_ - remembered[0].value_) <= in_blocks.duality_gap_ + 1e-3


def test_rows_are_not_saved_with_a_model(tmp_path: Path) -> None:
    X, y = (part[:300] for part in digits())
    model = LowRankSoftmaxClassifier(10.0, tol=1e-2).fit(X, y)
    model.save(tmp_path / "model")
    partly = LowRankSoftmaxClassifier(10.0).fit(X, y).partial_fit(X, y)
    loaded = LowRankSoftmaxClassifier.load(tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), loaded, partly):
        with pytest.raises(ValueError, match=r"rows of the last fit, and there are none.*path\(ra"):
            other.path([5.0])
        assert len(other.path([5.0], X, y)) == 1


def test_a_bar_counts_the_folds(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = load_iris(return_X_y=True)
    model = LowRankSoftmaxClassifierCV(radii=[1.0, 10.0], cv=3, tol=1e-2, progress=True).fit(X, y)
    assert "3/3" in capsys.readouterr().err
    assert model.scores_.shape == (3, 2)
