"""The parts of the SVM solvers: the compiled loop, the kernel store, kernel blocks, line search."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel

import fwnet
import fwnet.estimators.svm.svc
from fwnet.estimators import FWSVC
from fwnet.estimators.svm.encoding import FeatureEncoding
from fwnet.estimators.svm.gaps import dual_gap
from fwnet.estimators.svm.gram_matrix import DualMatrix, StoredGramMatrix
from fwnet.estimators.svm.hull import exact_weights, line_search
from fwnet.estimators.svm.kernel_machine import Points, solve_kernel
from fwnet.estimators.svm.kernels import KernelRows, KernelSpec, cross_kernel
from fwnet.estimators.svm.limits import Limits, default_megabytes
from fwnet.estimators.svm.margin_problem import BinaryProblem, MarginProblem
from fwnet.estimators.svm.pairwise import HUGE, add_rows, pairwise_steps, reflect
from fwnet.quadratic.solve import simplex_qp
from fwnet.trace import Clock


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in whatever order the tests are run."""
    return np.random.default_rng(0)


def problem(n: int, C: float = 2.0) -> tuple[np.ndarray, BinaryProblem]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, BinaryProblem(y, np.full(n, C) * rng.uniform(0.5, 2.0, n), rng.permutation(n))


def dual_matrix(K: np.ndarray, p: BinaryProblem) -> np.ndarray:
    return p.y[:, None] * (K.astype(float) + p.bias) * p.y + np.diag(1.0 / p.box)


def plain_path(Q: np.ndarray, alpha: np.ndarray, steps: int) -> list[np.ndarray]:
    """Second-order pairwise Frank-Wolfe as one would write it on paper, up to the first tie.

    A step makes two gradients equal; once both are the smallest, rounding chooses between them.
    """
    path = [alpha]
    for _ in range(steps):
        gradient = Q @ alpha
        i = int(np.argmin(gradient))
        slope = gradient - gradient[i]
        curve = Q[i, i] + np.diag(Q) - 2.0 * Q[i]
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.where(curve > 0, np.minimum(slope / curve, alpha), 0.0)
        gain = step * (slope - 0.5 * curve * step)
        j = int(np.argmax(gain))
        rounding = 100 * len(Q) * np.finfo(float).eps
        if np.sort(slope)[1] <= rounding * np.abs(gradient).max():
            break
        if np.sort(gain)[-2] >= (1 - rounding) * gain[j]:
            break
        alpha = alpha.copy()
        alpha[i] += step[j]
        alpha[j] -= step[j]
        path.append(alpha)
    return path


def solver_steps(K: np.ndarray, p: BinaryProblem, steps: int) -> np.ndarray:
    """The weights after some steps of `PairwiseFrankWolfe` from the first vertex."""
    y, C = torch.from_numpy(p.y), torch.from_numpy(p.box)
    dual = fwnet.SVMDual(torch.from_numpy(K.astype(float)), y, C=C)
    solver = fwnet.PairwiseFrankWolfe(
        fwnet.Simplex(), second_order=True, max_steps=steps, tol=0.0, refresh_every=1
    )
    start = torch.zeros(len(p.y), dtype=torch.float64)
    start[0] = 1.0
    return np.asarray(solver(dual, start).x.numpy())


@pytest.mark.parametrize(("n", "clear"), [(5, 4), (31, 25), (32, 25), (100, 25)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_loop_takes_the_plain_loops_steps(n: int, clear: int, dtype: type) -> None:
    X, p = problem(n)
    kernel = rbf_kernel(X, gamma=0.5).astype(dtype)
    Q = dual_matrix(kernel, p)
    start = np.zeros(n)
    start[0] = 1.0
    path = plain_path(Q, start, 25)
    assert len(path) > clear
    for steps, wanted in enumerate(path):
        alpha, gradient = start.copy(), Q[0].copy()
        state = np.array([0.0, 0.0, 0.0, 0.5 * Q[0, 0], 0.0])
        pairwise_steps(
            kernel, p.y, p.box, alpha, gradient, np.diag(Q).copy(), state,
            np.empty(n), 0.0, steps, 10**9, 1.0, HUGE, 0.0,
        )  # fmt: skip
        assert alpha == pytest.approx(wanted, abs=1e-9)
        if steps in (1, 2, 4, 25):
            assert alpha == pytest.approx(solver_steps(kernel, p, steps), abs=1e-9)
        assert gradient == pytest.approx(Q @ alpha, abs=1e-9)
        assert state[3] == pytest.approx(0.5 * alpha @ Q @ alpha, rel=1e-9)


def test_weights_stay_on_the_simplex_and_the_value_falls() -> None:
    X, p = problem(300)
    kernel = rbf_kernel(X)
    Q = dual_matrix(kernel, p)
    alpha = np.full(300, 1 / 300)
    gradient, state = Q @ alpha, np.array([0.0, 0.0, 0.0, 0.5 * alpha @ Q @ alpha, 0.0])
    value = state[3]
    for _ in range(40):
        pairwise_steps(
            kernel, p.y, p.box, alpha, gradient, np.diag(Q).copy(), state,
            np.empty(300), 0.0, 5, 5, 1.0, HUGE, 0.0,
        )  # fmt: skip
        assert alpha.min() >= 0
        assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
        assert state[3] <= value
        value = state[3]


def test_survey_is_the_duality_gap(rng: np.random.Generator) -> None:
    X, p = problem(80)
    K = rbf_kernel(X)
    alpha = rng.dirichlet(np.ones(80))
    violations, Q = np.empty(80), dual_matrix(K, p)
    value, primal, gap = dual_gap(p, p.y * alpha, p.y * (Q @ alpha), violations)
    rho = 2.0 * value
    beta = alpha / rho
    coef = beta * p.y
    slack = np.maximum(0.0, 1.0 - p.y * (K @ coef + coef.sum()))
    wanted = 0.5 * (coef @ K @ coef + coef.sum() ** 2 + np.sum(p.box * slack**2))
    dual = beta.sum() - 0.5 * beta @ Q @ beta
    assert primal == pytest.approx(wanted, rel=1e-12)
    assert rho == pytest.approx(alpha @ Q @ alpha, rel=1e-12)
    assert gap == pytest.approx((primal - dual) / primal, rel=1e-12)
    assert violations == pytest.approx(p.box * (1.0 - Q @ alpha / rho) ** 2, abs=1e-12)
    y, C = torch.from_numpy(p.y), torch.from_numpy(p.box)
    core = fwnet.SVMDual(torch.from_numpy(K), y, C=C)
    difference, other = core.hinge_gap(core.at(torch.from_numpy(alpha)))
    assert gap == pytest.approx(float(difference / other), rel=1e-12)


@pytest.mark.parametrize("n", [60, 500])
def test_the_hinge_gap_bounds_the_suboptimality(n: int, rng: np.random.Generator) -> None:
    X, p = problem(n)
    Q = dual_matrix(rbf_kernel(X), p)
    best = simplex_qp(torch.from_numpy(Q)).numpy()
    least = best @ Q @ best
    for sparsity in (0.02, 0.3, 1.0):
        alpha = rng.dirichlet(np.full(n, sparsity))
        value, _, gap = dual_gap(p, p.y * alpha, p.y * (Q @ alpha))
        assert value - 0.5 * least <= value * gap * (1 + 1e-9)


def test_a_dual_kernel_is_the_matrix_of_the_core(rng: np.random.Generator) -> None:
    X, p = problem(120)
    store = StoredGramMatrix(KernelRows(X, KernelSpec("rbf", 0.5), np.float64), 200)
    kernel = DualMatrix(store, p.y, p.box, p.bias)
    alpha = torch.from_numpy(rng.dirichlet(np.full(120, 0.1)))
    Q = dual_matrix(rbf_kernel(X, gamma=0.5), p)
    assert kernel.apply(alpha).numpy() == pytest.approx(Q @ alpha.numpy(), abs=1e-12)
    ours, core = fwnet.SVMDual(kernel, C=None), fwnet.Quadratic(torch.from_numpy(Q))
    solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-8, max_steps=300)
    assert solver(ours).x.numpy() == pytest.approx(solver(core).x.numpy(), abs=1e-9)
    with pytest.raises(ValueError, match="a LinearMap counts as all of Q; leave out y"):
        fwnet.SVMDual(kernel, torch.from_numpy(p.y))


def test_a_fit_walks_through_problems_domains_and_solvers() -> None:
    X, p = problem(500)
    rooms: set[str] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and "/fwnet/" in path:
            rooms.add(path.split("/fwnet/")[-1].split("/")[0])

    sys.setprofile(note)
    try:
        FWSVC().fit(X, p.y)
    finally:
        sys.setprofile(None)
    assert {"problems", "domains", "solvers"} <= rooms


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("thin", [False, True])
def test_kernel_blocks(dtype: type, d: int, thin: bool, rng: np.random.Generator) -> None:
    X = rng.normal(size=(600, d)) + 3.0
    X[:, d // 2] = 7.0  # a constant feature
    points = sparse.csr_array(X) if thin else X
    wanted = {
        "rbf": (KernelSpec("rbf", 0.1), rbf_kernel(X, gamma=0.1)),
        "poly": (KernelSpec("poly", 0.01, 2, 1.0), polynomial_kernel(X, X, 2, 0.01, 1.0)),
        "sigmoid": (KernelSpec("sigmoid", 0.01, 3, -0.5), sigmoid_kernel(X, X, 0.01, -0.5)),
        "linear": (KernelSpec("linear"), X @ X.T),
    }
    for spec, K in wanted.values():
        rows = KernelRows(points, spec, dtype)
        scale = 3e-5 if dtype is np.float32 else 1e-11
        index = np.array([5, 590, 7])
        assert near(rows.rows(index), K[index], scale)
        assert near(rows.rows(index, index), K[np.ix_(index, index)], scale)
        assert near(rows.square(), K, scale)
        assert near(rows.diagonal(index), np.diag(K)[index], 1e-9)
        assert near(cross_kernel(points[:9], points, spec), K[:9], 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rare_features_are_added_pair_by_pair(dtype: type) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1100, 40)) + 2.0
    for f in range(30):  # one value for all points but some, up to a tenth of them
        X[rng.random(1100) > f / 300, f] = 0.5 * f
    encoding = FeatureEncoding.of(X, 0.05)
    others = (0.5 * np.arange(40) != X).mean(axis=0)
    assert encoding.rare.tolist() == [f for f in range(30) if others[f] < 0.05]
    K = np.exp(-0.05 * cdist(X, X, "sqeuclidean"))  # differences: no rounding of norms
    scale = 1e-5 if dtype is np.float32 else 1e-12
    rows = KernelRows(X, KernelSpec("rbf", 0.05), dtype)
    index = np.array([700, 3, 1099])
    assert near(rows.square(), K, scale)
    assert near(rows.rows(index), K[index], scale)
    assert near(rows.rows(index, index[:2]), K[np.ix_(index, index[:2])], scale)


def near(found: np.ndarray, wanted: np.ndarray, scale: float) -> bool:
    """Up to `scale`, relative where that is more."""
    return bool((np.abs(found - wanted) <= scale * np.maximum(np.abs(wanted), 1.0)).all())


def test_small_copies(rng: np.random.Generator) -> None:
    A = rng.normal(size=(100, 100))
    B = A.copy()
    reflect(B, 60, 90)
    assert np.array_equal(B[:60, 60:90], A[60:90, :60].T)
    total = np.zeros(100)
    add_rows(A, np.array([7, 3]), np.array([2.0, -1.0]), total)
    assert total == pytest.approx(2.0 * A[7] - A[3])


def wide_points() -> tuple[np.ndarray, np.ndarray]:
    """200 points with so many features that their kernel rows are kept, and k with γ = ½."""
    X = np.tile(problem(200)[0], 20) / np.sqrt(20)
    return X, rbf_kernel(X, gamma=0.5)


def test_a_store_without_room_answers_the_same(rng: np.random.Generator) -> None:
    X, K = wide_points()
    kernel = KernelRows(X, KernelSpec("rbf", 0.5), np.float64)
    store = StoredGramMatrix(kernel, 50 * 200 * 8 / 2**20)
    assert (store.limit, store.fits, store.transient) == (50, False, False)
    for round_ in range(6):
        index = rng.permutation(200)[:40]
        store.keep = index
        weights = rng.normal(size=40)
        assert store.combine(index, weights) == pytest.approx(weights @ K[index], abs=1e-10)
        columns = rng.permutation(200)[: 10 + round_]
        assert store.entries(index, columns) == pytest.approx(K[np.ix_(index, columns)], abs=1e-12)
    many = np.arange(120)
    store.keep = many
    assert store.combine(many, np.ones(120)) == pytest.approx(K[:120].sum(axis=0), abs=1e-10)


def test_rows_of_few_features_are_not_kept_where_not_all_have_room(
    rng: np.random.Generator,
) -> None:
    X, _ = problem(200)
    K, weights = rbf_kernel(X, gamma=0.5), rng.normal(size=120)
    store = StoredGramMatrix(KernelRows(X, KernelSpec("rbf", 0.5), np.float32), 0.1)
    assert (store.limit, store.transient) == (0, True)
    for _ in range(3):
        total = store.combine(np.arange(120), weights)
    assert total == pytest.approx(weights @ K[:120], abs=1e-4)
    store.warn_if_short()  # a larger cache would not help


def test_a_store_that_evaluates_rows_again_and_again_names_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fwnet.estimators.svm.gram_matrix._DEAR", 1000)
    kernel = KernelRows(wide_points()[0], KernelSpec("rbf", 0.5), np.float64)
    store = StoredGramMatrix(kernel, 50 * 200 * 8 / 2**20)
    for _ in range(2):
        store.combine(np.arange(120), np.ones(120))
    store.warn_if_short()  # 70 rows were evaluated twice: no reason to complain
    store.combine(np.arange(120), np.ones(120))
    with pytest.warns(UserWarning, match="0 MB hold 50 of the 120 .* evaluated again 140 times"):
        store.warn_if_short()


def test_the_default_cache_is_a_quarter_of_what_the_system_leaves(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   8388608 kB\n")
    assert default_megabytes(str(tmp_path)) == 2048
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("1000\n")
    assert default_megabytes(str(tmp_path)) == 2048
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{2**30 + 1000}\n")
    assert default_megabytes(str(tmp_path)) == 256
    assert default_megabytes(str(tmp_path / "none")) > 0


def test_the_next_store_takes_over_the_memory_of_one_that_was_released() -> None:
    X, _ = problem(300)
    K = rbf_kernel(X, gamma=0.5)
    first = StoredGramMatrix(KernelRows(X, KernelSpec("rbf", 0.5), np.float64), 200)
    place = first.square().ctypes.data
    assert first.square() == pytest.approx(K, abs=1e-12)
    first.release()
    second = StoredGramMatrix(KernelRows(X[:200], KernelSpec("rbf", 0.5), np.float32), 200)
    other = StoredGramMatrix(KernelRows(X[:200], KernelSpec("rbf", 0.5), np.float32), 200)
    assert second.square().ctypes.data == place
    assert other.square().ctypes.data != place  # memory in use is never handed out
    assert second.square() == pytest.approx(K[:200, :200], abs=1e-5)


def test_a_precomputed_matrix_is_not_taken_for_a_stores_memory() -> None:
    X, p = problem(450)
    K = rbf_kernel(X, gamma=0.5)
    kept, y = K.copy(), p.y
    FWSVC(kernel="precomputed").fit(K, y)
    FWSVC(gamma=0.3).fit(X, y)
    assert np.array_equal(K, kept)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("labels", [True, False])
def test_line_search_finds_the_minimum(seed: int, labels: bool) -> None:
    rng = np.random.default_rng(seed)
    w, v, box = rng.normal(size=4), rng.normal(size=4), rng.uniform(0.5, 2.0, 30)
    A, sign, real = rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], 30), rng.normal(size=30)

    def value(t: float) -> float:
        u = w + t * (v - w)
        outside = 1.0 - sign * (A @ u) if labels else np.abs(real - A @ u) - 0.3
        return 0.5 * float(u @ u) + 0.5 * float(box @ np.maximum(0.0, outside) ** 2)

    hinge, tube = BinaryProblem(sign, box, box), MarginProblem(real, box, box, epsilon=0.3)
    d = v - w
    t = line_search(float(w @ d), float(d @ d), hinge if labels else tube, A @ w, A @ d)
    best = minimize_scalar(value, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-10})
    if 0 < best.x < 10 - 1e-6:
        assert value(t) <= value(best.x) + 1e-12


def test_exact_weights_meet_the_optimality_conditions() -> None:
    X, p = problem(250, C=50.0)
    K = rbf_kernel(X)
    u = exact_weights(K, p, 1.0, 0.1 * p.y)
    f = K @ u + u.sum()
    assert u == pytest.approx(p.box * p.y * np.maximum(0.0, 1.0 - p.y * f), abs=1e-8)
    tube = MarginProblem(X[:, 0] ** 2, p.box, p.order, epsilon=0.1)
    u = exact_weights(K, tube, 0.0, np.zeros(250))
    rest = tube.y - K @ u
    wanted = p.box * np.sign(rest) * np.maximum(0.0, np.abs(rest) - 0.1)
    assert u == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("n", [900, 2500])
def test_float32_weights_get_the_gap_of_double_precision(n: int) -> None:
    X, p = problem(n)
    spec = KernelSpec("rbf", 0.5)
    points = Points.prepare(X, spec, Limits(1e-3, 2**62, Clock(), 200))
    assert points.gram.kernel.dtype == np.float32
    found = solve_kernel(points, p, Limits(1e-3, 2**62, Clock(), 200), "auto")
    alpha = np.abs(found.coef) / np.abs(found.coef).sum()
    gradient = dual_matrix(rbf_kernel(X, gamma=0.5), p) @ alpha
    true = dual_gap(p, p.y * alpha, p.y * gradient).gap
    assert found.gap == pytest.approx(true, abs=1e-10)


def test_documentation_examples_run() -> None:
    assert doctest.testmod(fwnet.estimators.svm.svc).failed == 0
