"""The peers, each at the loosest tolerance that reaches the gap, so that none works too hard."""

from __future__ import annotations

import importlib
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC, OneClassSVM

from benchmarks.svm.race import Fit


def optional(module: str) -> Any:
    """Import a peer, or return None."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def one_class(X: np.ndarray, y: np.ndarray, gamma: float, C: float, tol: float) -> np.ndarray:
    """OneClassSVM on K = yyᵀ∘(k + 1) + I/C, K included; return the weights on the simplex."""
    K = rbf_kernel(X, gamma=gamma)
    K += 1.0
    K *= y[:, None]
    K *= y
    K.flat[:: len(y) + 1] += 1.0 / C
    peer = OneClassSVM(kernel="precomputed", nu=1.0 / len(y), tol=tol, cache_size=1000).fit(K)
    alpha = np.zeros(len(y))
    alpha[peer.support_] = peer.dual_coef_[0] / peer.dual_coef_.sum()
    return alpha


def one_class_at(X: np.ndarray, y: np.ndarray, gamma: float, C: float, gap: float) -> Fit:
    """OneClassSVM at the loosest tol of 1e-2, 3e-3, ... whose relative duality gap is met."""
    for tol in (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6):
        alpha = one_class(X, y, gamma, C, tol)
        support = np.flatnonzero(alpha)
        signed = alpha[support] * y[support]
        scores = rbf_kernel(X, X[support], gamma=gamma) @ signed + signed.sum()
        square = float(np.dot(alpha * y, scores))
        rho = square + float(alpha @ alpha) / C
        slack = np.maximum(0.0, 1.0 - y * scores / rho)
        primal = 0.5 * (square / rho**2 + C * float(slack @ slack))
        if (primal - 0.5 / rho) / primal <= gap:
            break
    return lambda: one_class(X, y, gamma, C, tol)


def primal_value(X: Any, y: np.ndarray, w: np.ndarray, b: float, C: float) -> float:
    slack = np.maximum(0.0, 1.0 - y * (np.asarray(X @ w) + b))
    return 0.5 * (float(w @ w) + b * b + C * float(slack @ slack))


def linear_svc_at(
    X: Any, y: np.ndarray, C: float, gap: float, best: float
) -> tuple[Fit, str, float]:
    """The quickest LinearSVC (dual or primal, any tol) within `gap` of the optimal value."""
    found: list[tuple[float, Fit, str]] = []
    for dual in (False, True):
        for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5):
            fit = _linear_svc(X, y, C, dual, tol)
            start = time.process_time()
            model = fit()
            spent = time.process_time() - start
            value = primal_value(X, y, model.coef_[0], float(model.intercept_[0]), C)
            if (value - best) / value <= gap:
                found.append((spent, fit, f"LinearSVC(dual={dual}, tol={tol:g})"))
                break
    spent, fit, name = min(found, key=lambda entry: entry[0])
    return fit, name, spent


def _linear_svc(X: Any, y: np.ndarray, C: float, dual: bool, tol: float) -> Fit:
    def fit() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LinearSVC(C=C / 2, dual=dual, tol=tol, max_iter=5000).fit(X, y)

    return fit


def snap_at(X: Any, y: np.ndarray, gap: float, best: float) -> Fit | None:
    """Snap ML's squared-hinge SVM (its regularizer 2 is our C = 1), if it is installed."""
    snapml = optional("snapml")
    if snapml is None:
        return None

    def fitter(tol: float) -> Fit:
        return lambda: snapml.SupportVectorMachine(
            loss="squared_hinge", regularizer=2.0, fit_intercept=True, tol=tol, max_iter=10_000
        ).fit(X, y)

    fit = fitter(1e-1)
    for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6):
        fit = fitter(tol)
        model = fit()
        w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        value = primal_value(X, y, w, b, 1.0)
        if (value - best) / value <= gap:
            break
    return fit
