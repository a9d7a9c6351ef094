"""Quadrature rules against integrals and errors that are known to many digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import integrate, sparse
from torch import Tensor

from fwnet.quadrature import (
    METHODS,
    RBF,
    Empirical,
    Gaussian,
    Matern32,
    Measure,
    MixtureMeasure,
    SmoothKernel,
    Uniform,
    coreset,
    quadrature,
)
from fwnet.quadrature.rules import worst_case_error
from fwnet.quadrature.selection import sequential

KERNELS = [RBF(0.7), Matern32(0.9)]
BOX = Uniform([-1.0], [2.0])
SPREAD = np.random.default_rng(0).normal(size=(20, 2))
BOXES = MixtureMeasure([0.3, 0.7], [BOX, Uniform([1.0], [1.5])])
NORMALS = MixtureMeasure([0.25, 0.75], [Gaussian([0.3], 0.5), Gaussian([-1.0], 2.0)])


def density(measure: Any, x: float) -> float:
    if isinstance(measure, MixtureMeasure):
        parts = zip(measure.weights.tolist(), measure.parts, strict=True)
        return sum(w * density(part, x) for w, part in parts)
    if isinstance(measure, Gaussian):
        v = float(measure.covariance)
        return math.exp(-0.5 * (x - float(measure.mean)) ** 2 / v) / math.sqrt(2 * math.pi * v)
    return float(measure.low <= x <= measure.high) / float(measure.high - measure.low)


CLOSED: list[tuple[SmoothKernel, Measure]] = [
    (RBF(0.7), m) for m in (Gaussian([0.3], 0.5), NORMALS)
]
CLOSED += [(kernel, m) for kernel in KERNELS for m in (BOX, BOXES)]


@pytest.mark.parametrize(("kernel", "measure"), CLOSED)
def test_closed_forms_are_integrals(kernel: SmoothKernel, measure: Measure) -> None:
    breaks = [-1.0, 1.0, 1.5, 2.0]

    def k(x: float, z: float) -> float:
        return float(kernel(torch.tensor([[x]]).double(), torch.tensor([[z]]).double()))

    for x in (-2.5, 0.2, 1.2):
        points = sorted([*breaks, x])
        value, _ = integrate.quad(
            lambda z, x=x: k(x, z) * density(measure, z), -9, 9, points=points, limit=200
        )
        found = kernel.mean(torch.tensor([[x]]).double(), measure)
        assert float(found) == pytest.approx(value, abs=1e-7)
    mean, _ = integrate.quad(
        lambda z: float(kernel.mean(torch.tensor([[z]]).double(), measure)) * density(measure, z),
        -9, 9, points=breaks, limit=200,
    )  # fmt: skip
    assert float(kernel.double(measure)) == pytest.approx(mean, abs=1e-7)


def test_many_dimensions_are_products_for_independent_coordinates() -> None:
    x = torch.tensor([[0.3, -0.4, 1.0]]).double()
    scales, variances = [0.5, 1.0, 2.0], [1.0, 0.3, 2.0]
    found = RBF(scales).mean(x, Gaussian([0.1, 0.2, 0.3], variances))
    parts = [
        RBF(s).mean(x[:, k : k + 1], Gaussian([0.1 * (k + 1)], v))
        for k, (s, v) in enumerate(zip(scales, variances, strict=True))
    ]
    assert float(found) == pytest.approx(math.prod(map(float, parts)), rel=1e-12)
    whole = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double()
    sample = Gaussian([1.0, -1.0], whole).sample(200_000, torch.Generator().manual_seed(0))
    monte_carlo = float(RBF(1.0)(x[:, :2], sample).mean())
    exact = float(RBF(1.0).mean(x[:, :2], Gaussian([1.0, -1.0], whole)))
    assert monte_carlo == pytest.approx(exact, abs=4e-3)  # four standard errors
    skewed = MixtureMeasure([0.3, 0.7], [Gaussian([1.0, -1.0], whole), Gaussian([0.0, 0.5])])
    at = x[:, :2].clone().requires_grad_()
    RBF([0.5, 2.0]).mean(at, skewed).backward()
    slope = RBF([0.5, 2.0]).mean_maker(skewed)(at.detach().numpy())[1]
    assert at.grad is not None
    assert np.allclose(slope, at.grad, rtol=1e-10)


@pytest.mark.parametrize(("kernel", "measure"), CLOSED)
def test_gradients_are_those_of_finite_differences(kernel: SmoothKernel, measure: Measure) -> None:
    x = torch.tensor([[-0.6], [0.2], [1.3]]).double()
    w = torch.tensor([0.4, -0.3, 0.5]).double()
    K = kernel.gram(x.numpy())
    pull, (z, slope) = kernel.pull(x.numpy(), K, w.numpy()), kernel.mean_maker(measure)(x.numpy())
    assert np.allclose(K, kernel(x, x), rtol=1e-12)
    assert np.allclose(z, kernel.mean(x, measure), rtol=1e-12)
    for i in range(3):
        step = torch.zeros_like(x)
        step[i] = 1e-6
        near = [x + step, x - step]
        forms = [float(w @ kernel(at, at) @ w) for at in near]
        means = [float(kernel.mean(at, measure)[i]) for at in near]
        assert pull[i, 0] == pytest.approx((forms[0] - forms[1]) / 2e-6, abs=1e-8)
        assert slope[i, 0] == pytest.approx((means[0] - means[1]) / 2e-6, abs=1e-8)


def exact_error(rule_points: Tensor, weights: Tensor, scale: float, measure: Gaussian) -> mp.mpf:
    """The worst-case error for RBF and an isotropic Gaussian, with 60 digits."""
    with mp.workdps(60):
        points = [[mp.mpf(v) for v in row] for row in rule_points.tolist()]
        w = [mp.mpf(v) for v in weights.tolist()]
        mean = [mp.mpf(v) for v in measure.mean.tolist()]
        var, l2, d = mp.mpf(float(measure.covariance[0, 0])), mp.mpf(scale) ** 2, len(mean)

        def gauss(a: Any, b: Any, spread: Any) -> mp.mpf:
            square = sum((u - v) ** 2 for u, v in zip(a, b, strict=True))
            return mp.sqrt(l2 / (l2 + spread)) ** d * mp.exp(-square / (2 * (l2 + spread)))

        total = gauss(mean, mean, 2 * var)
        for i, x in enumerate(points):
            total -= 2 * w[i] * gauss(x, mean, var)
            for j, z in enumerate(points):
                total += w[i] * w[j] * gauss(x, z, mp.mpf(0))
        return mp.sqrt(total)


@pytest.mark.slow
def test_the_worst_case_error_is_an_upper_bound() -> None:
    rng = np.random.default_rng(0)
    for k in range(200):
        d, n = int(rng.integers(1, 6)), int(rng.integers(1, 14))
        scale = float(10 ** rng.uniform(-1, 1.5))
        mean = rng.normal(size=d) * 10 ** rng.uniform(-2, 2)
        measure = Gaussian(mean, float(10 ** rng.uniform(-1, 1)))
        rule = quadrature(
            measure, n, RBF(scale), method=METHODS[k % len(METHODS)], candidates=60,
            refine=int(rng.integers(0, 5)), generator=torch.Generator().manual_seed(k),
        )  # fmt: skip
        true = exact_error(rule.points, rule.weights, float(rule.kernel.lengthscale), measure)
        assert rule.worst_case_error >= true
        # It is no wild guess either: sums of sizes Σ|w| round by 1e-7 of them.
        sizes = float(rule.weights.abs().sum()) * (1.0 + np.abs(mean).max() / scale)
        assert rule.worst_case_error <= 1.01 * true + 1e-6 * sizes


@pytest.mark.parametrize("measure", [Uniform([0.0, 0.0], [1.0, 2.0]), Gaussian([0.0, 1.0])])
@pytest.mark.parametrize("method", METHODS)
def test_rules_integrate_smooth_functions(measure: Measure, method: str) -> None:
    rule = quadrature(measure, 60, RBF(1.5), method=method)
    found = rule.integrate(lambda x: torch.cos(x[:, 0]) * x[:, 1])
    cosine = math.sin(1.0) if isinstance(measure, Uniform) else math.exp(-0.5)
    assert found.value == pytest.approx(cosine, abs=1e-3)
    assert abs(found.value - cosine) < 8 * found.std + 1e-6
    assert repr(rule).startswith("QuadratureRule(")


def test_refinement_lowers_the_error_and_frank_wolfe_weights_lie_on_the_simplex() -> None:
    measure, kernel = Gaussian([0.0, 0.0]), RBF(0.6)
    rough = quadrature(measure, 25, kernel, refine=0)
    fine = quadrature(measure, 25, kernel, refine=30)
    assert fine.worst_case_error < 0.7 * rough.worst_case_error
    assert fine.indices is None
    assert rough.indices is not None
    simplex = quadrature(measure, 25, kernel, weights="frank-wolfe")
    assert float(simplex.weights.sum()) == pytest.approx(1.0)
    assert bool((simplex.weights > 0).all())
    assert rough.worst_case_error <= simplex.worst_case_error * 1.5


def test_sequential_is_the_greedy_choice() -> None:
    X = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    measure, kernel = Gaussian([0.0, 0.0]), RBF(0.8)
    z = kernel.mean(X, measure)
    chosen: list[int] = []
    for _ in range(6):
        variances = []
        for i in range(len(X)):
            some = [*chosen, i]
            K = kernel(X[some], X[some]) + 1e-13 * torch.eye(len(some), dtype=torch.float64)
            variances.append(-float(z[some] @ torch.linalg.solve(K, z[some])))
        chosen.append(int(np.argmin(variances)))
    assert sequential(kernel, X, z, 6).tolist() == chosen


def test_frank_wolfe_beats_monte_carlo() -> None:
    measure, kernel = Gaussian([0.0] * 5), RBF(1.5)
    expected = math.sqrt((1 - float(kernel.double(measure))) / 50)  # root mean square over draws
    for method in METHODS[:-1]:
        rule = quadrature(measure, 50, kernel, method=method, weights="frank-wolfe")
        assert rule.worst_case_error < 0.75 * expected, method


def test_an_empirical_measure_chooses_among_its_points() -> None:
    X = torch.randn(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rule = quadrature(Empirical(X), 20, RBF(1.0))
    assert rule.indices is not None
    assert torch.equal(X[rule.indices], rule.points)
    K = RBF(1.0)(X, X)
    w = torch.zeros(300, dtype=torch.float64).index_add(0, rule.indices, rule.weights)
    direct = math.sqrt(float((w - 1 / 300) @ K @ (w - 1 / 300)))
    assert rule.worst_case_error == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [False, True])
def test_a_coreset_certifies_its_distance(dtype: Any, classes: bool) -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 4)) + 3.0).astype(dtype)
    y = rng.integers(0, 3, 400) if classes else None
    found = coreset(X, 30, y=y)
    Z = torch.from_numpy(X.astype(np.float64))
    K = found.kernel(Z, Z).numpy()
    if y is not None:
        K = K * (y[:, None] == y)
        assert set(y[found.indices]) == {0, 1, 2}
    w = np.zeros(400)
    w[found.indices] = found.weights
    direct = math.sqrt((w - 1 / 400) @ K @ (w - 1 / 400))
    assert direct <= found.worst_case_error <= 1.2 * direct + 5e-3
    some = rng.choice(400, 30, replace=False)
    v = np.zeros(400)
    v[some] = 1 / 30
    assert direct < 0.6 * math.sqrt((v - 1 / 400) @ K @ (v - 1 / 400))
    assert len(found.indices) <= 30
    assert found.weights.sum() == pytest.approx(1.0)


def test_points_are_taken_from_lists_arrays_and_read_only_arrays() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    X.flags.writeable = False  # warnings are errors here
    frame = torch.tensor(X, requires_grad=True)
    indices = [coreset(rows, 6).indices.tolist() for rows in (X, X.tolist(), frame)]
    assert indices[0] == indices[1] == indices[2]
    rules = [quadrature(Gaussian([0.0, 0.0]), 6, RBF(), candidates=c) for c in (X, X.tolist())]
    assert torch.equal(rules[0].points, rules[1].points)


def test_the_error_of_far_points_is_still_a_bound() -> None:
    measure, points = Gaussian([1e6]), torch.tensor([[1e6 + 0.3], [1e6 - 0.4]]).double()
    w = torch.tensor([0.5, 0.5]).double()
    assert worst_case_error(RBF(1.0), measure, points, w) >= exact_error(points, w, 1.0, measure)


class Odd(SmoothKernel):
    """Not positive definite."""

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        return -torch.ones(len(x), len(z), dtype=torch.float64)

    def _mean(self, x: Tensor, part: Measure) -> Tensor:
        return torch.ones(len(x), dtype=torch.float64)

    def _double(self, part: Measure, other: Measure) -> Tensor:
        return torch.ones((), dtype=torch.float64)


class Turned(SmoothKernel):
    """Not positive definite, but no Cholesky factor of one point shows it."""

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        return 0.3 - 0.9 * torch.eye(len(x), len(z), dtype=torch.float64)


class Waves(SmoothKernel):
    """Not positive definite, which the weights of a coreset show."""

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:
        return torch.cos(3.0 * torch.cdist(x, z) ** 2)


class Laplace(Measure):
    """A measure that no kernel here knows."""

    dim = 1

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, 1, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: quadrature(Laplace(), 5, RBF()), "no closed form here for RBF and Laplace"),
        (lambda: coreset(SPREAD, 10, kernel=Waves()), "not positive semidefinite"),
        (lambda: quadrature(Gaussian([0.0]), 9, RBF(), candidates=5), "at most the number of cand"),
        (lambda: quadrature(Gaussian([0.0]), 0, RBF()), "n must be"),
        (lambda: quadrature(Gaussian([0.0]), 5, Matern32()), "no closed form here for Matern32"),
        (lambda: quadrature(Gaussian([0.0]), 5, RBF(), method="best"), "method must be one of"),
        (lambda: quadrature(Gaussian([0.0]), 5, Odd()), "not positive semidefinite"),
        (lambda: quadrature(Gaussian([0.0]), 5, RBF([1.0, 2.0])), "lengthscale has 2 entries"),
        (lambda: RBF(0.0), "lengthscale must be positive"),
        (lambda: Gaussian([0.0, 1.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Uniform([0.0], [0.0]), "low < high"),
        (lambda: MixtureMeasure([0.5, 0.4], [BOX, BOX]), "sum 1"),
        (lambda: MixtureMeasure([0.5, 0.5], [BOX, Gaussian([0.0])]), "parts of one kind"),
        (lambda: Empirical([[0.0]], [2.0]), "sum 1"),
        (lambda: coreset(np.zeros((3, 2)), 4), "k must be at most the number of rows, 3; got 4"),
        (lambda: coreset(np.zeros(3), 1), r"must be \(n, d\)"),
        (lambda: coreset([[np.nan]], 1), "finite"),
        (lambda: coreset(np.zeros((3, 2)), 2, y=[0, 1]), "each of the 3 rows; got 2"),
        (lambda: coreset(np.zeros((3, 2)), 2, y=[0, 1, 2]), "number of classes, 3.*got 2"),
        (lambda: quadrature(Empirical(torch.eye(5)), 5, Turned()), "not positive semidefinite"),
        (lambda: quadrature(BOX, 5, RBF()).integrate(lambda x: x[:, 0] / 0), "values of f must be"),
    ],
)
def test_bad_settings_raise_clear_errors(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: quadrature("normal", 5, RBF()), "measure must be Gaussian"),  # type: ignore[arg-type]
        (lambda: quadrature(BOX, 5, "rbf"), "kernel must be RBF"),  # type: ignore[arg-type]
        (lambda: Gaussian("normal"), r"Gaussian\(mean\) must be numbers; got str"),
        (lambda: RBF("long"), "lengthscale must be numbers"),
        (lambda: coreset(np.array([["a"]]), 1), r"coreset\(X\) must be numbers"),
        (lambda: coreset(SPREAD, 5, y=np.array(["a", 1] * 10, object)), "all numbers or all str"),
        (lambda: coreset(sparse.eye(4).tocsr(), 1), "Use X.toarray"),
    ],
)
def test_wrong_kinds_raise_clear_errors(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()
