"""Bad input gets a sentence, hard input the right answer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from fwnet import FrankWolfe, L1Ball
from fwnet.estimators import (
    FWSVC,
    FWSVR,
    DeepSVC,
    FWOneClassSVM,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
)

X, y = make_moons(60, noise=0.2, random_state=0)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"C": -1.0}, "C must be a positive finite number; got -1.0"),
        ({"C": np.nan}, "C must be a positive finite number; got nan"),
        ({"C": "1"}, "C must be a number; got '1'"),
        ({"tol": 0}, "tol must be a positive finite number; got 0"),
        ({"kernel": "gauss"}, "kernel must be one of 'linear', 'rbf', .*; got 'gauss'"),
        ({"gamma": -0.5}, "gamma must be a positive finite number; got -0.5"),
        ({"gamma": "big"}, "gamma must be 'scale', 'auto' or a number above 0; got 'big'"),
        ({"kernel": "poly", "degree": 2.5}, "degree must be a whole number; got 2.5"),
        ({"coef0": np.inf}, "coef0 must be a finite number; got inf"),
        ({"solver": "smo"}, "solver must be one of 'auto', .*; got 'smo'"),
        ({"solver": "newton"}, "solver='newton' needs kernel='linear'; got kernel='rbf'"),
        ({"multi_class": "all"}, "multi_class must be one of 'ovr', 'ovo'; got 'all'"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, or -1 .*; got 0"),
        ({"max_iter": None}, "max_iter must be a whole number of at least 1, or -1 .*; got None"),
        ({"max_iter": np.inf}, "max_iter must be a whole number of at least 1, or -1 .*; got inf"),
        ({"gamma": 1e300}, r"gamma=1e\+300 is too large for these points: γ\|x\|² reaches"),
        ({"solver": FrankWolfe(L1Ball())}, "solver must work over fwnet.Simplex.*over L1Ball"),
        ({"max_time": -1}, "max_time must be a positive finite number; got -1"),
        (
            {"cache_size": 0},
            "cache_size, if it is not 'auto', must be a positive finite number; got 0",
        ),
        ({"class_weight": {0: -1.0}}, "class_weight must be finite and above 0 for every class"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        FWSVC(**parameters).fit(X, y)


def test_one_class_only() -> None:
    with pytest.raises(ValueError, match=r"at least two classes .* got one class, 1"):
        FWSVC().fit(X, np.ones(60, int))
    with pytest.raises(ValueError, match="Every point of class 2 has sample weight 0"):
        FWSVC().fit(X, np.arange(60) % 3, sample_weight=np.arange(60) % 3 != 2)


def test_bad_points() -> None:
    wrong = X.copy()
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        FWSVC().fit(wrong, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FWSVC().fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        FWSVC().fit(X, np.linspace(0, 1, 60))
    with pytest.raises(ValueError, match="X has 1 features, but FWSVC is expecting 2"):
        FWSVC().fit(X, y).predict(X[:, :1])


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (-np.ones(60), "sample_weight must be finite and at least 0; got a smallest value of -1"),
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (np.zeros(60), "Every sample_weight is zero"),
        (np.ones((60, 1)), "sample_weight must be 1D"),
    ],
)
def test_bad_sample_weight(weight: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        FWSVC().fit(X, y, sample_weight=weight)


def test_precomputed_kernels_that_are_none() -> None:
    K = rbf_kernel(X)
    with pytest.raises(ValueError, match="needs a square matrix"):
        FWSVC(kernel="precomputed").fit(K[:, :-1], y)
    skew = K.copy()
    skew[2, 5] += 0.1
    with pytest.raises(ValueError, match=r"must be symmetric; X\[2, 5\] = .* but X\[5, 2\] = "):
        FWSVC(kernel="precomputed").fit(skew, y)
    with pytest.raises(ValueError, match="kernel='precomputed' is not positive semi-definite"):
        FWSVC(kernel="precomputed").fit(-K, y)
    slightly = K - 0.5 * np.eye(60)
    with pytest.raises(ValueError, match=r"the smallest eigenvalue of k \+ 1 is -"):
        FWSVC(kernel="precomputed").fit(slightly, y)


def test_callable_kernels_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"kernel\(X, Z\) must return a matrix of shape"):
        FWSVC(kernel=lambda A, B: np.ones(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel\(X, Z\) must return finite numbers"):
        FWSVC(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)
    with pytest.raises(ValueError, match=r"The kernel matrix kernel\(X, X\) must be symmetric"):
        FWSVC(kernel=lambda A, B: A[:, :1] + 0 * B[:, 0]).fit(X, y)


def test_indefinite_sigmoid_warns_or_refuses() -> None:
    with pytest.warns(UserWarning, match="'sigmoid' is not positive semi-definite"):
        model = FWSVC(kernel="sigmoid", gamma=1.0, C=0.1, coef0=0.0).fit(X, y)
    assert model.duality_gap_ <= 1e-3
    with pytest.raises(ValueError, match="so the SVM has no meaning"):
        FWSVC(kernel="sigmoid", gamma=5.0, coef0=-3.0, C=1e3).fit(X, y)


def test_duplicates_and_contradictions_get_the_right_answer() -> None:
    # One place with both labels and equal weight: f there is 0 by symmetry.
    same = FWSVC(gamma=1.0).fit(np.zeros((4, 1)), [0, 1, 0, 1])
    assert same.decision_function(np.zeros((1, 1))) == pytest.approx([0.0], abs=1e-12)
    # Twice the points are the points with twice the C.
    twice = FWSVC(C=1.0, gamma=1.0).fit(np.vstack([X, X]), np.append(y, y))
    heavy = FWSVC(C=2.0, gamma=1.0).fit(X, y)
    assert twice.decision_function(X) == pytest.approx(heavy.decision_function(X), abs=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_constant_features(kernel: str) -> None:
    # k is constant: the best f is a constant, c with min ½|w|²+½b² + ½ Σ (1 − y c)².
    model = FWSVC(kernel=kernel).fit(np.zeros((6, 3)), [0, 1, 1, 1, 1, 1])
    assert model.predict(np.zeros((1, 3))) == [1]
    inverse = 1.0 / (1.0 + (1.0 if kernel == "rbf" else 0.0))  # P is ½c²·inverse + the losses
    c = (5 - 1) / (6 + inverse)
    assert model.decision_function(np.zeros((1, 3))) == pytest.approx([c], rel=1e-9)


def test_stopping_early_warns_with_the_gap_and_the_way_out() -> None:
    Z, z = make_moons(1500, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"max_iter\) at a relative duality gap of .*Raise"):
        model = FWSVC(max_iter=20).fit(Z, z)
    assert 1e-3 < model.duality_gap_ <= 1.0
    with pytest.warns(
        ConvergenceWarning, match=r"\(max_time\) at a .* above tol=1e-09. Raise max_t"
    ):
        FWSVC(max_time=1e-4, tol=1e-9, solver="corrective").fit(Z, z)
    # Kernel values of 1e21 beside 1/C = 1: double precision cannot solve that.
    with pytest.warns(
        ConvergenceWarning, match=r"above tol=0.001. Double precision allows no more"
    ):
        FWSVC(kernel="poly", gamma=580.0).fit(
            100 + np.random.RandomState(42).normal(size=(100, 2)), np.arange(100) % 2
        )


def test_large_offsets_and_scales() -> None:
    # Distances are small differences of large numbers here; the certificate must not be fooled.
    Z, z = make_moons(900, noise=0.2, random_state=0)
    plain = FWSVC(gamma=1.0).fit(Z, z)
    moved = FWSVC(gamma=1.0).fit(Z + 1e4, z)
    assert moved.duality_gap_ <= 1e-3
    assert moved.decision_function(Z + 1e4) == pytest.approx(plain.decision_function(Z), abs=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FWSVC(gamma="scale").fit(Z * 1e8, z).score(Z * 1e8, z) > 0.95


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 1.5, 60)])
def test_points_far_from_the_origin(weight: np.ndarray | None) -> None:
    # As dates in seconds: the same distances, so the same gamma, machine and scores.
    near = FWSVC().fit(X, y, weight)
    far = FWSVC().fit(X + 2.0**30, y, weight)
    assert far.decision_function(X + 2.0**30) == pytest.approx(near.decision_function(X), abs=1e-5)


def test_numbers_whose_products_overflow() -> None:
    with pytest.raises(ValueError, match=r"X must hold numbers of at most 1e\+150 in size"):
        FWSVC().fit(X * 1e200, y)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="too large for double prec"):
        FWSVC(kernel="poly", gamma=1e200).fit(X, y)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="too large for double prec"):
        FWSVC(kernel="linear", C=1e10).fit(X * 1e149, y)


@pytest.mark.parametrize("scale", [1e7, 1e10])
def test_linear_machines_of_unscaled_features(scale: float) -> None:
    # Rounding eats the identity in I + Σ xxᵀ; the dual has the smaller systems and takes over.
    Z = scale * np.random.default_rng(0).normal(size=(20, 50))
    found = FWSVC(kernel="linear").fit(Z, Z[:, 0] > 0)
    assert found.score(Z, Z[:, 0] > 0) == 1.0
    assert found.duality_gap_ <= 1e-3
    assert found.solver_ == "pairwise"


def test_a_linear_machine_that_rounding_defeats_ends_with_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="Double precision allows no more"):
        FWSVC(kernel="linear").fit(X * 1e30, y)


def test_predict_proba_of_a_fit_without_it() -> None:
    late = FWSVC().fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match=r"predict_proba needs FWSVC\(probability=True\) at"):
        late.predict_proba(X)


@pytest.mark.parametrize(
    "build",
    [FWSVC, FWSVR, FWOneClassSVM, DeepSVC, LowRankSoftmaxClassifier, LowRankRegressor],
)
@pytest.mark.parametrize("verbose", ["x", -1, 0.5, None])
def test_verbose_is_a_whole_number(build: type, verbose: object) -> None:
    with pytest.raises(ValueError, match="verbose must be a whole number of at least 0; got"):
        build(verbose=verbose).fit(np.eye(4), np.array([0, 1, 0, 1]))
