"""FWSVC: squared-hinge support vector classification with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from fwnet.estimators.calibration import FOLDS, MarginClassifier, cross_validated_sigmoids
from fwnet.estimators.svm.kernel_estimator import KernelEstimator
from fwnet.estimators.svm.kernels import Array
from fwnet.estimators.svm.multiclass import Split, splits, votes
from fwnet.estimators.svm.neural import check_network, is_network
from fwnet.numerics import checks

_SOLVERS = ("auto", "pairwise", "corrective", "newton", "liblinear", "fwnet")
_LINEAR_ONLY = ("newton", "liblinear")


@dataclass(eq=False, repr=False, kw_only=True)
class FWSVC(MarginClassifier, KernelEstimator):
    """Support vector classification with the squared hinge, solved by Frank-Wolfe methods.

        min ½|w|² + ½b² + ½ Σ Cᵢ max(0, 1 − yᵢf(xᵢ))²,   f(x) = ⟨w, φ(x)⟩ + b

    Its dual is min ½ αᵀ(yyᵀ∘(k + 1) + diag(1/C))α over the simplex. The optimum is that of
    liblinear's squared hinge with half the C and a regularised bias. Every fit ends with the
    relative duality gap (P − D)/P of the classifier that it returns, in double precision.

    Arguments:
        C: weight of the errors; Cᵢ = C · class weight · sample weight.
        kernel: "linear", "rbf", "poly", "sigmoid", "precomputed", a callable k(X, Z) -> matrix on
            points of any kind, or a transformer whose features are multiplied, such as
            `fwnet.kernels.WeisfeilerLehman()` for lists of graphs.
        gamma: factor in rbf, poly and sigmoid: a number, "scale" (1/(d·Var X)), "auto" (1/d).
        degree, coef0: of poly, and coef0 of sigmoid.
        tol: the fit stops once (P − D)/P <= tol. Up to 384 points get the exact optimum.
        solver: "pairwise" (compiled pairwise Frank-Wolfe on the whole kernel matrix),
            "corrective" (the same on a growing set of vertices; memory within `cache_size`),
            "newton" or "liblinear" (kernel="linear" only), "fwnet" (the paper's neural SVM: a
            softmin network of 300 steps, or `max_iter` if that is less), any `fwnet.FWNet` or
            core solver over the simplex, or "auto"; `solver_` says which ran.
        multi_class: "ovr" (one against the rest) or "ovo" (each pair of classes).
        class_weight: None, "balanced", or a dict from class to weight.
        max_iter: steps a binary problem may take, −1 for no limit.
        max_time: seconds for the whole fit, None for no limit. Several binary problems, and the six
            fits of `probability`, share them.
        cache_size: megabytes for kernel values, or "auto", a quarter of the free memory. Memory is
            taken as values are made. Up to 128 MB stay for the next fit.
        warm_start: start from the last fit's solution, if the number of points is the same.
        progress: show a bar of the gap on its way to `tol` (needs rich).
        verbose: 1 logs a line a binary problem, 2 a line a round (logger "fwnet").
        n_jobs: threads that evaluate kernel values, or solve several binary problems at once: None
            for one, −1 for as many as there are processors. BLAS then takes one thread in each;
            with None it takes those that it takes elsewhere. The solution does not depend on it.
        probability: fit Platt's sigmoid by five-fold cross-validation, for `predict_proba`.
        random_state: order in which points are tried first; None is a fixed order.

    Attributes: classes_, n_features_in_, support_, support_vectors_, n_support_, dual_coef_
    (problems, support) with entries yᵢβᵢ, intercept_ (problems,), coef_ (problems, d) for a linear
    kernel, duality_gap_ (the largest (P − D)/P of the problems), duality_gaps_, n_iter_ (the
    largest), solver_, trace_ (the `fwnet.Trace` of the problem with the largest gap: t, value −D,
    gap, seconds), traces_ (one a problem).

    Example:
        >>> from sklearn.datasets import make_circles
        >>> X, y = make_circles(400, factor=0.2, noise=0.1, random_state=0)
        >>> clf = FWSVC(C=1.0, kernel="rbf").fit(X, y)
        >>> float(clf.score(X, y)), clf.duality_gap_ <= 1e-3, clf.solver_
        (1.0, True, 'corrective')
    """

    solver: Any = "auto"
    multi_class: str = "ovr"
    class_weight: Any = None
    warm_start: bool = False
    probability: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FWSVC:
        """Fit to points X (n, d), dense or CSR, with labels y (n,)."""
        limits = self._limits()
        self._check_choices()
        whole = limits.clock
        if self.probability:  # the fits of the cross-validation need their shares of the time
            limits = limits.share(FOLDS + 1)
        X, y = self._points(X, y)
        if y.dtype.kind == "f":  # whole numbers and names are classes; other numbers are not
            check_classification_targets(y)
        self.classes_, of_all = checks.classes("y", y)
        points = self._weighted(X, sample_weight, self._class_weights(y)[of_all])
        labels, classes = of_all[points.kept], len(self.classes_)
        self._require_classes(labels)
        parts = splits(labels, classes, self.multi_class, points.box, points.order)
        expansions = self._solve(points, self._started(parts), limits)
        self._scheme = self.multi_class
        self.intercept_ = np.array([solved.intercept for solved in expansions])
        self.n_support_ = np.bincount(of_all[self.support_], minlength=classes)
        if self._kernel == "linear":
            self.coef_ = np.array([solved.w for solved in expansions])
        if self.warm_start:
            self._last = [solved.coef for solved in expansions]
        self._forget_sigmoids()
        if self.probability:
            other = clone(self).set_params(
                kernel=self._kernel,
                probability=False,
                warm_start=False,
                progress=False,
                verbose=0,
            )
            square = self.kernel == "precomputed"
            self.sigmoids_ = cross_validated_sigmoids(
                other, points.X, labels, points.weight, square, whole
            )
        return self

    def decision_function(self, X: Any) -> Array:
        """Return f (n,) for two classes, else one score a class (n, classes)."""
        decisions = self._sums(X) + self.intercept_
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self._scheme == "ovo":
            return votes(decisions, len(self.classes_))
        return decisions

    def _check_choices(self) -> None:
        if is_network(self.solver):
            check_network(self.solver)
        else:
            checks.one_of("solver", self.solver, _SOLVERS)
        checks.one_of("multi_class", self.multi_class, ("ovr", "ovo"))
        if (
            isinstance(self.solver, str)
            and self.solver in _LINEAR_ONLY
            and self._kernel != "linear"
        ):
            raise ValueError(
                f"solver={self.solver!r} needs kernel='linear'; got kernel={self.kernel!r}. "
                "Use solver='auto'."
            )

    def _require_classes(self, labels: Array) -> None:
        present = np.flatnonzero(np.bincount(labels))
        if len(present) < 2:
            name = self.classes_.tolist()[present[0]]
            raise ValueError(
                "FWSVC needs points of at least two classes with a sample weight above 0; "
                f"got one class, {name!r}."
            )
        if len(present) < len(self.classes_):
            missing = np.setdiff1d(np.arange(len(self.classes_)), present)[0]
            raise ValueError(
                f"Every point of class {self.classes_.tolist()[missing]!r} has sample weight 0. "
                "Drop these points, or give one of them a weight above 0."
            )

    def _class_weights(self, y: Array) -> Array:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not np.isfinite(weights).all() or weights.min() <= 0:
            raise ValueError(
                "class_weight must be finite and above 0 for every class; "
                f"got {self.class_weight!r}."
            )
        return np.asarray(weights, dtype=np.float64)

    def _started(self, parts: list[Split]) -> list[Split]:
        """With the last fit's coefficients on the same number of points, if they are wanted."""
        last = getattr(self, "_last", None) if self.warm_start else None
        if last is None or [len(c) for c in last] != [len(part.problem.y) for part in parts]:
            return parts
        return [replace(part, start=coef) for part, coef in zip(parts, last, strict=True)]
