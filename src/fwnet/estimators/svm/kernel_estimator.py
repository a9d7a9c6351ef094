"""What the kernel estimators share: limits, support vectors, certificates, sums over kernels."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from fwnet.estimators.inputs import check_switches, sample_weights
from fwnet.estimators.svm import inputs
from fwnet.estimators.svm.fitting import SVMTask, report, solve_all, trial_order
from fwnet.estimators.svm.kernels import Array, KernelSpec, cross_kernel
from fwnet.estimators.svm.limits import Limits
from fwnet.estimators.svm.margin_problem import Expansion
from fwnet.estimators.svm.multiclass import Split
from fwnet.numerics import checks
from fwnet.trace import Clock

_SLICE = 1 << 22  # kernel values that a prediction makes at a time


class WeightedPoints(NamedTuple):
    """The points of a fit that have a weight."""

    X: Any
    weight: Array
    kept: Array  # their indices among the points that were given
    box: Array  # the C of each
    order: Array  # in which they are tried first


@dataclass(eq=False, repr=False)
class KernelEstimator(BaseEstimator):
    """A sum Σ cᵢ k(xᵢ, x) over support vectors, fitted to a duality gap.

    The parameters are explained in `FWSVC`.
    """

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 0.0
    tol: float = 1e-3
    max_iter: int = -1
    max_time: float | None = None
    cache_size: float | str = "auto"
    n_jobs: int | None = None
    progress: bool = False
    verbose: int = 0
    random_state: Any = None
    coef_: Any = field(init=False)  # with a linear kernel only
    # Of the fit: its kernel; what makes points of graphs, for example, None for points as they are;
    # whether its points are not rows of numbers.
    _spec: KernelSpec = field(init=False)
    _features: Any = field(init=False)
    _objects: bool = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._kernel == "precomputed"
        tags.input_tags.sparse = bool(_sparse(self._kernel))
        return tags

    @property
    def _kernel(self) -> Any:
        """The kernel of the points; "linear" where they are features that `kernel` makes."""
        return "linear" if has_features(self.kernel) else self.kernel

    def _limits(self) -> Limits:
        check_switches(self)
        checks.verbosity("verbose", self.verbose)
        limit = None if self.max_time is None else checks.positive("max_time", self.max_time)
        tol, steps = checks.positive("tol", self.tol), inputs.step_limit(self.max_iter)
        size: Any = self.cache_size
        if size != "auto":
            size = checks.positive("cache_size, if it is not 'auto',", size)
        threads = effective_n_jobs(self.n_jobs)
        return Limits(tol, steps, Clock(limit), None if size == "auto" else size, threads=threads)

    def _points(self, X: Any, y: Any = "no_validation", **rules: Any) -> tuple[Any, Any]:
        """Check the points of a fit, and their labels or targets if there are any."""
        self._features, self._objects = None, False
        if has_features(self.kernel):
            self._features = clone(self.kernel)
            X = self._features.fit_transform(X)
        elif callable(self.kernel) and not _is_table(X):
            self._objects = True
            return _as_objects(X), _labels(y, len(X))
        rules |= {"accept_sparse": _sparse(self._kernel), "dtype": np.float64, "order": "C"}
        if _is_plain(X, y):  # half of the time of a small fit went into scikit-learn's tests
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            found = validate_data(self, X, y, ensure_all_finite=False, **rules)
            X, y = found if isinstance(found, tuple) else (found, None)
        given = self._kernel == "precomputed"
        inputs.check_numbers("X", X, self, products=not given)
        if given:
            inputs.check_square(X)
        return X, y

    def _weighted(self, X: Any, sample_weight: Any, share: Array | float = 1.0) -> WeightedPoints:
        """Drop the points without weight.

        Arguments:
            share: of C that each point has beside its weight, (n,) or one number.
        """
        weight = sample_weights(sample_weight, X.shape[0])
        kept = np.arange(len(weight))
        if not weight.all():
            kept = np.flatnonzero(weight)
            X = X[np.ix_(kept, kept)] if self._kernel == "precomputed" else X[kept]
            weight, share = weight[kept], np.broadcast_to(share, weight.shape)[kept]
        box = checks.positive("C", self.C) * weight * share
        return WeightedPoints(X, weight, kept, box, trial_order(self.random_state, len(kept)))

    def _solve(
        self, points: WeightedPoints, splits: list[Split], limits: Limits
    ) -> list[Expansion]:
        """Solve the problems; store support vectors, coefficients and the certificate."""
        X, numbers = points.X, (self.gamma, self.degree, self.coef0)
        spec = inputs.kernel_spec(self._kernel, *numbers, X, points.weight)
        inputs.check_kernel(X, spec, points.box, limits.clock, splits[0].problem.bias)
        solver = getattr(self, "solver", "auto")  # a parameter of the classifier only
        expansions = solve_all(SVMTask(X, spec, splits, solver, self.progress), limits)
        coefs = np.zeros((len(splits), len(points.box)))
        for row, split, solved in zip(coefs, splits, expansions, strict=True):
            row[slice(None) if split.points is None else split.points] = solved.coef
        support = np.flatnonzero(coefs.any(axis=0))
        self._spec = spec
        self.support_, self.dual_coef_ = points.kept[support], coefs[:, support]
        given = spec.name == "precomputed"
        self.support_vectors_ = np.empty((0, 0)) if given else X[support]
        self.__dict__.pop("coef_", None)  # of an earlier fit with a linear kernel
        self._certify(expansions)
        report(type(self).__name__, expansions, limits.tol, self.verbose)
        return expansions

    def _certify(self, expansions: list[Expansion]) -> None:
        """Store what proves the result; the value of a trace is −D, so it falls."""
        if not all(math.isfinite(solved.gap) for solved in expansions):
            raise ValueError(
                f"{type(self).__name__}: the kernel values of these points, or their products with "
                "C, are too large for double precision. Scale X, e.g. with StandardScaler, or "
                "lower C or gamma."
            )
        self.duality_gaps_ = np.array([max(solved.gap, 0.0) for solved in expansions])
        worst = int(self.duality_gaps_.argmax())
        self.duality_gap_ = float(self.duality_gaps_[worst])
        self.n_iter_ = max(1, *(solved.steps for solved in expansions))
        self.solver_ = "+".join(sorted({solved.solver for solved in expansions}))
        self.traces_ = [solved.trace for solved in expansions]
        self.trace_ = self.traces_[worst]

    def _expansion(self, X: Any) -> Array:
        """Return Σ cᵢ k(xᵢ, x) for each row x of X and each problem (n, problems)."""
        if self._spec.name == "precomputed":
            return np.asarray(X[:, self.support_] @ self.dual_coef_.T)
        out = np.zeros((X.shape[0], len(self.dual_coef_)))
        if not len(self.support_):  # f is constant; a callable may refuse no points at all
            return out
        height = max(1, _SLICE // max(1, len(self.support_)))
        for lo in range(0, X.shape[0], height):
            kernel = cross_kernel(X[lo : lo + height], self.support_vectors_, self._spec)
            out[lo : lo + height] = kernel @ self.dual_coef_.T
        return out

    def _sums(self, X: Any) -> Array:
        """Check points, and return Σ cᵢ k(xᵢ, x) for each of them and each problem."""
        X = self._seen(X)
        if self._spec.name == "linear":
            return np.asarray(X @ np.atleast_2d(self.coef_).T)
        return self._expansion(X)

    def _seen(self, X: Any) -> Any:
        """Check points that are to be predicted."""
        check_is_fitted(self)
        if self._objects:
            return _as_objects(X)
        if self._features is not None:
            X = self._features.transform(X)
        rules = {"accept_sparse": _sparse(self._spec.name), "dtype": np.float64}
        return validate_data(self, X, reset=False, **rules)


def has_features(kernel: Any) -> bool:
    """Whether a kernel is a transformer, such as those of `fwnet.kernels`: k is ⟨φ(x), φ(z)⟩."""
    return hasattr(kernel, "fit_transform") and hasattr(kernel, "transform")


def _is_table(X: Any) -> bool:
    """Whether points are rows of numbers; a callable kernel may take points of any kind."""
    if not isinstance(X, list | tuple | np.ndarray):
        return True
    try:
        array = np.asarray(X)
    except ValueError:  # points of different lengths
        return False
    return array.ndim == 2 and array.dtype.kind not in "OUS"


def _as_objects(X: Any) -> Array:
    """Points of any kind as an array (n,)."""
    points = np.empty(len(X), object)
    for k, point in enumerate(X):  # points[:] = X would make columns of points of one length
        points[k] = point
    return points


def _labels(y: Any, n: int) -> Any:
    if isinstance(y, str):  # "no_validation"
        return None
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"y must have one label for each of the {n} points; got {len(y)}.")
    return y


def _is_plain(X: Any, y: Any) -> bool:
    """Whether scikit-learn would return these arrays as they are: matrix and whole numbers."""
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or not X.size:
        return False
    if not X.flags.c_contiguous:
        return False
    labels = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu"
    return labels and len(y) == len(X)


def _sparse(kernel: Any) -> str | bool:
    """What scikit-learn may accept as sparse points for this kernel."""
    return "csr" if callable(kernel) or kernel != "precomputed" else False
