"""SVMDual with one C for each point; the one formula of its matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fwnet
from fwnet.problems.svm import dual_matrix

F64 = torch.float64


def data(n: int = 7, batch: int | None = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    shape = (n,) if batch is None else (batch, n)
    X = torch.randn(*shape, 3, generator=generator, dtype=F64)
    y = torch.where(torch.rand(shape, generator=generator) < 0.5, -1.0, 1.0).to(F64)
    return X, y, 0.1 + 5 * torch.rand(shape, generator=generator, dtype=F64)


def test_the_matrix_entry_by_entry() -> None:
    X, y, C = data()
    K = X @ X.mT
    Q = dual_matrix(K, y, 1 / C, bias=True)
    for i in range(7):
        for j in range(7):
            own = 1 / float(C[i]) if i == j else 0.0
            wanted = float(y[i]) * float(y[j]) * (float(K[i, j]) + 1.0) + own
            assert float(Q[i, j]) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize("batch", [None, 4])
def test_features_and_kernel_are_one_problem(batch: int | None) -> None:
    X, y, C = data(batch=batch)
    x = torch.full(y.shape, 1 / 7, dtype=F64)
    for penalty in (C[0] if batch else C, 0.7):
        kernel = fwnet.SVMDual(X @ X.mT, y, C=penalty)
        features = fwnet.SVMDual(features=X, y=y, C=penalty)
        for name in ("value", "gradient"):
            ours = getattr(kernel, name)(kernel.at(x))
            assert torch.allclose(ours, getattr(features, name)(features.at(x)), rtol=1e-12)


def test_the_hinge_gap_with_one_c_for_each_point() -> None:
    X, y, C = data(30)
    problem = fwnet.SVMDual(features=X, y=y, C=C)
    alpha = torch.rand(30, generator=torch.Generator().manual_seed(1), dtype=F64)
    alpha /= alpha.sum()
    gap, primal = problem.hinge_gap(problem.at(alpha))
    lifted = np.hstack([X.numpy(), np.ones((30, 1))])
    Q = (y.numpy()[:, None] * lifted) @ (y.numpy()[:, None] * lifted).T + np.diag(1 / C.numpy())
    beta = alpha.numpy() / (alpha.numpy() @ Q @ alpha.numpy())
    w = (beta * y.numpy()) @ lifted
    slack = np.maximum(0.0, 1.0 - y.numpy() * (lifted @ w))
    value = 0.5 * w @ w + 0.5 * C.numpy() @ slack**2
    dual = beta.sum() - 0.5 * beta @ Q @ beta
    assert float(primal) == pytest.approx(value, rel=1e-12)
    assert float(gap) == pytest.approx(value - dual, rel=1e-12)


def test_c_must_fit_the_points() -> None:
    X, y, C = data()
    with pytest.raises(
        ValueError, match=r"SVMDual\(C=...\) must be a number, or have shape \(7,\)"
    ):
        fwnet.SVMDual(features=X, y=y, C=C[:3])
    with pytest.raises(ValueError, match="must hold positive finite numbers only"):
        fwnet.SVMDual(features=X, y=y, C=-C)


def two_classes(n: int = 40, d: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = torch.where(X[:, 0] + 0.5 * X[:, 1] > 0.3, 1.0, -1.0).double()
    y[:3] = -y[:3]  # not separable
    return X, y


def test_the_hyperplane_is_that_of_liblinear() -> None:
    """w, b and the decisions at the optimum, from features and from their kernel."""
    svm = pytest.importorskip("sklearn.svm")
    X, y = two_classes()
    known = svm.LinearSVC(C=1.0, tol=1e-10, max_iter=10**6).fit(X, y)  # C Σ ξ², ours is C/2 Σ ξ²
    new = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-12, max_steps=20000)
    linear, kernel = fwnet.SVMDual(features=X, y=y, C=2.0), fwnet.SVMDual(X @ X.T, y, C=2.0)
    alpha = solver(kernel).x
    w, b = linear.primal(alpha)
    np.testing.assert_allclose(w, known.coef_[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(b, known.intercept_[0], rtol=1e-3, atol=1e-4)
    decisions = known.decision_function(new.numpy())
    np.testing.assert_allclose(linear.decision_function(alpha, new), decisions, atol=1e-3)
    np.testing.assert_allclose(kernel.decision_function(alpha, new @ X.T), decisions, atol=1e-3)
    np.testing.assert_array_equal(kernel.predict(alpha, new @ X.T), known.predict(new.numpy()))


def test_decisions_of_a_batch_are_those_of_each() -> None:
    X, y = two_classes()
    both = torch.stack([X @ X.T, 2 * X @ X.T])
    alpha = torch.softmax(torch.randn(2, 40, generator=torch.Generator().manual_seed(2)), -1)
    alpha, new = alpha.double(), torch.ones(2, 5, 40, dtype=torch.float64)
    batch = fwnet.SVMDual(both, y.expand(2, -1)).decision_function(alpha, new)
    each = [
        fwnet.SVMDual(K, y).decision_function(a, k)
        for K, a, k in zip(both, alpha, new, strict=True)
    ]
    torch.testing.assert_close(batch, torch.stack(each))


def test_decisions_say_what_they_need() -> None:
    X, y = two_classes()
    alpha = torch.full((40,), 1 / 40, dtype=torch.float64)
    with pytest.raises(TypeError, match="primal needs SVMDual"):
        fwnet.SVMDual(X @ X.T, y).primal(alpha)
    with pytest.raises(TypeError, match="needs the labels y"):
        fwnet.SVMDual(X @ X.T).predict(alpha, X @ X.T)
    with pytest.raises(ValueError, match="with 3 columns; got"):
        fwnet.SVMDual(features=X, y=y).predict(alpha, X @ X.T)


@pytest.mark.parametrize("kind", ["kernel", "features"])
def test_minibatches_of_coordinates_are_unbiased(kind: str) -> None:
    """The mean over all minibatches of one coordinate is the gradient, and f."""
    X, y = two_classes()
    problem = fwnet.SVMDual(X @ X.T, y) if kind == "kernel" else fwnet.SVMDual(features=X, y=y)
    it = problem.at(torch.softmax(X[:, 2], 0))
    samples = [problem.minibatch(torch.tensor([k])) for k in range(problem.terms() or 0)]
    assert len(samples) == 40
    mean = torch.stack([sample.gradient(it) for sample in samples]).mean(0)
    torch.testing.assert_close(mean, problem.gradient(it))
    value = torch.stack([sample.value(it) for sample in samples]).mean()
    torch.testing.assert_close(value, problem.value(it))


def test_stochastic_frank_wolfe_trains_an_svm() -> None:
    """Minibatches of half the coordinates approach f*; of all coordinates, they are exact."""
    X, y = two_classes()
    problem = fwnet.SVMDual(X @ X.T, y)
    best = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-10, max_steps=5000)(problem).value

    def excess(batch_size: int, steps: int) -> float:
        solver = fwnet.StochasticFrankWolfe(
            fwnet.Simplex(), batch_size=batch_size, max_steps=steps, tol=0.0
        )
        return float(solver(problem).value / best) - 1

    assert excess(20, 3000) < excess(20, 100) / 2
    assert excess(40, 1000) < 0.02
