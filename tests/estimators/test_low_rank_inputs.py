"""What the low-rank estimators are handed: odd weights, blocks, labels, files and parameters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold

from fwnet.estimators import (
    LowRankCompletion,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
    LowRankSoftmaxClassifierCV,
)


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X, W = generator.normal(size=(n, 6)), generator.normal(size=(6, 4))
    return X, (X @ W + generator.gumbel(size=(n, 4))).argmax(1)


def model(**options: object) -> LowRankSoftmaxClassifier:
    return LowRankSoftmaxClassifier(**{"radius": 5.0, "tol": 1e-2, **options})


@pytest.mark.parametrize("size", [1e-60, 1e308])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_the_ratios_of_weights_count(size: float, dtype: type) -> None:
    X, y = rows()
    weight = np.where(y == 1, 2.0, 1.0)
    X = X.astype(dtype)
    plain, scaled = model().fit(X, y, weight), model().fit(X, y, 0.5 * size * weight)
    assert scaled.value_ == pytest.approx(plain.value_, abs=plain.duality_gap_)
    targets = np.eye(4)[y]
    first = LowRankRegressor(1.0).fit(X, targets, weight)
    second = LowRankRegressor(1.0).fit(X, targets, 0.5 * size * weight)
    assert second.value_ == pytest.approx(first.value_, abs=first.duality_gap_)


def test_weights_that_leave_no_row_are_refused() -> None:
    X, y = rows()
    with pytest.raises(ValueError, match="class_weight and sample_weight leave no row a weight"):
        model(class_weight=dict.fromkeys(range(4), 0.0)).fit(X, y)


def test_numbers_of_numpy_are_numbers() -> None:
    X, y = rows()
    grid = {"max_rank": np.arange(3, 5), "max_iter": np.array([300]), "radius": np.array([5.0])}
    search = GridSearchCV(model(), grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["max_rank"] in (3, 4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1; got 0."),
        ({"max_time": 0}, "max_time must be a positive finite number; got 0."),
        ({"max_rank": 1.5}, "max_rank must be a whole number of at least 1; got 1.5."),
    ],
)
def test_errors_name_the_arguments_that_were_given(options: dict[str, object], text: str) -> None:
    X, y = rows()
    for call in (model(**options).fit, model(**options).partial_fit):
        with pytest.raises(ValueError, match=text):
            call(X, y)


def test_partial_fit_goes_on_from_the_last_fit() -> None:
    X, y = rows()
    clf = model().partial_fit(X, y).fit(X, y)
    fitted = clf.coef_.copy()
    clf.partial_fit(X[:8], y[:8])
    assert np.linalg.norm(clf.coef_ - fitted) < 0.3 * np.linalg.norm(fitted)
    assert clf.fit(X[:, :3], y > 1).partial_fit(X[:, :3], y > 1).coef_.shape == (2, 3)


def test_partial_fit_follows_its_parameters() -> None:
    X, y = rows()
    clf = model().partial_fit(X, y).set_params(radius=0.1).partial_fit(X, y)
    assert clf.radius_ == 0.1
    assert 0 < clf.s_.sum() <= 0.1
    clf = model(max_rank=1).partial_fit(X, y)
    assert clf.rank_ == 1  # and not 0: two factors of zeros would never move
    assert model().fit(X, y).set_params(max_rank=1).partial_fit(X, y).rank_ == 1
    with pytest.raises(ValueError, match="'balanced' needs all rows, and partial_fit sees some"):
        model(class_weight="balanced").partial_fit(X, y)


def test_a_first_partial_fit_that_fails_leaves_nothing_behind() -> None:
    X, y = rows()
    clf = model()
    with pytest.raises(ValueError, match="is none of the 2 classes"):
        clf.partial_fit(X, y, classes=[0, 1])
    assert clf.partial_fit(X, y, classes=range(4)).V_.shape[0] == 4


def test_the_intercept_is_that_of_the_fit() -> None:
    X, y = rows()
    clf = model().fit(X, y)
    before = clf.decision_function(X)
    clf.set_params(fit_intercept=False)
    assert np.array_equal(clf.decision_function(X), before)
    np.testing.assert_allclose(X @ clf.coef_.T + clf.intercept_, before, atol=1e-9)
    assert clf.partial_fit(X, y).U_.shape[0] == 7


KINDS = {
    "pandas": pd.DataFrame,
    "torch": torch.from_numpy,
    "lists": np.ndarray.tolist,
    "csc": sparse.csc_matrix,
}


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_may_be_what_fit_takes(kind: str) -> None:
    X, y = rows()
    parts = [(KINDS[kind](X[:50]), y[:50]), (KINDS[kind](X[50:]), y[50:].tolist())]
    whole, some = model().fit(X, y), model().fit_blocks(lambda: iter(parts))
    assert abs(some.value_ - whole.value_) <= max(some.duality_gap_, whole.duality_gap_)


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        (lambda X, y: [(X, np.eye(4)[y])], r"Block 0: y should be a 1d array, got an array of"),
        (lambda X, y: [(X + 1j, y)], "Block 0: Complex data not supported"),
        (lambda X, y: [(X, y), (X, y[:3])], "Block 1: X has 120 rows, y has 3."),
        (lambda X, y: lambda: None, "the function for blocks must return an iterator of pairs"),
        (
            lambda X, y: (lambda once: lambda: once)(iter([(X, y)])),
            "120 rows of 6 columns at first and 0 of 6 now; they must be the same ones",
        ),
    ],
)
def test_bad_blocks_raise_clear_errors(blocks: object, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        model().fit_blocks(blocks(*rows()))


def test_a_file_holds_what_was_given(tmp_path: Path) -> None:
    path = tmp_path / "model.fwnet"
    X, y = rows()
    days = np.array(["2020-01-01", "2021-02-03", "2022-01-01", "2023-01-01"], dtype="M8[D]")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    clf = model(radius=np.float32(3.0), class_weight={0: 2.0, 1: 1.0}).fit(frame, y)
    clf.save(path)
    again = LowRankSoftmaxClassifier.load(path)
    assert (again.radius, again.class_weight) == (3.0, {0: 2.0, 1: 1.0})
    assert again.fit(frame, y).value_ == pytest.approx(clf.value_, abs=clf.duality_gap_)
    with pytest.raises(ValueError, match="feature names should match"):
        LowRankSoftmaxClassifier.load(path).predict(frame[list("bacdef")])
    dated = model().fit(X, days[y])
    dated.save(path)
    assert np.array_equal(LowRankSoftmaxClassifier.load(path).classes_, days)


def test_no_flipped_bit_gives_another_model(tmp_path: Path) -> None:
    X, y = rows()
    clf = model().fit(X, y)
    path = tmp_path / "model.fwnet"
    clf.save(path)
    whole, refused = path.read_bytes(), []
    for place in range(0, len(whole), 17):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x41
        path.write_bytes(spoilt)
        try:
            again = LowRankSoftmaxClassifier.load(path)
        except ValueError as error:
            refused.append(str(error))
        else:
            assert np.array_equal(again.decision_function(X), clf.decision_function(X))
    assert len(refused) > 20
    expected = r"is not a whole fitted model|holds a .*, not a fitted model\.|has format "
    assert all(re.search(expected, text) for text in refused)


def test_cross_validation_with_folds_that_lack_a_class() -> None:
    X, y = rows(40)
    y[y == 3], y[[0, 20]] = 2, 3  # each test fold of four has one of class 3 at most
    search = LowRankSoftmaxClassifierCV([1.0, 4.0], cv=KFold(4), tol=0.1, path_tol=0.1).fit(X, y)
    assert np.isfinite(search.scores_).all()
    logits = X @ search.coef_.T + search.intercept_
    np.testing.assert_allclose(search.decision_function(X), logits, atol=1e-9)
    chances = np.exp(search.predict_log_proba(X))
    np.testing.assert_allclose(chances, search.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("radii", ["auto", None, True, [1.0, "a"]])
def test_bad_radii_of_a_path(radii: object) -> None:
    with pytest.raises(ValueError, match="radii must be a whole number above 0, or numbers above"):
        LowRankSoftmaxClassifierCV(radii).fit(*rows())


def test_no_folds_and_sparse_targets_raise_clear_errors() -> None:
    X, y = rows()
    with pytest.raises(ValueError, match=r"cv must give at least one fold; got \[\]"):
        LowRankSoftmaxClassifierCV([1.0], cv=[]).fit(X, y)
    with pytest.raises(ValueError, match="y must be dense; got a sparse matrix"):
        LowRankRegressor(1.0).fit(X, sparse.csr_matrix(np.eye(4)[y]))


def test_a_matrix_of_equal_entries_is_its_mean() -> None:
    seen = np.argwhere(np.ones((5, 4)))
    full = LowRankCompletion("auto").fit(seen, np.full(20, 3.0))
    assert full.radius_ > 0
    np.testing.assert_allclose(full.dense(), 3.0)


@pytest.mark.parametrize(
    ("shape", "y", "text"),
    [
        ((3,), [1.0], r"shape must be \(rows, columns\); got \(3,\)"),
        ((3.5, 2), [1.0], r"shape\[0\] must be a whole number of at least 1; got 3.5"),
        ((3, 2), ["a"], "y must hold real numbers; got <U1"),
        ((3, 2), [1j], "y must hold real numbers; got complex128"),
        ((3, 2), [1e200, -1e200], r"f\(0\) is inf: the targets are too large for torch.float64"),
    ],
)
def test_bad_entries_and_shapes(shape: object, y: list, text: str) -> None:
    X = np.array([[0, 1], [1, 1]])[: len(y)]
    with pytest.raises(ValueError, match=text):
        LowRankCompletion(1.0, shape=shape).fit(X, y)


@pytest.mark.parametrize(
    "build", [LowRankSoftmaxClassifier, LowRankRegressor, LowRankSoftmaxClassifierCV]
)
def test_arrays_may_run_backwards(build: type) -> None:
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(60, 5)), np.arange(60) % 3, rng.random(60)
    backwards = build().fit(X[::-1], y[::-1], weight[::-1])
    forwards = build().fit(X[::-1].copy(), y[::-1].copy(), weight[::-1].copy())
    assert np.array_equal(backwards.predict(X[:, ::-1]), forwards.predict(X[:, ::-1].copy()))
    if build is LowRankSoftmaxClassifier:
        blocks = [(X[::-1], y[::-1])]
        assert build(radius=3.0).fit_blocks(blocks).predict(X).shape == (60,)
        assert build(radius=3.0).partial_fit(X[::-1], y[::-1]).predict(X).shape == (60,)


def test_numbers_that_are_no_positions_are_named() -> None:
    values = np.array([1.0, 2.0])
    for large in (10**15, 2**63 + 5):
        positions = np.array([[0, 0], [large, 1]], dtype=np.uint64)
        with pytest.raises(ValueError, match=rf"below 2147483647; got {large}\. Number the rows"):
            LowRankCompletion(radius=1.0).fit(positions, values)
    sparse_ids = np.array([[0, 0], [10**9, 1]])
    with pytest.raises(ValueError, match=r"1000000001 rows .* np\.unique.*\(shape=\.\.\.\)"):
        LowRankCompletion(radius=1.0).fit(sparse_ids, values)
    with pytest.raises(ValueError, match="shape must be at most 2147483647"):
        LowRankCompletion(radius=1.0, shape=(10**12, 2)).fit(np.array([[0, 0], [1, 1]]), values)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", ["auto", 5.0, 5e30])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_scale_of_the_features_makes_the_answer_worse_than_zero(
    scale: float, dtype: type, radius: object
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = X @ rng.normal(size=(5, 3)) + 0.1 * rng.normal(size=(60, 3))
    X = (X * scale).astype(dtype)
    model = LowRankRegressor(radius).fit(X, Y)
    loss = 0.5 * np.square(model.predict(X) - Y).sum(1).mean()
    at_zero = 0.5 * np.square(Y - Y.mean(0)).sum(1).mean()
    assert loss <= at_zero * (1 + 1e-6)
    assert model.value_ == pytest.approx(loss, rel=1e-6)
    if dtype is np.float64 and scale == 1e30:
        assert loss < 0.02 * at_zero  # what features of size 1 reach, without an intercept


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_losses_out_of_range_are_refused_with_advice(scale: float) -> None:
    """Squares of such targets overflow or vanish in float32."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 5)).astype(np.float32), scale * rng.normal(size=(60, 3))
    with pytest.raises(ValueError, match=r"out of the range of torch\.float32\. Scale"):
        LowRankRegressor().fit(X, Y)
    positions = np.argwhere(np.ones((12, 5)))
    with pytest.raises(ValueError, match=r"out of the range of torch\.float64\. Scale"):
        LowRankCompletion().fit(positions, scale**6 * rng.normal(size=60))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_radii_whose_product_vanishes_have_a_mean() -> None:
    rng = np.random.default_rng(0)
    X, Y = 1e200 * rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    assert 0.0 < LowRankRegressor().fit(X, Y).radius_ < 1e-190
