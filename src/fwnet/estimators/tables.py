"""Tables of numbers and texts as points (n, d): missing values, categories, scales.

a number   (x − shift) / scale, with the median in place of a missing value
a text     one coordinate, 0 or 1, for each value seen at fit, missing among them
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

MOST_VALUES = 100  # of a column of texts
_MISSING = ""  # no CSV file can hold it as a value


@final
class TableEncoder(TransformerMixin, BaseEstimator):
    """A pandas table as a matrix; an array passes through, scaled if asked.

    Columns of texts, categories and truth values become one coordinate for each value; a value
    that was not seen at fit becomes zeros. Tables are matched by the names of their columns.

    Arguments:
        scale: subtract the mean of each column of numbers and divide by its standard deviation.

    Attributes: numbers_ and texts_ (names of the columns; None for an array), fill_, shift_ and
    scale_ (one entry a column of numbers), values_ (the values of each column of texts).

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
        >>> TableEncoder(scale=False).fit_transform(table)
        array([[1., 0., 0., 1.],
               [2., 0., 1., 0.],
               [3., 1., 0., 0.]])
    """

    def __init__(self, scale: bool = True) -> None:
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the fill values, scales and categories of X (n, d)."""
        self.numbers_: list[str] | None = None
        self.texts_: list[str] = []
        if hasattr(X, "dtypes"):
            kinds = {str(name): kind for name, kind in X.dtypes.items()}
            self.numbers_ = [name for name, kind in kinds.items() if _is_number(kind)]
            self.texts_ = [name for name in kinds if name not in self.numbers_]
        self.values_ = [_values(name, _texts(name, X)) for name in self.texts_]
        self.n_features_in_ = X.shape[1]
        if self._leaves(X):
            self.fill_ = self.shift_ = np.zeros(0)
            self.scale_ = np.ones(0)
            return self
        found = self._matrix(X)
        empty = np.isnan(found).all(0)
        self.fill_ = np.nanmedian(np.where(empty, 0.0, found), 0)
        filled = np.where(np.isnan(found), self.fill_, found)
        self.shift_ = filled.mean(0) if self.scale else np.zeros(filled.shape[1])
        spread = filled.std(0) if self.scale else np.ones(filled.shape[1])
        self.scale_ = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, X: Any) -> Any:
        """X as a matrix (n, coordinates)."""
        check_is_fitted(self)
        if self._leaves(X):
            return X
        found = self._matrix(X)
        columns = [(np.where(np.isnan(found), self.fill_, found) - self.shift_) / self.scale_]
        for name, values in zip(self.texts_, self.values_, strict=True):
            columns.append((_texts(name, X)[:, None] == np.array(values)[None]).astype(float))
        return np.hstack(columns)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the coordinates: of the columns, and column_value for each value of a text."""
        check_is_fitted(self)
        if self.numbers_ is None:
            given = [f"x{j}" for j in range(self.n_features_in_)]
            return np.array(given if input_features is None else input_features, dtype=object)
        pairs = zip(self.texts_, self.values_, strict=True)
        texts = [f"{name}_{value or 'nan'}" for name, values in pairs for value in values]
        return np.array([*self.numbers_, *texts], dtype=object)

    def _leaves(self, X: Any) -> bool:
        """Whether X passes through: an array that is not to be scaled."""
        if self.numbers_ is not None or not self.scale:
            return self.numbers_ is None
        if not isinstance(X, np.ndarray):
            raise ValueError(
                "scale=True needs a table or a dense array; got a sparse matrix, which subtracting "
                "the mean would fill. Use scale=False."
            )
        return False

    def _matrix(self, X: Any) -> np.ndarray:
        """The columns of numbers (n, k), NaN where they are missing."""
        if self.numbers_ is None:
            matrix = np.asarray(X, dtype=float)
            if matrix.ndim != 2 or matrix.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X must have {self.n_features_in_} columns as at fit; got shape {X.shape}."
                )
        else:
            self._check_columns(X)
            matrix = X[self.numbers_].to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(matrix).any():
            column = int(np.flatnonzero(np.isinf(matrix).any(0))[0])
            name = self.numbers_[column] if self.numbers_ else str(column)
            raise ValueError(f"column {name!r} must hold finite numbers; it has infinite ones.")
        return matrix

    def _check_columns(self, X: Any) -> None:
        wanted = [*(self.numbers_ or ()), *self.texts_]
        there = {str(name) for name in X.columns}
        missing = [name for name in wanted if name not in there]
        if missing:
            raise ValueError(
                f"the table must have the columns of the fit; it has no {', '.join(missing)}."
            )
        for name in self.numbers_ or ():
            if not _is_number(X[name].dtype):
                raise ValueError(
                    f"column {name!r} must hold numbers as at fit; it holds {X[name].dtype}"
                    f"{_first(X[name])}."
                )


def _is_number(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "iuf"


def _texts(name: str, X: Any) -> np.ndarray:
    """A column as texts, `_MISSING` where it has none."""
    column = X[name]
    if getattr(column.dtype, "kind", "O") in "mM":
        raise ValueError(
            f"column {name!r} holds dates or times. Convert it to numbers, such as days, or leave "
            "it out."
        )
    return np.array(
        [_MISSING if lost else str(v) for v, lost in zip(column, column.isna(), strict=True)]
    )


def many_texts(X: Any) -> dict[str, str]:
    """The columns with more texts than can be categories: how many each has, and one of them."""
    counts = {name: int(X[name].nunique(dropna=False)) for name in _text_columns(X)}
    many = {name: count for name, count in counts.items() if count > MOST_VALUES}
    return {str(name): f"{count}{_first(X[name])}" for name, count in many.items()}


def decimal_commas(X: Any) -> dict[str, str]:
    """The columns of texts that would be numbers with a comma as decimal mark, and one of them."""
    found = {}
    for name in _text_columns(X):
        texts = X[name].dropna().astype(str)
        with_comma = texts[texts.str.fullmatch(r"[+-]?\d*,\d+")]
        if len(with_comma) and texts.str.fullmatch(r"[+-]?\d*,?\d+").all():
            found[str(name)] = str(with_comma.iloc[0])
    return found


def _text_columns(X: Any) -> list[Any]:
    """The names of a table's columns that become categories; none for an array."""
    kinds = X.dtypes.items() if hasattr(X, "dtypes") else ()
    return [name for name, kind in kinds if getattr(kind, "kind", "O") not in "iufmM"]


def _first(column: Any) -> str:
    """ ", such as 'Rome'", the first value of a column; nothing if it has none."""
    there = column.dropna()
    return f", such as {str(there.iloc[0])!r}" if len(there) else ""


def _values(name: str, texts: np.ndarray) -> list[str]:
    values = sorted(set(texts.tolist()))
    if len(values) > MOST_VALUES:
        raise ValueError(
            f"column {name!r} has {len(values)} different texts; at most {MOST_VALUES} become "
            "categories. Leave it out if it is a name or a number of the row."
        )
    return values
