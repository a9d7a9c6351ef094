"""Parameters that are True or False, in every estimator: a text is neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fwnet.estimators import (
    FWSVC,
    DeepSVC,
    LowRankCompletion,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
    LowRankSoftmaxClassifierCV,
)

SWITCHES = ("fit_intercept", "warm_start", "probability", "progress")
ESTIMATORS: list[Any] = [
    DeepSVC(max_iter=1),
    FWSVC(),
    LowRankCompletion(radius=1.0),
    LowRankRegressor(radius=1.0),
    LowRankSoftmaxClassifier(radius=1.0),
    LowRankSoftmaxClassifierCV(radii=[1.0], cv=2),
]
CASES = [
    pytest.param(estimator, name, id=f"{type(estimator).__name__}-{name}")
    for estimator in ESTIMATORS
    for name in SWITCHES
    if name in estimator.get_params(deep=False)
]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Positions of entries, and classes; both kinds of estimator can fit them."""
    X = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2)
    return X, (X.sum(1) > 5).astype(int)


@pytest.mark.parametrize(("estimator", "name"), CASES)
@pytest.mark.parametrize("value", ["no", None, 2, 0.5])
def test_what_is_no_switch_gets_a_sentence(estimator: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be True or False; got {value!r}\.$"):
        clone(estimator).set_params(**{name: value}).fit(*data())


@pytest.mark.parametrize("value", [np.False_, 0])
def test_numpy_and_whole_numbers_are_switches(value: Any) -> None:
    X, y = data()
    model = LowRankSoftmaxClassifier(radius=1.0, fit_intercept=value).fit(X / 6, y)
    assert len(model.U_) == 2
