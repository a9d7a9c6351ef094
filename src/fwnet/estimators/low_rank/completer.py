"""LowRankCompletion: fill in a matrix of which some entries were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fwnet.estimators.low_rank.completion import CompletionProblem, entries
from fwnet.estimators.low_rank.estimator import LowRankEstimator
from fwnet.estimators.low_rank.inputs import Array
from fwnet.numerics import checks
from fwnet.problems import MatrixCompletion

_SPARE = 10_000_000  # rows or columns without an entry that a guessed shape may have
_LARGEST = 2**31 - 1  # rows or columns of a matrix
_NUMBERING = (
    "Number the rows and columns 0, 1, 2, ..., e.g. with np.unique(ids, return_inverse=True)."
)


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankCompletion(RegressorMixin, LowRankEstimator):
    """Matrix completion on the trace-norm ball.

        min ½ Σ over seen (i, j) of (mean + W_ij − M_ij)²,   ‖W‖_* <= radius

    The core's `MatrixCompletion` over factors: neither W nor M is ever formed.

    Arguments:
        radius: of the ball, or "auto": chosen on a fifth of the entries.
        shape: (rows, columns) of the matrix; by default just large enough for the positions.
        max_rank, tol, max_iter, max_time, warm_start, progress, verbose, random_state: as of
            `LowRankSoftmaxClassifier`.

    Attributes: U_ (rows, rank), s_, V_ (columns, rank), rank_, mean_, shape_, radius_, value_,
    duality_gap_ (absolute: value_ is at most this above its minimum), n_iter_, status_, trace_.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> M = np.outer(rng.normal(size=30), rng.normal(size=20))
        >>> seen = rng.random(M.shape) < 0.4
        >>> radius = np.linalg.norm(M, "nuc")
        >>> model = LowRankCompletion(radius=radius).fit(np.argwhere(seen), M[seen])
        >>> bool(np.abs(model.predict(np.argwhere(~seen)) - M[~seen]).mean() < 0.1)
        True
    """

    shape: tuple[int, int] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # X holds positions, not features: random numbers are not valid input.
        tags.input_tags.two_d_array, tags.input_tags.sparse = False, False
        return tags

    def fit(self, X: Any, y: Any) -> LowRankCompletion:
        """Fit to positions X (n, 2) of whole numbers (row, column) and values y (n,)."""
        budget = self._budget()
        pairs = _pairs(X)
        values = _values(y, len(pairs))
        self.shape_ = _guessed(pairs) if self.shape is None else _shape(self.shape)
        _check_inside(pairs, self.shape_)
        self.n_features_in_ = 2
        constant = values.min() == values.max()  # exactly, or its rounding would be left to fit
        self.mean_ = float(values[0] if constant else values.mean(dtype=np.float64))
        rows, cols = (torch.from_numpy(pairs[:, k].copy()) for k in (0, 1))
        centred = torch.from_numpy(values - values.dtype.type(self.mean_))
        seen = MatrixCompletion(rows, cols, centred, self.shape_)
        self._minimize(CompletionProblem(seen), budget)
        return self

    def predict(self, X: Any) -> Array:
        """The entries (n,) at positions X (n, 2)."""
        check_is_fitted(self)
        pairs = _pairs(X)
        _check_inside(pairs, self.shape_)
        rows, cols = (torch.from_numpy(pairs[:, k].copy()) for k in (0, 1))
        W = self._factors(torch.float64)
        parts = list(entries(W.left, W.V, rows, cols))
        return self.mean_ + torch.cat(parts).numpy()

    def dense(self) -> Array:
        """The whole matrix, `shape_`."""
        check_is_fitted(self)
        return np.asarray(self.mean_ + (self.U_ * self.s_) @ self.V_.T)


def _pairs(X: Any) -> Array:
    pairs = np.asarray(X)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(
            f"X must hold positions (n, 2), a row and a column each; got shape {pairs.shape}."
        )
    if pairs.dtype.kind not in "iu":
        raise ValueError(
            f"X must hold whole numbers; got {pairs.dtype}. Number the rows and columns from 0."
        )
    if pairs.min() < 0:
        raise ValueError(f"X must hold positions of at least 0; got {pairs.min()}.")
    if pairs.max() >= _LARGEST:
        raise ValueError(f"X must hold positions below {_LARGEST}; got {pairs.max()}. {_NUMBERING}")
    return pairs.astype(np.int64)


def _shape(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"shape must be (rows, columns); got {shape!r}.")
    rows, columns = (checks.at_least(f"shape[{k}]", shape[k], 1) for k in (0, 1))
    if max(rows, columns) > _LARGEST:
        raise ValueError(f"shape must be at most {_LARGEST} rows and columns; got {shape!r}.")
    return rows, columns


def _guessed(pairs: Array) -> tuple[int, int]:
    """The smallest shape that holds the positions, unless they look like other numbers."""
    rows, columns = (int(pairs[:, k].max()) + 1 for k in (0, 1))
    if max(rows, columns) > len(pairs) + _SPARE:
        raise ValueError(
            f"X holds {len(pairs)} positions, and the largest would make a matrix of {rows} rows "
            f"and {columns} columns, nearly all without an entry. {_NUMBERING} If the matrix is "
            "that large, give LowRankCompletion(shape=...)."
        )
    return rows, columns


def _values(y: Any, n: int) -> Array:
    values = np.asarray(y)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must hold real numbers; got {values.dtype}.")
    values = values if values.dtype == np.float32 else values.astype(np.float64)
    if values.shape != (n,):
        raise ValueError(f"y must have one value a position, shape ({n},); got {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"y contains NaN or infinity at position {bad[0]}. Drop it.")
    return values


def _check_inside(pairs: Array, shape: tuple[int, int]) -> None:
    for k, name in enumerate(("row", "column")):
        worst = int(pairs[:, k].argmax())
        if pairs[worst, k] >= shape[k]:
            raise ValueError(
                f"X[{worst}] names {name} {pairs[worst, k]}, but the matrix has {shape[k]}. "
                "Give LowRankCompletion(shape=...) at fit."
            )
