"""Regression and outliers: the same objective where a peer has it, the nearest one else."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR, LinearSVR, OneClassSVM

from benchmarks.harness import Row
from benchmarks.svm.race import Fit, race
from fwnet.estimators import FWSVR, FWOneClassSVM

_TOLS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


def linear_regression(repeats: int) -> list[Row]:
    """n = 20,000, d = 50, gap 1e-3: LinearSVR has the same objective at half the C."""
    X, y = make_regression(20_000, 50, n_informative=20, noise=50.0, random_state=0)
    y = y / y.std()
    ours = FWSVR(kernel="linear", tol=1e-3).fit(X, y)
    best = _primal(X, y, FWSVR(kernel="linear", tol=1e-9).fit(X, y))
    rivals: dict[str, tuple[Fit, float | None]] = {}
    for dual in (False, True):
        for tol in _TOLS:
            fit = _linear_svr(X, y, dual, tol)
            if _primal(X, y, fit()) <= (1 + 1e-3) * best:
                rivals[f"LinearSVR(dual={dual}, tol={tol:g})"] = (fit, None)
                break

    def fit_ours() -> Any:
        return FWSVR(kernel="linear", tol=1e-3).fit(X, y)

    note = f"gap {ours.duality_gap_:.1e}, {ours.solver_}"
    return race("linear regression n=20000 d=50", fit_ours, rivals, min(repeats, 5), note)


def kernel_regression(repeats: int) -> list[Row]:
    """n = 3000, d = 10: SVR's loss is not squared, so the scores on new points stand beside."""
    X, y = make_friedman1(3000, random_state=0, noise=1.0)
    test = make_friedman1(3000, random_state=1)
    y = (y - 14.4) / 4.9
    truth = (test[1] - 14.4) / 4.9
    ours, peer = FWSVR().fit(X, y), SVR().fit(X, y)
    note = (
        f"gap {ours.duality_gap_:.1e}, R² {ours.score(test[0], truth):.3f} / "
        f"{peer.score(test[0], truth):.3f}"
    )
    rivals = {"SVR": (lambda: SVR().fit(X, y), 1.0)}
    return race(
        "rbf regression n=3000 d=10", lambda: FWSVR().fit(X, y), rivals, min(repeats, 3), note
    )


def outliers(repeats: int) -> list[Row]:
    """n = 3000, d = 10, gap 1e-3: OneClassSVM on K + I/C has the same objective."""
    X = np.random.default_rng(0).normal(size=(3000, 10))
    gamma = float(1.0 / (10 * X.var()))
    K = rbf_kernel(X, gamma=gamma) + np.eye(3000)
    best = FWOneClassSVM(tol=1e-8).fit(X).offset_

    def fit(tol: float) -> np.ndarray:
        matrix = rbf_kernel(X, gamma=gamma)
        matrix.flat[::3001] += 1.0
        peer = OneClassSVM(kernel="precomputed", nu=1.0 / 3000, tol=tol, cache_size=1000)
        peer.fit(matrix)
        alpha = np.zeros(3000)
        alpha[peer.support_] = peer.dual_coef_[0] / peer.dual_coef_.sum()
        return alpha

    tol = next(t for t in _TOLS if (a := fit(t)) @ K @ a <= (1 + 1e-3) * best)
    ours = FWOneClassSVM().fit(X)
    note = f"gap {ours.duality_gap_:.1e}, {len(ours.support_)} support vectors, {ours.solver_}"
    rivals = {f"OneClassSVM on K (tol={tol:g})": (lambda: fit(tol), None)}
    return race(
        "rbf outliers n=3000 d=10", lambda: FWOneClassSVM().fit(X), rivals, min(repeats, 5), note
    )


def _linear_svr(X: np.ndarray, y: np.ndarray, dual: bool, tol: float) -> Fit:
    def fit() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            loss = "squared_epsilon_insensitive"
            return LinearSVR(epsilon=0.1, C=0.5, loss=loss, dual=dual, tol=tol).fit(X, y)

    return fit


def _primal(X: np.ndarray, y: np.ndarray, model: Any) -> float:
    intercept = float(np.ravel(model.intercept_)[0])
    excess = np.maximum(0.0, np.abs(y - X @ model.coef_ - intercept) - 0.1)
    return 0.5 * float(model.coef_ @ model.coef_ + intercept**2 + excess @ excess)
