"""Pixels as 8-bit integers: their distances, kernel values, and the gap with their errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fwnet.estimators import FWSVC
from fwnet.estimators.svm import integer_grid
from fwnet.estimators.svm.integer_grid import IntegerGrid
from fwnet.estimators.svm.kernels import KernelRows, KernelSpec, encoding_of

GAMMA = 2.0 / 48


def pixels(n: int = 700, d: int = 48) -> np.ndarray:
    """Whole numbers from 0 to 255, with all of the range in use."""
    found = np.random.default_rng(5).integers(0, 256, (n, d))
    found[0, :2] = 0, 255
    return found.astype(np.float64)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers on every processor: where they are not fast, they are exact all the same."""
    monkeypatch.setattr(integer_grid, "has_fast_products", lambda: True)


def exact_values(X: np.ndarray) -> np.ndarray:
    return np.exp(-GAMMA * cdist(X, X, "sqeuclidean"))  # differences: no rounding of norms


@pytest.mark.parametrize(
    ("scale", "shift", "dtype"),
    [(1.0, 0.0, np.float64), (1 / 255, 0.0, np.float64), (2 / 255, -1.0, np.float64),
     (1 / 255, 0.0, np.float32)],
)  # fmt: skip
def test_a_grid_is_found(fast: None, scale: float, shift: float, dtype: type) -> None:
    X = (pixels().astype(dtype) * dtype(scale) + dtype(shift)).astype(np.float64)
    grid = IntegerGrid.of(X, GAMMA, 1e-5)
    assert grid is not None
    assert grid.levels(X).astype(float) + 128.0 == pytest.approx(pixels())
    assert grid.levels(X[::2]).tolist() == grid.levels(X, np.arange(0, 700, 2)).tolist()
    rounding = 1e-15 if dtype is np.float64 else 4e-7  # over √48 features
    assert np.linalg.norm(X - (scale * pixels() + shift), axis=1).max() <= rounding
    assert grid.off <= 2.0 * rounding


def test_there_is_no_grid(fast: None) -> None:
    X = pixels() / 255
    assert IntegerGrid.of(X + 1e-6 * np.random.default_rng(0).random(X.shape), GAMMA, 1e-9) is None
    assert IntegerGrid.of(np.random.default_rng(0).random((600, 48)), GAMMA, 1e-6) is None
    assert IntegerGrid.of(np.vstack([X, X + 1.0]), GAMMA, 1e-6) is None  # 510 levels
    assert IntegerGrid.of(np.full((600, 48), 3.0), GAMMA, 1e-6) is None
    X = pixels()
    X[1, :2] = -0.25, 255.25  # 255.5 apart: rounded, one level more than 8 bits hold
    assert IntegerGrid.of(X, GAMMA, 1e3) is None


def test_integers_multiply_exactly() -> None:
    left = np.full((5, 1 << 15), -128, np.int8)
    right = np.full((3, 1 << 15), 127, np.int8)
    out = np.empty((5, 3))
    integer_grid.distances(
        left, right, (integer_grid.squares(left), integer_grid.squares(right)), out
    )
    assert (out == 255.0**2 * (1 << 15)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_values_are_as_exact_as_said(fast: None, dtype: type) -> None:
    """The bound holds against differences in float64, on points that were divided in float32."""
    whole = pixels()
    whole[350:, 7:] = whole[:350, 7:]  # near each other, so that kernel values of all sizes occur
    X = (whole.astype(np.float32) / np.float32(255)).astype(np.float64)
    rows = KernelRows(X, KernelSpec("rbf", GAMMA), dtype, slack=2e-6)
    assert isinstance(rows.encoding, IntegerGrid)
    assert rows.trusted
    K = exact_values(X)
    assert np.abs(rows.square() - K).max() <= rows.stored_rounding < 2e-6
    index = np.array([690, 3, 512])
    assert np.abs(rows.rows(index) - K[index]).max() <= rows.stored_rounding
    assert np.abs(rows.rows(index, index[:2]) - K[np.ix_(index, index[:2])]).max() < 2e-6


def test_float64_takes_no_grid_with_rounding(fast: None) -> None:
    X = (pixels().astype(np.float32) / np.float32(255)).astype(np.float64)
    assert not isinstance(encoding_of(X, GAMMA), IntegerGrid)
    assert isinstance(encoding_of(pixels() / 255, GAMMA), IntegerGrid)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_the_gap_bounds_the_distance_to_the_optimum(fast: None, tol: float) -> None:
    """P − D of the machine, from kernel values in float64, is at most what the gap says."""
    X = (pixels().astype(np.float32) / np.float32(255)).astype(np.float64)
    y = np.where(X[:, :8].sum(axis=1) + 0.3 * np.sin(9 * X[:, 9]) > 4, 1, -1)
    fitted = FWSVC(gamma=GAMMA, tol=tol).fit(X, y)
    coef = np.zeros(len(X))
    coef[fitted.support_] = fitted.dual_coef_[0]
    scores = (exact_values(X) + 1.0) @ coef
    slack = np.maximum(0.0, 1.0 - y * scores)
    primal = 0.5 * (coef @ scores + slack @ slack)
    dual = np.abs(coef).sum() - 0.5 * (coef @ scores + coef @ coef)
    assert 0.0 <= (primal - dual) / primal <= fitted.duality_gap_ <= tol
    assert fitted.decision_function(X) == pytest.approx(scores, abs=1e-5)
