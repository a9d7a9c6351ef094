"""max_time holds inside kernel blocks, exact solves, calibration and liblinear."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from scipy.linalg import cho_solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import fwnet
from fwnet.estimators import FWSVC, FWSVR, FWOneClassSVM
from fwnet.estimators.svm import liblinear, neural
from fwnet.estimators.svm.hull import cholesky, exact_weights
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.margin_problem import BinaryProblem, MarginProblem
from fwnet.estimators.svm.newton import solve_newton
from fwnet.trace import Clock

SECONDS, OVERRUN = 0.6, 1.0
OWN = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), max_steps=50)


def points(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)


def slow_kernel(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """2.5 µs a value: 6.4 s for all pairs of 1600 points."""
    time.sleep(2.5e-6 * len(X) * len(Z))
    return np.exp(-0.3 * np.square(X[:, None] - Z).sum(-1))


@pytest.mark.parametrize(
    "model",
    [
        FWSVC(100.0, kernel=slow_kernel, max_time=SECONDS),
        FWSVC(100.0, kernel=slow_kernel, max_time=SECONDS, solver="pairwise"),
        FWSVC(100.0, kernel=slow_kernel, max_time=SECONDS, solver="fwnet"),
        FWSVC(100.0, kernel=slow_kernel, max_time=2.0 * SECONDS, probability=True),
        FWSVR(100.0, kernel=slow_kernel, max_time=SECONDS, epsilon=0.0),
        FWOneClassSVM(0.01, kernel=slow_kernel, max_time=SECONDS),
    ],
    ids=["corrective", "pairwise", "fwnet", "probability", "regression", "one class"],
)
def test_a_slow_kernel_does_not_overrun_max_time(model: Any) -> None:
    X, y = points(1600)
    type(model)(kernel=rbf_kernel).fit(X[:400], y[:400])  # Numba compiles now
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match=r"\(max_time\) at a relative duality gap"):
        model.fit(X, y)
    assert time.perf_counter() - began <= model.max_time + OVERRUN
    assert np.isfinite(model.predict(X[:5])).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_every_problem_of_several_classes_gets_its_share(scheme: str) -> None:
    X, _ = points(900)
    labels = np.random.default_rng(1).integers(0, 4, 900)
    began = time.perf_counter()
    model = FWSVC(kernel=slow_kernel, max_time=SECONDS, multi_class=scheme).fit(X, labels)
    assert time.perf_counter() - began <= SECONDS + OVERRUN
    assert len(model.duality_gaps_) == (4 if scheme == "ovr" else 6)


def test_a_round_that_is_broken_off_leaves_the_gap_of_what_is_returned() -> None:
    X, y = points(700)
    model = FWSVC(100.0, kernel=slow_kernel, max_time=SECONDS)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    K, coef = rbf_kernel(X, gamma=0.3) + 1.0, np.zeros(700)
    coef[model.support_] = model.dual_coef_[0]
    slack = np.maximum(0.0, 1.0 - y * (K @ coef))
    primal = 0.5 * (coef @ K @ coef + 100.0 * slack @ slack)
    dual = coef @ y - 0.5 * coef @ K @ coef - 0.5 * coef @ coef / 100.0
    assert model.duality_gap_ == pytest.approx((primal - dual) / primal, rel=1e-9)


def test_a_cholesky_factor_in_panels_is_lapacks() -> None:
    rng = np.random.default_rng(0)
    for m in (40, 1024, 1100, 1400):
        A = rng.normal(size=(m, m))
        A = A @ A.T + m * np.eye(m)
        b = rng.normal(size=m)
        assert cho_solve(cholesky(A.copy(), Clock()), b) == pytest.approx(
            np.linalg.solve(A, b), rel=1e-9, abs=1e-12
        )
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(A - 3 * m * np.eye(m), Clock())
    with pytest.raises(OutOfTime):
        cholesky(A, Clock(0.0))


def test_exact_weights_and_newton_look_at_the_clock() -> None:
    X, y = points(200)
    box, order = np.full(200, 10.0), np.arange(200)
    with pytest.raises(OutOfTime):
        exact_weights(
            rbf_kernel(X), MarginProblem(y, box, order, epsilon=0.1), 1.0, 0.0 * y, Clock(0.0)
        )
    solved = solve_newton(X, BinaryProblem(y, box, order), Limits(1e-9, 2**62, Clock(0.0), 1.0))
    assert (solved.status, solved.steps) == ("max_seconds", 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("solver", "seconds", "built"),
    [(OWN, 1e-5, True), (OWN, 10.0, False), ("fwnet", 1e-5, False)],
    ids=["in time", "too late", "default network"],
)
def test_a_network_gets_no_matrix_that_would_not_be_ready_in_time(
    solver: Any, seconds: float, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = points(60)
    sizes: list[int] = []
    signed = neural._signed

    def counted(kernel: np.ndarray, problem: BinaryProblem) -> np.ndarray:
        sizes.append(len(kernel))
        return signed(kernel, problem)

    monkeypatch.setattr(neural, "_signed", counted)
    monkeypatch.setattr(neural, "_SECONDS", seconds)  # for each of 60 * 60 entries
    model = FWSVC(100.0, solver=solver, max_time=1000.0).fit(X, y)
    assert sizes == ([60] if built else [])
    assert np.isfinite(model.duality_gap_)


def test_liblinear_begins_no_run_that_would_not_end_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = points(60)
    runs: list[int] = []

    def slow_fit(X: Any, problem: Any, tol: float, max_steps: int) -> tuple[np.ndarray, int]:
        time.sleep(0.01 * max_steps)
        runs.append(max_steps)
        return np.zeros(4), max_steps

    monkeypatch.setattr(liblinear, "_fit", slow_fit)
    problem = BinaryProblem(y, np.ones(60), np.arange(60))
    clock = Clock(0.5)
    solved = liblinear.solve_liblinear(X, problem, Limits(1e-3, 2**62, clock, 1.0))
    assert solved.status == "max_seconds"
    assert clock.seconds <= 0.6
    assert len(runs) >= 3
