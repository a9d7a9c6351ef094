"""The first cases of the law of estimators; `make attack` runs thousands."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import fwnet.estimators
from fwnet import distributed
from laws import estimators, low_rank_fits

# Failed once: a gap taken in float32, ρ from a kernel matrix that had rounded it off, and a linear
# one-class machine whose vector was not among the attributes, though its gap was reported.
FAILED_ONCE = [1073, 1135, 202611190000460, 202611220000702, 202611260000632, 202611260002201]

Attack = Callable[[np.random.Generator], str | None]
ATTACKS: dict[str, tuple[Attack, int]] = {
    "FWSVC": (estimators.attack_svc, 40),
    "FWSVR": (estimators.attack_svr, 25),
    "FWOneClassSVM": (estimators.attack_one_class, 25),
    "pixels": (estimators.attack_pixels, 4),
    "DeepSVC": (estimators.attack_deep, 6),
    "LowRankSoftmaxClassifier": (low_rank_fits.attack_softmax, 20),
    "LowRankRegressor": (low_rank_fits.attack_regression, 12),
    "LowRankCompletion": (low_rank_fits.attack_completion, 12),
    "distributed.fit": (low_rank_fits.attack_distributed, 12),
}


def failure_of(attack: Attack, number: int) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attack(np.random.default_rng(number))


@pytest.mark.parametrize("name", ATTACKS)
def test_the_law_of_estimators(name: str) -> None:
    attack, count = ATTACKS[name]
    for number in range(count):
        failure = failure_of(attack, number)
        assert failure is None, f"case {number}: {failure}"


def test_the_law_of_estimators_where_it_failed_once() -> None:
    for number in FAILED_ONCE:
        failure = failure_of(estimators.attack, number)
        assert failure is None, f"python -m tests.laws --replay estimators:{number}"


def test_every_estimator_is_drawn() -> None:
    """A new estimator joins by a function of the law."""
    known = vars(estimators) | vars(low_rank_fits)
    helpers = {"TableEncoder", "load_model", "save_model", "to_onnx"}
    assert set(fwnet.estimators.__all__) - helpers <= set(known)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_the_law_sees_a_gap_that_is_too_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fits report nine tenths of their gap, cases must fail.

    The head of a `DeepSVC` is solved exactly, so that its gap is rounding: there its weights are
    off by a thousandth.
    """
    for module in (estimators, low_rank_fits):
        monkeypatch.setattr(module, "fitted", spoiled(module.fitted))
    load = distributed.load_model
    monkeypatch.setattr(distributed, "load_model", lambda place: SmallerGap(load(place)))
    attack, count = ATTACKS[name]
    found = (failure_of(attack, number) for number in range(count))
    assert any(text is not None and text.startswith("false certificate") for text in found)


Fit = tuple[object, bool, str | None]


def spoiled(honest: Callable[..., Fit]) -> Callable[..., Fit]:
    """`laws.fits.fitted`, whose models then claim too much."""

    def fitted(*data: object, **more: object) -> Fit:
        model, warned, refusal = honest(*data, **more)
        known = vars(model)
        for name in {"duality_gap_", "duality_gaps_"} & set(known):
            setattr(model, name, 0.9 * known[name])
        if isinstance(model, fwnet.estimators.DeepSVC):
            model.coef_ = 1.001 * model.coef_
        return model, warned, refusal

    return fitted


class SmallerGap:
    """A model of `distributed.fit` with nine tenths of its gap."""

    def __init__(self, model: distributed.LowRankModel) -> None:
        self.U, self.s, self.V = model.U, model.s, model.V
        self.radius, self.value, self.gap = model.radius, model.value, 0.9 * model.gap
