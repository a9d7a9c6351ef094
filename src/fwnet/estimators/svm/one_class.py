"""FWOneClassSVM: one-class support vectors with squared slacks, and a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin

from fwnet.estimators.svm.kernel_estimator import KernelEstimator
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.margin_problem import BinaryProblem
from fwnet.estimators.svm.multiclass import Split


@dataclass(eq=False, repr=False)
class FWOneClassSVM(OutlierMixin, KernelEstimator):
    """The half-space that holds the points, with squared slacks, solved by Frank-Wolfe methods.

        min ½|w|² − ρ + ½ Σ Cᵢ max(0, ρ − ⟨w, φ(xᵢ)⟩)²  over w and ρ
        min ½ αᵀ(K + diag(1/C))α  over the simplex,   w = Σ αᵢφ(xᵢ)

    The second line is the dual. For kernels with a constant k(x, x), as rbf, it is also the minimum
    ball around the points (each with a feature of its own, of length 1/√C). The optimum is that of
    `OneClassSVM(kernel="precomputed", nu=1/n)` on K + diag(1/C): dual_coef_ sums to 1, and offset_
    is ρ = αᵀ(K + diag(1/C))α. Where αᵢ > 0 the slack is αᵢ/Cᵢ > 0, so the support vectors are the
    training points that count as outliers: a smaller C makes more of them.

    Kernel values of more than 384 points are float32 unless tol < 1e-5, and off by 1e-3·tol at
    most: so is ρ. The gap counts it.

    Arguments:
        C: weight of the squared slacks; Cᵢ = C · sample weight.
        kernel, gamma, degree, coef0: as in `FWSVC`.
        tol, max_iter, max_time, cache_size, n_jobs, progress, verbose, random_state: as in `FWSVC`.

    Attributes: n_features_in_, support_, support_vectors_, dual_coef_ (1, support), coef_ (1, d)
    for a linear kernel, offset_, duality_gap_ (relative: ρ is above its minimum by at most this
    share of it), n_iter_, solver_, trace_ (a `fwnet.Trace`).

    Example:
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> clf = FWOneClassSVM(C=10.0).fit(X)
        >>> clf.predict([[0.0, 0.0], [6.0, 6.0]]), clf.duality_gap_ <= 1e-3
        (array([ 1, -1]), True)

    Reference: Tsang, Kwok and Cheung (2005), "Core vector machines".
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FWOneClassSVM:
        """Fit to points X (n, d), dense or CSR; y is ignored."""
        limits = self._limits()
        X, _ = self._points(X)
        points = self._weighted(X, sample_weight)
        ones = np.ones(len(points.box))  # a classifier of one class without bias
        problem = BinaryProblem(ones, points.box, points.order, bias=0.0)
        (solved,) = self._solve(points, [Split(None, problem)], limits)
        total = float(solved.coef.sum())  # the coefficients are α/ρ
        self.dual_coef_ = self.dual_coef_ / total
        self.offset_ = 1.0 / total
        if solved.w is not None:  # the gap is that of this vector
            self.coef_ = solved.w[None] / total
        return self

    def score_samples(self, X: Any) -> Array:
        """Return ⟨w, φ(x)⟩ = Σ αᵢ k(xᵢ, x) (n,)."""
        return self._sums(X)[:, 0]

    def decision_function(self, X: Any) -> Array:
        """Return score_samples − offset_ (n,), below 0 for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> Array:
        """Return 1 for points inside and −1 for outliers (n,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
