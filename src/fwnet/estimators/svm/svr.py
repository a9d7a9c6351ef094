"""FWSVR: regression with the squared ε-insensitive loss, and a certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from fwnet.estimators.svm import inputs
from fwnet.estimators.svm.kernel_estimator import KernelEstimator
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.margin_problem import MarginProblem
from fwnet.estimators.svm.multiclass import Split
from fwnet.numerics import checks


@dataclass(eq=False, repr=False, kw_only=True)
class FWSVR(RegressorMixin, KernelEstimator):
    """Support vector regression with the squared ε-insensitive loss, solved by Frank-Wolfe methods.

        min ½|w|² + ½b² + ½ Σ Cᵢ max(0, |yᵢ − f(xᵢ)| − ε)²,   f(x) = ⟨w, φ(x)⟩ + b

    For a linear kernel that is `LinearSVR(loss="squared_epsilon_insensitive")` with half the C. The
    bias is regularised: centre y if its mean is large. Kernels are solved as in `FWSVC`, with two
    vertices for every point, one for each sign, and 0; ε = 0 makes every point a support vector.
    Every fit ends with its relative duality gap (P − D)/P.

    Arguments:
        C: weight of the errors; Cᵢ = C · sample weight.
        epsilon: half the width of the tube without loss.
        kernel, gamma, degree, coef0: as in `FWSVC`.
        tol, max_iter, max_time, cache_size, n_jobs, progress, verbose: as in `FWSVC`.
        random_state: order of the first sample of a linear fit; None is a fixed order.

    Attributes: n_features_in_, support_, support_vectors_, dual_coef_ (1, support), intercept_,
    coef_ (d,) for a linear kernel, duality_gap_ ((P − D)/P), n_iter_, solver_ ("pairwise" on the
    whole kernel matrix or "corrective"; for a linear kernel "newton", or "liblinear" above 2000
    features), trace_ (a `fwnet.Trace`).

    Example:
        >>> X = np.linspace(0, 6, 200)[:, None]
        >>> reg = FWSVR(C=100.0, epsilon=0.01).fit(X, np.sin(X[:, 0]))
        >>> bool(reg.score(X, np.sin(X[:, 0])) > 0.999), reg.duality_gap_ <= 1e-3
        (True, True)

    Reference: Ho and Lin (2012), "Large-scale linear support vector regression".
    """

    epsilon: float = 0.1

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FWSVR:
        """Fit to points X (n, d), dense or CSR, with targets y (n,)."""
        limits = self._limits()
        epsilon = checks.non_negative("epsilon", self.epsilon)
        X, y = self._points(X, y, y_numeric=True)
        y = np.asarray(y, np.float64)
        inputs.check_numbers("y", y, self)
        _check_tube(y, epsilon)
        points = self._weighted(X, sample_weight)
        targets = y[points.kept]
        problem = MarginProblem(targets, points.box, points.order, epsilon=epsilon)
        (solved,) = self._solve(points, [Split(None, problem)], limits)
        self.intercept_ = np.array([solved.intercept])
        if self._kernel == "linear":
            self.coef_ = solved.w
        return self

    def predict(self, X: Any) -> Array:
        """Return f(x) (n,)."""
        return np.asarray(self._sums(X)[:, 0] + self.intercept_[0])


def _check_tube(y: Array, epsilon: float) -> None:
    """Warn if the tube around 0 holds every target: then f = 0 has no loss."""
    if np.abs(y).max(initial=0.0) <= epsilon and np.ptp(y) > 0:
        warnings.warn(
            f"FWSVR predicts 0 everywhere: every target lies within epsilon={epsilon:g} of 0, "
            "where errors are free. Lower epsilon below the errors that matter, or standardise y.",
            UserWarning,
            stacklevel=3,
        )
