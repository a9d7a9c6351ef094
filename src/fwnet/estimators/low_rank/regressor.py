"""LowRankRegressor: least squares with many outputs on the trace-norm ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin

from fwnet.estimators.inputs import sample_weights
from fwnet.estimators.low_rank.estimator import LinearLowRankMatrix, LowRankEstimator
from fwnet.estimators.low_rank.inputs import Array, matrix_and_targets, relative, rows_of
from fwnet.estimators.low_rank.losses import SquaredLoss
from fwnet.estimators.low_rank.problems import RowProblem


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankRegressor(MultiOutputMixin, RegressorMixin, LinearLowRankMatrix, LowRankEstimator):
    """Reduced-rank regression: several outputs that share a few directions of the features.

        min ½ Σ wᵢ |xᵢW + b − yᵢ|² / Σ wᵢ,   ‖W‖_* <= radius

    The outputs are centred; with an intercept a column of ones, inside the ball, does the rest.
    The same solver and certificate as in `LowRankSoftmaxClassifier`, where the arguments are
    explained.

    Attributes: U_ (features, rank), s_, V_ (outputs, rank), rank_, coef_, intercept_, radius_,
    value_ (half the mean squared error), duality_gap_ (absolute: value_ is at most this above its
    minimum), n_iter_, status_, trace_, n_features_in_.

    Example:
        >>> from sklearn.datasets import load_linnerud
        >>> X, Y = load_linnerud(return_X_y=True)
        >>> model = LowRankRegressor(radius=1.0, tol=1e-2).fit(X / X.std(0), Y / Y.std(0))
        >>> model.rank_ <= 3, model.status_
        (True, 'converged')
    """

    fit_intercept: bool = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LowRankRegressor:
        """Fit to rows X (n, d), dense, CSR or a memory map, with targets y (n,) or (n, m)."""
        budget = self._budget()
        X, y = matrix_and_targets(self, X, y, reset=True, multi_output=True, y_numeric=True)
        weight = relative(sample_weights(sample_weight, len(y)))
        rows = rows_of(X, self.fit_intercept)
        targets = torch.as_tensor(np.asarray(y, dtype=np.float64)).to(rows.dtype)
        self._flat = targets.ndim == 1
        targets = targets.unsqueeze(-1) if self._flat else targets
        share = torch.from_numpy(weight / weight.sum()).to(rows.dtype)
        offset = _means(targets, share) if self.fit_intercept else torch.zeros_like(targets[0])
        self.offset_ = offset.numpy()
        self._minimize(RowProblem(rows, SquaredLoss(targets - offset, share)), budget)
        return self

    def predict(self, X: Any) -> Array:
        """The outputs (n,) or (n, m), as in `fit`."""
        scores = self._scores(X) + self.offset_
        return scores[:, 0] if self._flat else scores


def _means(targets: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Weighted means of the columns; a constant exactly, or its rounding would be left to fit."""
    low, high = targets.aminmax(dim=0)
    return torch.where(low == high, low, share @ targets)
