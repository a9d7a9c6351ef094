"""Compiled functions, whether or not there is a folder to keep them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from fwnet.numerics.compiled import compiled


def test_without_a_folder_to_write_to_it_compiles_all_the_same() -> None:
    """Numba keeps nothing of a function without a file, and says so as in a read-only container."""
    names: dict[str, Any] = {}
    exec("def half(x):\n    return x / 2.0", names)
    with pytest.raises(RuntimeError, match="no locator available"):
        njit(cache=True)(names["half"])
    assert compiled("contract")(names["half"])(3.0) == 1.5


def test_nan_and_division_by_zero_keep_their_meaning() -> None:
    def mean(x, count):  # type: ignore[no-untyped-def]
        return x.sum() / count

    fast = compiled("reassoc", "contract")(mean)
    assert np.isnan(fast(np.array([1.0, np.nan]), 2.0))
    assert fast(np.ones(2), 0.0) == np.inf
