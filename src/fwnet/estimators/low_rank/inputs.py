"""Checks of the low-rank estimators' arguments, and their rows."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from fwnet.estimators.low_rank.rows import ArrayRows, StreamedRows

Array = np.ndarray[Any, np.dtype[Any]]
_HEIGHT = 4096  # rows that are checked at a time


def matrix(estimator: Any, X: Any, reset: bool) -> Any:
    """X as validated by scikit-learn, without a copy where its type allows.

    A memory map stays one, whatever numbers it holds; it is checked and read block by block.
    """
    X = forward(validate_data(estimator, X, reset=reset, **_rules(X)))
    check_finite(X)
    return X


def matrix_and_targets(
    estimator: Any, X: Any, y: Any, reset: bool, **options: Any
) -> tuple[Any, Array]:
    """The same, with one target a row; options are scikit-learn's."""
    if sparse.issparse(y):
        raise ValueError("y must be dense; got a sparse matrix. Convert it with y.toarray().")
    X, y = validate_data(estimator, X, y, reset=reset, **_rules(X), **options)
    X = forward(X)
    check_finite(X)
    return X, forward(y)


def forward(X: Any) -> Any:
    """X, copied if it runs backwards through memory, as X[::-1] does: PyTorch cannot follow."""
    backward = isinstance(X, np.ndarray) and any(stride < 0 for stride in X.strides)
    return np.ascontiguousarray(X) if backward else X


def _rules(X: Any) -> dict[str, Any]:
    mapped = isinstance(X, np.memmap) and X.dtype.kind in "fiub" and X.ndim == 2
    return {
        "accept_sparse": "csr",
        "dtype": None if mapped else (np.float64, np.float32),
        "ensure_all_finite": False,  # ours names the row
    }


def check_finite(X: Any, first: int = 0) -> None:
    """Raise a ValueError that names the first row and column of X that are not finite."""
    if X.dtype.kind != "f":
        return
    for lo in range(0, X.shape[0], _HEIGHT):
        part = X[lo : lo + _HEIGHT]
        entries = part.data if sparse.issparse(part) else part
        # A sum is NaN or infinite if an entry is: one pass that writes nothing.
        with np.errstate(all="ignore"):
            if np.isfinite(np.sum(entries)) or np.isfinite(entries).all():
                continue
        dense = part.toarray() if sparse.issparse(part) else part
        row, column = (int(i) for i in np.argwhere(~np.isfinite(dense))[0])
        bad = "NaN" if np.isnan(dense[row, column]) else "infinity"
        raise ValueError(
            f"X contains {bad} in row {first + lo + row}, column {column}. "
            "Drop the row or fill the entry."
        )


def relative(weight: Array) -> Array:
    """Weights of rows (n,) as fractions of the largest, however large or small that is."""
    largest = weight.max()
    if not largest > 0:
        raise ValueError(
            "class_weight and sample_weight leave no row a weight above 0; give some rows one."
        )
    return np.asarray(weight / largest)


def rows_of(X: Any, intercept: bool) -> ArrayRows:
    """The rows of a checked matrix, with a column of ones for an intercept."""
    return ArrayRows(X, 1.0 if intercept else None)


def rows_of_blocks(blocks: Any, intercept: bool) -> tuple[StreamedRows, Array]:
    """Rows and targets (n,) of pairs (X, y), all of them checked in one walk.

    Arguments:
        blocks: a list of pairs, or a function that returns a new iterator of pairs.
        intercept: add a column of ones.
    """
    walk = _walk_of(blocks)
    n, width, targets, double = 0, 0, [], False
    for number, (X, y) in enumerate(walk()):
        width = width or X.shape[1]
        if X.shape[1] != width:
            raise ValueError(
                f"Block {number} has {X.shape[1]} columns, the blocks before it {width}."
            )
        check_finite(X, n)
        n += X.shape[0]
        targets.append(y)
        double = double or X.dtype == np.float64
    if n == 0:
        raise ValueError("blocks holds no rows: every (X, y) must have at least one.")
    dtype = torch.float64 if double else torch.float32
    rows = StreamedRows(
        lambda: (X for X, _ in walk()), (n, width), dtype, 1.0 if intercept else None
    )
    return rows, np.concatenate(targets)


def _walk_of(blocks: Any) -> Callable[[], Iterator[tuple[Any, Array]]]:
    """A function that goes through all pairs, checked, as often as it is called."""
    if isinstance(blocks, Iterator):
        raise TypeError(
            "blocks must be walked several times, and an iterator is spent after one. Pass a "
            "list of pairs (X, y), or a function that returns a new iterator."
        )
    if not callable(blocks) and not isinstance(blocks, Iterable):
        raise TypeError(
            "blocks must be a list of pairs (X, y), or a function that returns an iterator of "
            f"them; got {type(blocks).__name__}."
        )

    def walk() -> Iterator[tuple[Any, Array]]:
        pairs = blocks() if callable(blocks) else blocks
        if not isinstance(pairs, Iterable):
            raise TypeError(
                "the function for blocks must return an iterator of pairs (X, y); got "
                f"{type(pairs).__name__}."
            )
        for number, pair in enumerate(pairs):
            yield _pair(number, pair)

    return walk


def _pair(number: int, pair: Any) -> tuple[Any, Array]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"Block {number} must be a pair (X, y); got {type(pair).__name__}.")
    try:
        X = forward(check_array(pair[0], **_rules(pair[0])))
        y = column_or_1d(np.asarray(pair[1]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"Block {number}: {error}") from None
    if len(y) != X.shape[0]:
        raise ValueError(f"Block {number}: X has {X.shape[0]} rows, y has {len(y)}.")
    return X, y


def radius_of(radius: Any) -> float | None:
    """The radius as a number, None for "auto"."""
    if isinstance(radius, str) and radius == "auto":
        return None
    good = isinstance(radius, numbers.Real) and not isinstance(radius, bool)
    if not good or not np.isfinite(radius) or radius <= 0:
        raise ValueError(f"radius must be 'auto' or a finite number above 0; got {radius!r}.")
    return float(radius)


def generator_of(random_state: Any) -> torch.Generator:
    """A generator from a seed, a NumPy generator of numbers, or None for seed 0."""
    if random_state is None:
        seed = 0
    elif isinstance(random_state, numbers.Integral):
        seed = int(random_state)
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31))
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31 - 1))
    else:
        raise ValueError(
            f"random_state must be a whole number or a NumPy generator; got {random_state!r}."
        )
    return torch.Generator().manual_seed(seed)
