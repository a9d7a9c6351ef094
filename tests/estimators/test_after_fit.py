"""A fitted estimator answers from what it was fitted with, whatever `set_params` says since."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from fwnet.estimators import (
    FWSVC,
    FWSVR,
    DeepSVC,
    FWOneClassSVM,
    LowRankCompletion,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
    LowRankSoftmaxClassifierCV,
)

X, y = make_blobs(120, 2, centers=4, random_state=3)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [3, 4])
def test_another_scheme_waits_for_the_next_fit(scheme: str, classes: int) -> None:
    some = y < classes
    model = FWSVC(multi_class=scheme).fit(X[some], y[some])
    before = model.decision_function(X)
    model.set_params(multi_class="ovr" if scheme == "ovo" else "ovo")
    assert np.array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("build", [FWSVC, FWSVR, FWOneClassSVM])
@pytest.mark.parametrize("fitted", ["linear", "rbf", "precomputed", "poly"])
@pytest.mark.parametrize("later", ["linear", "rbf", "precomputed"])
def test_another_kernel_waits_for_the_next_fit(build: type, fitted: str, later: str) -> None:
    points = rbf_kernel(X) if fitted == "precomputed" else X
    model = build(kernel=fitted, gamma=0.5).fit(points, y % 2)
    before = model.predict(points)
    model.set_params(kernel=later, gamma=7.0, degree=2, coef0=1.0)
    assert np.array_equal(model.predict(points), before)
    if fitted != "precomputed":
        assert np.allclose(model.predict(sparse.csr_array(points)), before)


def test_a_new_kernel_leaves_no_weights_of_the_old_one() -> None:
    model = FWSVC(kernel="linear").fit(X, y)
    assert not hasattr(model.set_params(kernel="rbf").fit(X, y), "coef_")


@pytest.mark.parametrize("build", [FWSVC, lambda **given: DeepSVC(max_iter=2, **given)])
def test_probabilities_are_those_of_the_fit(build: type) -> None:
    model = build(probability=True).fit(X, y)
    before = model.predict_proba(X)
    assert np.array_equal(model.set_params(probability=False).predict_proba(X), before)
    model.fit(X, y)
    assert not hasattr(model, "predict_proba")
    model.set_params(probability=True)
    with pytest.raises(AttributeError, match=r"set_params\(probability=True\) and fit again"):
        model.predict_proba(X)


@pytest.mark.parametrize(
    ("build", "others"),
    [
        (lambda: DeepSVC(max_iter=2), {"mode": "forward", "module": None, "C": 9.0}),
        (LowRankSoftmaxClassifier, {"radius": 1.0, "fit_intercept": False, "max_rank": 1}),
        (LowRankRegressor, {"radius": 1.0, "fit_intercept": False, "max_rank": 1}),
        (lambda: LowRankSoftmaxClassifierCV(radii=2), {"radii": 1, "fit_intercept": False}),
    ],
)
def test_other_parameters_wait_for_the_next_fit(build: type, others: dict[str, object]) -> None:
    model = build().fit(X, y)
    before = model.predict(X)
    assert np.array_equal(model.set_params(**others).predict(X), before)


def test_another_shape_waits_for_the_next_fit() -> None:
    digits = load_digits().images[0]
    positions = np.argwhere(digits >= 0)
    model = LowRankCompletion(radius=50.0).fit(positions, digits.ravel())
    before = model.predict(positions)
    assert np.array_equal(model.set_params(shape=(3, 3)).predict(positions), before)
