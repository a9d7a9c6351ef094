"""Probabilities from decision values: Platt's sigmoid on values from cross-validation.

    P(y = 1 | f) = 1/(1 + exp(a f + b))

a and b maximise the likelihood of held-out decision values, with the targets (N₊ + 1)/(N₊ + 2) and
1/(N₋ + 2) in place of 1 and 0. Several classes get one sigmoid each, against the rest, and the
probabilities are divided by their sum.

Reference: Lin, Lin and Weng (2007), "A note on Platt's probabilistic outputs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from fwnet.estimators.svm.kernels import Array
from fwnet.trace import Clock

FOLDS = 5
_FITTING = 0.8  # share of a fold's time for its fit, where time is limited
_PART = 256  # held-out points that are scored between two looks at the clock


class MarginClassifier(ClassifierMixin):
    """Classes and probabilities from `decision_function`; `probability` is a parameter."""

    probability: bool
    classes_: Array
    sigmoids_: Array

    def predict(self, X: Any) -> Array:
        """Return the class of each point (n,)."""
        decisions = self.decision_function(X)
        found = (decisions > 0).astype(int) if decisions.ndim == 1 else decisions.argmax(1)
        return np.asarray(self.classes_[found])

    @property
    def predict_proba(self) -> Callable[[Any], Array]:
        """predict_proba(X): Platt's probabilities (n, classes); needs probability=True at `fit`.

        The sigmoids are fitted to decision values of five-fold cross-validation. The most
        probable class may differ from `predict` near the boundary, as the sigmoid has an offset.
        """
        # A property, since scikit-learn's `available_if` hides the reason of its AttributeError.
        fitted = hasattr(self, "classes_")
        if not (hasattr(self, "sigmoids_") if fitted else self.probability):
            raise NotFittedError(  # an AttributeError, so that hasattr says no
                f"predict_proba needs {type(self).__name__}(probability=True) at fit. Set it with "
                "set_params(probability=True) and fit again."
            )
        return self._probabilities

    def _probabilities(self, X: Any) -> Array:
        check_is_fitted(self)
        decisions = self.decision_function(X)
        return probabilities(decisions, self.sigmoids_)

    def _forget_sigmoids(self) -> None:
        """Drop the sigmoids of the last fit."""
        self.__dict__.pop("sigmoids_", None)


def cross_validated_sigmoids(
    estimator: Any,
    X: Any,
    labels: Array,
    weight: Array,
    square: bool = False,
    clock: Clock | None = None,
) -> Array:  # (problems, 2)
    """Fit one sigmoid a column of `decision_function` to values held out in five folds.

    Arguments:
        estimator: fitted anew in each fold.
        X, labels, weight: its points, classes 0, 1, ... and sample weights.
        square: whether X is a kernel matrix.
        clock: the time for all folds, if it is limited; `estimator` then has `max_time`. Points
            that there is no time for are left out, but never all points of the first fold.
    """
    counts = np.bincount(labels)
    folds, classes = min(FOLDS, int(counts.min())), len(counts)
    if folds < 2:
        raise ValueError(
            "probability=True needs at least two points of every class for its "
            f"cross-validation; the smallest class has {folds}."
        )
    held = np.full((len(labels), 1 if classes == 2 else classes), np.nan)
    fold = StratifiedKFold(folds, shuffle=True, random_state=0)
    clock = clock or Clock()
    limited = np.isfinite(clock.max_seconds)
    for k, (train, test) in enumerate(fold.split(np.zeros(len(labels)), labels)):
        share = Clock(clock.left / (folds - k))
        if k and share.is_over:
            break
        if limited:
            estimator.set_params(max_time=max(_FITTING * share.left, 1e-3))
            test = np.random.default_rng(k).permutation(test)
        estimator.fit(X[np.ix_(train, train)] if square else X[train], labels[train], weight[train])
        for some in _pieces(test, _PART if limited else len(test), share):
            unseen = X[np.ix_(some, train)] if square else X[some]
            held[some] = estimator.decision_function(unseen).reshape(len(some), -1)
    seen = np.isfinite(held[:, 0])
    held, labels, weight = held[seen], labels[seen], weight[seen]
    targets = [1] if classes == 2 else range(classes)
    return np.array([fit_sigmoid(held[:, k], labels == c, weight) for k, c in enumerate(targets)])


def _pieces(points: Array, size: int, clock: Clock) -> Iterator[Array]:
    """Yield points in pieces, at least one piece, until the time is over."""
    for lo in range(0, len(points), size):
        yield points[lo : lo + size]
        if clock.is_over:
            return


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


def probabilities(decisions: Array, sigmoids: Array) -> Array:
    """Return P (n, classes) from decisions (n,) or (n, classes) and sigmoids (problems, 2)."""
    if decisions.ndim == 1:
        up = expit(-(sigmoids[0, 0] * decisions + sigmoids[0, 1]))
        return np.column_stack([1.0 - up, up])
    each = expit(-(decisions * sigmoids[:, 0] + sigmoids[:, 1]))
    total = each.sum(axis=1, keepdims=True)
    share = each / np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, share, 1.0 / each.shape[1]))
