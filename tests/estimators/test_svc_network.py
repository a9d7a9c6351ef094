"""solver="fwnet": the paper's neural SVM, and any solver of the core."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_circles
from sklearn.exceptions import ConvergenceWarning

import fwnet
from fwnet.estimators import FWSVC
from fwnet.estimators.svm.neural import default_network


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


def test_the_default_network_multiplies_as_the_matrix_does():
    X, y = circles()
    fits = []
    # The second one gets Q as a dense matrix; after more steps β is so large that rounding decides.
    for solver in ("fwnet", default_network(30)):
        model = FWSVC(3.0, solver=solver, class_weight={0: 0.5, 1: 2.0}, max_iter=30)
        with pytest.warns(ConvergenceWarning):
            fits.append(model.fit(X, y))
    factors, dense = fits
    np.testing.assert_allclose(
        factors.decision_function(X), dense.decision_function(X), rtol=1e-9, atol=1e-9
    )
    assert factors.duality_gap_ == pytest.approx(dense.duality_gap_, rel=1e-9)
