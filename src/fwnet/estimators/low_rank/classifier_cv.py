"""LowRankSoftmaxClassifierCV: the radius by cross-validation, along warm-started paths."""

from __future__ import annotations

import numbers
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets

from fwnet.estimators.inputs import check_switches, sample_weights
from fwnet.estimators.low_rank.classifier import LowRankSoftmaxClassifier, SoftmaxPredictor
from fwnet.estimators.low_rank.inputs import Array, matrix_and_targets, rows_of
from fwnet.estimators.low_rank.radius import natural_radius
from fwnet.numerics import checks
from fwnet.show.progress import progress_bar


@final
@dataclass(eq=False, repr=False)
class LowRankSoftmaxClassifierCV(SoftmaxPredictor):
    """`LowRankSoftmaxClassifier` with the radius that does best in cross-validation.

    On each fold one path of growing radii, each fit from the one before; then one fit to all
    rows. The folds solve to `path_tol`, the last fit to `tol`.

    Arguments:
        radii: a list, or how many of a geometric grid from f(0)/σ₁(∇f(0)) upward, f the loss of
            all rows with their weights.
        cv: number of folds, or a splitter of scikit-learn.
        scoring: a scorer's name; None for the log loss.
        path_tol: relative gap at which a fold's fit stops.
        max_rank, tol, max_iter, max_time, fit_intercept, class_weight, random_state: as of
            `LowRankSoftmaxClassifier`; `max_time` is for each fit.
        progress: show a progress bar of the folds (needs rich).

    Attributes: radii_, scores_ (folds, radii), radius_, best_estimator_ (the last fit), classes_,
    U_, s_, V_, rank_, coef_, intercept_, duality_gap_, n_iter_, n_features_in_.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.preprocessing import scale
        >>> from fwnet.estimators import LowRankSoftmaxClassifierCV
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LowRankSoftmaxClassifierCV(radii=[1.0, 10.0], cv=3).fit(scale(X), y)
        >>> model.score(scale(X), y) > 0.9
        True
    """

    radii: Any = 6
    _: KW_ONLY
    cv: Any = 5
    scoring: str | None = None
    path_tol: float = 1e-2
    max_rank: int | None = None
    tol: float = 1e-3
    max_iter: int = 500
    max_time: float | None = None
    fit_intercept: bool = True
    class_weight: Any = None
    progress: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LowRankSoftmaxClassifierCV:
        """Choose the radius, then fit to all rows."""
        check_switches(self)
        X, y = matrix_and_targets(self, X, y, reset=True)
        check_classification_targets(y)
        weight = sample_weights(sample_weight, len(y))
        self.classes_ = np.unique(y)
        self.radii_ = self._grid(X, y, weight)
        with ExitStack() as stack:
            self.scores_ = self._fold_scores(X, y, weight, stack)
        self.radius_ = float(self.radii_[self.scores_.mean(axis=0).argmax()])
        best = self._model(radius=self.radius_, tol=self.tol).fit(X, y, weight)
        self.best_estimator_ = best
        self.U_, self.s_, self.V_ = best.U_, best.s_, best.V_
        self.duality_gap_, self.n_iter_ = best.duality_gap_, best.n_iter_
        return self

    def _fold_scores(self, X: Any, y: Array, weight: Array, stack: ExitStack) -> Array:
        """Return the scores (folds, radii), with a progress bar in the stack if asked for."""
        scorer, scores = self._scorer(), []
        folds = check_cv(self.cv, y, classifier=True)
        count = folds.get_n_splits(X, y)
        advance = progress_bar(stack, count) if self.progress else None
        for train, test in folds.split(X, y):
            if len(np.unique(y[train])) < len(self.classes_):
                raise ValueError(
                    "A fold leaves out every row of a class; use fewer folds than the smallest "
                    "class has rows."
                )
            path = self._model(tol=self.path_tol).path(
                self.radii_, X[train], y[train], weight[train]
            )
            scores.append([scorer(model, X[test], y[test]) for model in path])
            if advance is not None:
                advance(len(scores), f"fold {len(scores)} of {count}")
        if not scores:
            raise ValueError(f"cv must give at least one fold; got {self.cv!r}.")
        return np.array(scores)

    def _scorer(self) -> Any:
        if self.scoring is not None:
            return get_scorer(self.scoring)
        # All classes are named: a small fold need not hold them all.
        return make_scorer(
            log_loss,
            greater_is_better=False,
            response_method="predict_proba",
            labels=self.classes_,
        )

    def _model(self, **options: Any) -> LowRankSoftmaxClassifier:
        shared = ("max_rank", "max_iter", "max_time", "fit_intercept", "class_weight")
        given = {name: getattr(self, name) for name in (*shared, "random_state")}
        return LowRankSoftmaxClassifier(**given, **options)

    def _grid(self, X: Any, y: Array, weight: Array) -> list[float]:
        whole = isinstance(self.radii, numbers.Integral) and not isinstance(self.radii, bool)
        if whole:
            count = checks.at_least("radii", self.radii, 1)
            rows = rows_of(X, self.fit_intercept)
            unit = natural_radius(self._model()._problem(rows, y, weight))
            return [unit * 4.0**k for k in range(count)]
        given = np.ravel(self.radii)
        radii = given.tolist() if given.dtype.kind in "fiu" else []
        if not radii or not np.isfinite(radii).all() or min(radii) <= 0:
            raise ValueError(
                f"radii must be a whole number above 0, or numbers above 0; got {self.radii!r}."
            )
        return sorted(set(map(float, radii)))
