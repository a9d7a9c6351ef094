"""The reported gap against one from public attributes only, in extended precision.

P = ½|w|² + ½b² + ½ Σ Cᵢeᵢ²      the least P by Newton's method in 80 digits
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fwnet.estimators import FWSVC, FWSVR, FWOneClassSVM

DIGITS = mpmath.mp.clone()
DIGITS.dps = 80


def number(x: object) -> mpmath.mpf:
    return DIGITS.mpf(float(x))  # exactly: a float64 has 53 bits


def excess(y: float, f: mpmath.mpf, epsilon: float | None) -> mpmath.mpf:
    """Return e; epsilon is None for labels."""
    if epsilon is None:
        return y * max(DIGITS.mpf(0), 1 - y * f)
    rest, tube = y - f, number(epsilon)
    return rest - min(max(rest, -tube), tube)


def primal(X: np.ndarray, y: np.ndarray, C: float, epsilon: float | None, v: list) -> mpmath.mpf:
    """Return P at v = (w, b)."""
    total = sum(a * a for a in v)
    for row, target in zip(X, y, strict=True):
        f = sum((number(x) * a for x, a in zip(row, v, strict=False)), v[-1])
        total += number(C) * excess(number(target), f, epsilon) ** 2
    return total / 2


def least_primal(X: np.ndarray, y: np.ndarray, C: float, epsilon: float | None) -> mpmath.mpf:
    """Return the least P: Newton's steps, halved until P falls, end on the last piece."""
    d = X.shape[1]
    v = [DIGITS.mpf(0)] * (d + 1)
    value = primal(X, y, C, epsilon, v)
    for _ in range(200):
        hessian, right = DIGITS.eye(d + 1), DIGITS.zeros(d + 1, 1)
        for row, target in zip(X, y, strict=True):
            x = [number(a) for a in row] + [DIGITS.mpf(1)]
            f = sum(a * b for a, b in zip(x, v, strict=True))
            e = excess(number(target), f, epsilon)
            if e == 0:
                continue
            for i in range(d + 1):
                right[i] += number(C) * (f + e) * x[i]
                for j in range(d + 1):
                    hessian[i, j] += number(C) * x[i] * x[j]
        aim = DIGITS.lu_solve(hessian, right)
        step = DIGITS.mpf(1)
        while True:
            new = [a + step * (aim[i] - a) for i, a in enumerate(v)]
            found = primal(X, y, C, epsilon, new)
            if found <= value or step < DIGITS.mpf(2) ** -60:
                break
            step /= 2
        if value - found <= DIGITS.mpf(10) ** -30 * value:
            return min(found, value)
        v, value = new, found
    raise AssertionError("Newton's method did not end")


def suboptimality(model: object, X: np.ndarray, y: np.ndarray, epsilon: float | None) -> float:
    """Return (P − P*)/P of the returned coef_ and intercept_."""
    v = [number(a) for a in np.append(np.ravel(model.coef_), model.intercept_)]
    value = primal(X, y, model.C, epsilon, v)
    return float((value - least_primal(X, y, model.C, epsilon)) / value)


def offset_points(seed: int, offset: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 1)) + offset
    return X, np.where(X[:, 0] + rng.normal(size=30) > offset, 1, -1)


@pytest.mark.parametrize("solver", ["corrective", "pairwise", "newton", "liblinear", "auto"])
@pytest.mark.parametrize("offset", [0.0, 1.7e7, 3e9])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_offset_features_of_a_classifier(solver: str, offset: float) -> None:
    for seed in range(6):
        X, y = offset_points(seed, offset)
        model = FWSVC(0.16, kernel="linear", solver=solver).fit(X, y)
        assert suboptimality(model, X, y, None) <= model.duality_gap_ + 1e-15
        if offset == 0:
            assert model.duality_gap_ <= 1e-3
        w = DIGITS.mpf(0)  # coef_ is the sum that it claims to be
        for x, u in zip(model.support_vectors_[:, 0], model.dual_coef_[0], strict=True):
            w += number(x) * number(u)
        if solver in ("corrective", "pairwise"):
            assert model.coef_[0, 0] == pytest.approx(float(w), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e5, 1.7e7])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_offset_features_of_a_regression(offset: float) -> None:
    for seed in range(6):
        X, _ = offset_points(seed, offset)
        y = X[:, 0] - offset
        model = FWSVR(0.16, kernel="linear").fit(X, y)
        assert suboptimality(model, X, y, model.epsilon) <= model.duality_gap_ + 1e-15


def test_a_gap_that_rounding_hides_ends_with_a_warning() -> None:
    X, y = offset_points(0, 3e11)
    with pytest.warns(ConvergenceWarning, match=r"\(precision\).*centre and scale X"):
        FWSVC(0.16, kernel="linear", solver="corrective", tol=1e-6).fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_offset_features_of_one_class(kernel: str, offset: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(25, 2)) + offset
        model = FWOneClassSVM(3.0, kernel=kernel, gamma=0.5, degree=2).fit(X)
        alpha = np.zeros(25)
        alpha[model.support_] = model.dual_coef_[0]
        K = exact_kernel(X, kernel)
        a = DIGITS.matrix([number(x) for x in alpha])
        scores = K * a
        square = sum(a[i] * scores[i] for i in range(25))
        rho = square + sum(x * x for x in a) / 3
        assert model.duality_gap_ <= 1e-3 or offset > 0
        primal = square / rho**2
        primal += 3 * sum(max(DIGITS.mpf(0), 1 - s / rho) ** 2 for s in scores)
        assert float((primal - 1 / rho) / primal) <= model.duality_gap_ + 1e-15


def exact_kernel(X: np.ndarray, kernel: str) -> mpmath.matrix:
    K = DIGITS.matrix(len(X), len(X))
    for i, x in enumerate(X):
        for j, z in enumerate(X):
            pairs = [(number(a), number(b)) for a, b in zip(x, z, strict=True)]
            if kernel == "rbf":
                K[i, j] = DIGITS.exp(-sum((a - b) ** 2 for a, b in pairs) / 2)
            else:
                product = sum(a * b for a, b in pairs)
                K[i, j] = (product / 2) ** 2 if kernel == "poly" else product
    return K
