"""solver="fwnet": the paper's neural SVM, and any solver of the core."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_circles
from sklearn.exceptions import ConvergenceWarning

import fwnet
from fwnet.estimators import FWSVC


def circles():
    return make_circles(300, factor=0.3, noise=0.1, random_state=0)


def test_the_network_comes_near_the_optimum_and_says_how_near():
    X, y = circles()
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap.*above tol"):
        network = FWSVC(solver="fwnet").fit(X, y)
    assert network.solver_ == "fwnet"
    assert network.n_iter_ == 300
    assert 1e-3 < network.duality_gap_ < 0.1
    assert network.score(X, y) >= 0.99


def test_a_solver_of_the_core_reaches_the_same_optimum():
    X, y = circles()
    core = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), second_order=True, max_steps=5000, tol=1e-12)
    found = FWSVC(solver=core, tol=1e-6).fit(X, y)
    exact = FWSVC(tol=1e-10).fit(X, y)
    assert found.duality_gap_ <= 1e-6
    np.testing.assert_allclose(found.decision_function(X), exact.decision_function(X), atol=1e-3)


def test_a_network_of_the_user_is_cloned_and_deeper_is_nearer():
    X, y = load_digits(n_class=3, return_X_y=True)
    oracle = fwnet.Softmin(20.0, relative=True, growth=0.5)
    gaps = []
    for depth in (50, 500):
        solver = fwnet.FrankWolfe(
            fwnet.Simplex(), fwnet.OpenLoop(30), oracle=oracle, max_steps=depth
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = clone(FWSVC(solver=fwnet.FWNet(solver), kernel="linear")).fit(X / 16, y)
        assert model.n_iter_ == depth
        assert model.coef_.shape == (3, 64)
        gaps.append(model.duality_gap_)
    assert gaps[1] < gaps[0]
