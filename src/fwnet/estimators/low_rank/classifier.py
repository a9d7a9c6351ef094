"""LowRankSoftmaxClassifier: multinomial logistic regression on the trace-norm ball."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, final

import numpy as np
import torch
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from fwnet.estimators.inputs import sample_weights
from fwnet.estimators.low_rank.descent import FactoredDescent
from fwnet.estimators.low_rank.estimator import LinearLowRankMatrix, LowRankEstimator
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.inputs import (
    Array,
    generator_of,
    matrix_and_targets,
    relative,
    rows_of,
    rows_of_blocks,
)
from fwnet.estimators.low_rank.losses import SoftmaxLoss
from fwnet.estimators.low_rank.problems import RowProblem
from fwnet.estimators.low_rank.rows import Rows
from fwnet.trace import Result

_BATCH, _WIDTH = 512, 32  # of partial_fit


class SoftmaxPredictor(ClassifierMixin, LinearLowRankMatrix):
    """Classes and probabilities from the logits X · W."""

    classes_: Array

    def decision_function(self, X: Any) -> Array:
        """The logits (n, classes); for two classes their difference (n,)."""
        Z = self._scores(X)
        return Z[:, 1] - Z[:, 0] if len(self.classes_) == 2 else Z

    def predict(self, X: Any) -> Array:
        """The class of each row (n,)."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes)."""
        return torch.softmax(torch.from_numpy(self._scores(X)), -1).numpy()

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities (n, classes)."""
        return torch.log_softmax(torch.from_numpy(self._scores(X)), -1).numpy()


@final
@dataclass(eq=False, repr=False, kw_only=True)
class LowRankSoftmaxClassifier(SoftmaxPredictor, LowRankEstimator):
    """Softmax regression whose weights have a small trace norm, hence a low rank.

        min Σ wᵢ (log Σⱼ exp zᵢⱼ − z_{i,yᵢ}) / Σ wᵢ,   Z = XW,   ‖W‖_* <= radius

    W is kept as U diag(s) Vᵀ; neither it nor its gradient is ever formed. With few classes the
    fit is accelerated projection; with many, minibatch descent on two factors in the ball comes
    first. Every fit ends with the duality gap of the exact oracle: the loss is at most that far
    from the smallest one in the ball.

    Arguments:
        radius: of the ball, or "auto": chosen on a quarter of the rows (of at least
            1,500 and at most 20,000), a fifth of them held out; at most thrice the time of a fit.
        max_rank: the largest number of singular values; None for no limit. Below the rank of the
            best W the gap cannot close.
        tol: the fit stops once the gap is at most tol times the loss (or a thousandth of the loss
            at W = 0, if that is more).
        max_iter: passes over the data.
        max_time: seconds, None for no limit.
        fit_intercept: add a column of ones; its weights are inside the ball.
        class_weight: None, "balanced", or a dict from class to weight.
        warm_start: start from the last fit.
        progress: show a progress bar (needs rich).
        verbose: print a table of steps.
        random_state: seed of minibatches and of the choice of a radius; None is 0.

    Attributes: classes_, U_ (features, rank), s_, V_ (classes, rank), rank_, coef_, intercept_,
    radius_, value_ (the loss), duality_gap_ (absolute: value_ is at most this above its minimum),
    n_iter_, status_, trace_, n_features_in_. With an intercept, U_ has one row more, the last. A
    fitted classifier refers to its rows, for `path(radii)`; a pickled or saved one does not.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = LowRankSoftmaxClassifier(radius=20.0, tol=1e-2).fit(X / 16, y)
        >>> clf.rank_ <= 9, clf.duality_gap_ <= 1e-2 * clf.value_, clf.score(X / 16, y) > 0.94
        (True, True, True)

    Reference: Jaggi (2013), section 4.3; Schramowski, Bauckhage and Kersting (2018), section 5.
    """

    fit_intercept: bool = True
    class_weight: Any = None
    _descent: FactoredDescent | None = field(default=None, init=False)  # of partial_fit
    # Repeats the last fit with another model.
    _refit: methodcaller | None = field(default=None, init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LowRankSoftmaxClassifier:
        """Fit to rows X (n, d), dense, CSR or a memory map, with labels y (n,)."""
        budget = self._budget()
        refit = methodcaller("fit", X, y, sample_weight)  # the caller's own objects take no memory
        X, y = matrix_and_targets(self, X, y, reset=True)
        check_classification_targets(y)
        weight = sample_weights(sample_weight, len(y))
        self._minimize(self._problem(rows_of(X, self.fit_intercept), y, weight), budget)
        self._refit = refit
        return self

    def fit_blocks(self, blocks: Any) -> LowRankSoftmaxClassifier:
        """Fit to pairs (X, y) that need not fit into memory together.

        Arguments:
            blocks: a list of pairs, or a function that returns a new iterator of them; it is
                walked once for every pass, always in the same order.
        """
        budget = self._budget()
        rows, y = rows_of_blocks(blocks, self.fit_intercept)
        check_classification_targets(y)
        self.n_features_in_ = rows.d - bool(self.fit_intercept)
        self._minimize(self._problem(rows, y, np.ones(len(y))), budget)
        self._refit = methodcaller("fit_blocks", blocks)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> LowRankSoftmaxClassifier:
        """One pass of minibatch descent over some rows, inside the ball; no certificate.

        It goes on from the last call, or from the last `fit`; "auto" chooses a radius once.

        Arguments:
            classes: all classes there will be; needed in the first call, unless y has them all.
        """
        budget = self._budget()
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows, and partial_fit sees some. "
                "Give a dict, such as compute_class_weight of scikit-learn makes it."
            )
        first = not hasattr(self, "U_")
        X, y = matrix_and_targets(self, X, y, reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            self._require_two()
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_}.")
        weight = sample_weights(sample_weight, len(y))
        rows = rows_of(X, self.fit_intercept if first else self._has_intercept)
        problem = RowProblem(rows, self._loss(y, weight, rows))
        if self.radius != "auto" or not hasattr(self, "radius_"):
            self.radius_ = self._choose_radius(problem, budget)
        descent = self._descent_for(problem)
        for batch in problem.batches(_BATCH, generator_of(self.random_state)):
            descent.step(batch(*descent.factors), (1 + descent.t / 200) ** -0.5)
        self._store_factors(descent.point())
        self._descent, self.duality_gap_, self.status_ = descent, float("nan"), "partial"
        self.value_, self.n_iter_ = float("nan"), getattr(self, "n_iter_", 0) + 1
        self._refit = None
        return self

    def path(
        self, radii: Sequence[float], X: Any = None, y: Any = None, sample_weight: Any = None
    ) -> list[LowRankSoftmaxClassifier]:
        """Classifiers for several radii, each fitted from the one before.

        Arguments:
            radii: of the balls, in the order in which they are fitted.
            X, y, sample_weight: as for fit; left out, the rows of the last fit, which a classifier
                refers to until it is saved, pickled or cloned.
        """
        refit = self._refit if X is None else methodcaller("fit", X, y, sample_weight)
        if refit is None:
            raise ValueError(
                "path(radii) fits to the rows of the last fit, and there are none: this classifier "
                "was not fitted here, or by partial_fit. Call path(radii, X, y)."
            )
        model = clone(self).set_params(warm_start=True)
        fitted = []
        for radius in radii:
            refit(model.set_params(radius=radius))
            copy = clone(model)
            copy.__dict__.update(model.__dict__ | {"warm_start": self.warm_start})
            fitted.append(copy)
        return fitted

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows of the last fit: what is pickled or copied is the model."""
        return {key: value for key, value in super().__getstate__().items() if key != "_refit"}

    def _problem(self, rows: Rows, y: Array, weight: Array) -> RowProblem:
        self.classes_ = np.unique(y)
        self._require_two()
        return RowProblem(rows, self._loss(y, weight, rows))

    def _require_two(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; y has one class, "
                f"{self.classes_.tolist()[0]!r}."
            )

    def _loss(self, y: Array, weight: Array, rows: Rows) -> SoftmaxLoss:
        labels = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        wrong = np.flatnonzero(self.classes_[labels] != y)
        if len(wrong):
            raise ValueError(
                f"y[{wrong[0]}] = {y.tolist()[wrong[0]]!r} is none of the {len(self.classes_)} "
                "classes. Name all classes in the first call of partial_fit."
            )
        if self.class_weight is not None:
            each = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            if not np.isfinite(each).all() or each.min() < 0:
                raise ValueError(
                    f"class_weight must be finite and at least 0; got {self.class_weight!r}."
                )
            weight = weight * each[labels]
        each_row = torch.from_numpy(relative(weight)).to(rows.dtype)
        return SoftmaxLoss(torch.from_numpy(labels), len(self.classes_), each_row)

    def _descent_for(self, problem: RowProblem) -> FactoredDescent:
        """The descent of the calls before, or one that starts from the last fit, or from 0."""
        fitted, dtype = hasattr(self, "U_"), problem.dtype
        start = self._factors(dtype) if fitted else Factors.zero(*problem.shape, dtype)
        width = min(self.max_rank or max(_WIDTH, start.rank), *problem.shape)
        if self._descent is not None and self._descent.fits(self.radius_, width, dtype):
            return self._descent
        return FactoredDescent(start, self.radius_, width, generator_of(self.random_state))

    def _store(self, found: Result) -> None:
        super()._store(found)
        self._descent = None  # partial_fit goes on from here
