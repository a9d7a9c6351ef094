"""Probabilities from decision values: Platt's sigmoid on values from cross-validation.

    P(y = 1 | f) = 1/(1 + exp(a f + b))

a and b maximise the likelihood of held-out decision values, with the targets (N₊ + 1)/(N₊ + 2) and
1/(N₋ + 2) in place of 1 and 0. Several classes get one sigmoid each, against the rest, and the
probabilities are divided by their sum.

Reference: Lin, Lin and Weng (2007), "A note on Platt's probabilistic outputs".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from fwnet.estimators.kernels import Array

_FOLDS = 5


def cross_validated_sigmoids(
    estimator: Any, X: Any, labels: Array, weight: Array, square: bool = False
) -> Array:  # (problems, 2)
    """Fit one sigmoid a column of `decision_function` to values held out in five folds.

    Arguments:
        estimator: fitted anew in each fold.
        X, labels, weight: its points, classes 0, 1, ... and sample weights.
        square: whether X is a kernel matrix.
    """
    counts = np.bincount(labels)
    folds, classes = min(_FOLDS, int(counts.min())), len(counts)
    if folds < 2:
        raise ValueError(
            "probability=True needs at least two points of every class for its "
            f"cross-validation; the smallest class has {folds}."
        )
    held = np.empty((len(labels), 1 if classes == 2 else classes))
    fold = StratifiedKFold(folds, shuffle=True, random_state=0)
    for train, test in fold.split(np.zeros(len(labels)), labels):
        estimator.fit(X[np.ix_(train, train)] if square else X[train], labels[train], weight[train])
        unseen = X[np.ix_(test, train)] if square else X[test]
        held[test] = estimator.decision_function(unseen).reshape(len(test), -1)
    targets = [1] if classes == 2 else range(classes)
    return np.array([fit_sigmoid(held[:, k], labels == c, weight) for k, c in enumerate(targets)])


def fit_sigmoid(decisions: Array, positive: Array, weight: Array) -> tuple[float, float]:
    """Return a, b for decisions (n,), a mask of the positive points (n,) and weights (n,)."""
    up, down = float(weight[positive].sum()), float(weight[~positive].sum())
    target = np.where(positive, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))
    scale = max(float(np.abs(decisions).max()), 1e-12)  # the search sees numbers of order 1
    f = decisions / scale

    def loss(ab: Array) -> tuple[float, Array]:
        z = ab[0] * f + ab[1]  # −log P = log(1 + e^z), −log(1 − P) = log(1 + e^−z)
        value = weight * (np.logaddexp(0.0, z) - (1.0 - target) * z)
        slope = weight * (expit(z) - (1.0 - target))
        return float(value.sum()), np.array([slope @ f, slope.sum()])

    start = np.array([0.0, np.log((down + 1.0) / (up + 1.0))])
    a, b = minimize(loss, start, jac=True, method="BFGS").x
    return float(a) / scale, float(b)


def calibrated(estimator: Any, X: Any) -> Array:
    """Return P (n, classes) of a classifier that was fitted with its sigmoids."""
    needs = "predict_proba needs %(name)s(probability=True) at fit."
    check_is_fitted(estimator, "sigmoids_", msg=needs)
    return probabilities(estimator.decision_function(X), estimator.sigmoids_)


def probabilities(decisions: Array, sigmoids: Array) -> Array:
    """Return P (n, classes) from decisions (n,) or (n, classes) and sigmoids (problems, 2)."""
    if decisions.ndim == 1:
        up = expit(-(sigmoids[0, 0] * decisions + sigmoids[0, 1]))
        return np.column_stack([1.0 - up, up])
    each = expit(-(decisions * sigmoids[:, 0] + sigmoids[:, 1]))
    total = each.sum(axis=1, keepdims=True)
    share = each / np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, share, 1.0 / each.shape[1]))
