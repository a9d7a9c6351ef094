"""Three disjoint parts, stratified, the same for one seed."""

from __future__ import annotations

import numpy as np
import pytest

from fwnet.data import Splits, load, splits

Y = np.repeat([0, 1, 2], [50, 30, 20])


@pytest.mark.parametrize("shares", [(0.4, 0.4, 0.2), (0.5, 0.5, 0.0), (0.1, 0.2, 0.3)])
def test_parts_are_disjoint_and_stratified(shares: tuple[float, float, float]) -> None:
    parts = splits(Y, shares, seed=3)
    rows = np.concatenate([parts.optimizee, parts.optimizer, parts.test])
    assert len(set(rows)) == len(rows) == round(sum(shares) * len(Y))
    for part, share in zip((parts.optimizee, parts.optimizer, parts.test), shares, strict=True):
        np.testing.assert_array_equal(np.bincount(Y[part], minlength=3), share * np.bincount(Y))


def test_a_seed_decides() -> None:
    first, again, other = splits(Y, seed=1), splits(Y, seed=1), splits(Y, seed=2)
    np.testing.assert_array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)


def test_digits_keep_their_shares() -> None:
    y = load("digits").y
    parts = splits(y)
    whole, part = np.bincount(y) / len(y), np.bincount(y[parts.test]) / len(parts.test)
    np.testing.assert_allclose(part, whole, atol=0.01)  # a row of 240 is 0.004


def test_shared_rows_are_refused() -> None:
    a, b = np.array([0, 1]), np.array([2, 3])
    with pytest.raises(ValueError, match="optimizer and test parts must be disjoint; both have r"):
        Splits(a, b, np.array([3, 4]))
    with pytest.raises(ValueError, match="the optimizee part names a row twice"):
        Splits(np.array([1, 1]), b, np.array([4]))


def test_errors() -> None:
    for shares in ("abc", 0.5, (0.5, None, 0.5)):
        with pytest.raises(ValueError, match="shares must be three numbers of at least 0"):
            splits([0, 0, 0, 1, 1, 1], shares)
    with pytest.raises(ValueError, match="shares must be three numbers of at least 0"):
        splits(Y, (0.8, 0.3, 0.2))
    with pytest.raises(ValueError, match=r"one class per row, shape \(n,\); got shape \(2, 2\)"):
        splits(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"class 1 has 2 rows, too few for the shares"):
        splits([0] * 10 + [1] * 2)
