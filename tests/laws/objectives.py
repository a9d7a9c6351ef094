"""Drawn objectives, each beside the same f in NumPy with a bound on the rounding of either.

A computed sum of k products errs by at most γ = k u/(1 − k u) times the sum of their absolute
values (Higham, 2002, section 3.1). So each objective is written twice: as it is, and with absolute
values everywhere, which is its `size`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

import fwnet
from cases import forms
from laws.hard_data import draw_matrix, draw_scale, draw_spectrum
from laws.sets import Set
from problem_cases import ProblemCase, problems

Array = np.ndarray


class Look(NamedTuple):
    """f and ∇f at x in float64, and the same sums over absolute values."""

    value: float
    gradient: Array
    value_size: float
    gradient_size: Array


Look_at = Callable[[Array], Look]


@dataclass(frozen=True, eq=False)
class Objective:
    """A problem, and the look at each problem of its batch."""

    name: str
    problem: Any  # a Problem, or a function of x
    looks: list[Look_at]  # one, or one for each problem of a batch
    terms: int  # of the longest chain of sums behind an entry of the gradient
    batched: bool = False
    convex: bool = True
    targets: tuple[Array, ...] = ()  # p of ½|x − p|², one for each look

    @property
    def quadratic(self) -> bool:
        return bool(getattr(self.problem, "quadratic", False))

    @property
    def smooth(self) -> bool:
        """Whether the problem knows its smoothness."""
        return isinstance(self.problem, fwnet.Problem) and self.problem.smoothness() is not None

    @property
    def sampled(self) -> bool:
        """Whether a minibatch of four terms can be drawn; `MatrixFree` gives no rows."""
        terms = self.problem.terms() if isinstance(self.problem, fwnet.Problem) else None
        rows = not isinstance(getattr(self.problem, "matrix", None), fwnet.MatrixFree)
        return rows and terms is not None and terms >= 4

    @property
    def linear_image(self) -> bool:
        """Whether f(x) = φ(Ax) with a curvature that is known."""
        return isinstance(self.problem, fwnet.Problem) and not isinstance(
            self.problem, fwnet.Function
        )


# Vectors ----------------------------------------------------------------------------------------


def look_least_squares(A: Array, b: Array, ridge: float) -> Look_at:
    def look(x: Array) -> Look:
        r, size = A @ x - b, np.abs(A) @ np.abs(x) + np.abs(b)
        return Look(
            0.5 * r @ r + 0.5 * ridge * x @ x,
            A.T @ r + ridge * x,
            0.5 * size @ size + 0.5 * ridge * x @ x,
            np.abs(A).T @ size + ridge * np.abs(x),
        )

    return look


def look_quadratic(K: Array, c: Array, size: Array) -> Look_at:
    """`size` bounds the entries of K before they were summed."""

    def look(x: Array) -> Look:
        g, g_size = K @ x + c, size @ np.abs(x) + np.abs(c)
        return Look(0.5 * x @ (K @ x) + c @ x, g, g_size @ np.abs(x), g_size)

    return look


def look_logistic(X: Array, y: Array) -> Look_at:
    def look(w: Array) -> Look:
        z, size = y * (X @ w), np.abs(X) @ np.abs(w)
        chance = np.exp(-np.logaddexp(0.0, z))
        return Look(
            float(np.logaddexp(0.0, -z).mean()),
            -X.T @ (y * chance) / len(y),
            float((1.0 + size).mean()),
            np.abs(X).T @ (1.0 + size) / len(y),  # an error of z moves a chance by a quarter of it
        )

    return look


def _batch(generator: np.random.Generator) -> int:
    return 0 if generator.random() < 0.7 else int(generator.integers(1, 4))


def _tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64)).to(dtype)


def _rounded(x: Any, dtype: torch.dtype) -> tuple[torch.Tensor, Array]:
    """A tensor, and what it holds after rounding."""
    tensor = _tensor(x, dtype)
    return tensor, tensor.double().numpy()


def _stacked(generator: np.random.Generator, batch: int, make: Callable[[], Array]) -> Array:
    return make() if batch == 0 else np.stack([make() for _ in range(batch)])


def _each(batch: int, *arrays: Array) -> list[tuple[Array, ...]]:
    return [arrays] if batch == 0 else list(zip(*arrays, strict=True))


def least_squares(generator: np.random.Generator, n: int, dtype: torch.dtype) -> Objective:
    batch, m = _batch(generator), int(generator.integers(1, 16))
    A = _stacked(generator, batch, lambda: draw_scale(generator) * draw_matrix(generator, m, n))
    b = _stacked(generator, batch, lambda: draw_scale(generator) * generator.standard_normal(m))
    ridge = 0.0 if generator.random() < 0.7 else draw_scale(generator)
    (A_t, A), (b_t, b) = _rounded(A, dtype), _rounded(b, dtype)
    ridge = float(torch.tensor(ridge, dtype=dtype))
    looks = [look_least_squares(one, right, ridge) for one, right in _each(batch, A, b)]
    matrix: Any = A_t
    if batch == 0 and dtype == torch.float64 and generator.random() < 0.3:
        matrix = list(forms(A_t).values())[int(generator.integers(5))]
    return Objective(
        "LeastSquares", fwnet.LeastSquares(matrix, b_t, ridge), looks, m + n, batch > 0
    )


def quadratic(generator: np.random.Generator, n: int, dtype: torch.dtype) -> Objective:
    batch = _batch(generator)
    kind = generator.integers(4)  # 0: linear

    def make() -> Array:
        if kind == 0:
            return np.zeros((n, n))
        rank = int(generator.integers(1, n + 1))
        root = draw_scale(generator, 6.0) * draw_matrix(generator, n, rank)
        K = root @ root.T
        return (K + K.T) / 2

    K = _stacked(generator, batch, make)
    c = _stacked(generator, batch, lambda: draw_scale(generator) * generator.standard_normal(n))
    (K_t, K), (c_t, c) = _rounded(K, dtype), _rounded(c, dtype)
    looks = [look_quadratic(one, cost, np.abs(one)) for one, cost in _each(batch, K, c)]
    # Rounded to float32 a matrix of low rank has small negative eigenvalues.
    return Objective(
        "linear" if kind == 0 else "Quadratic",
        fwnet.Quadratic(K_t, c_t),
        looks,
        2 * n,
        batch > 0,
        convex=kind == 0,
    )


def svm(generator: np.random.Generator, n: int, dtype: torch.dtype) -> Objective:
    batch, d = _batch(generator), int(generator.integers(1, 6))
    X = _stacked(
        generator, batch, lambda: draw_scale(generator, 6.0) * draw_matrix(generator, n, d)
    )
    y = np.where(generator.random(X.shape[:-1]) < 0.5, -1.0, 1.0)
    C = draw_scale(generator, 6.0)
    (X_t, X), y_t = _rounded(X, dtype), _tensor(y, dtype)
    looks = []
    for points, sides in _each(batch, X, y):
        A = (sides[:, None] * np.column_stack([points, np.ones(n)])).T
        looks.append(look_least_squares(A, np.zeros(d + 1), 1 / C))
    if generator.random() < 0.5:
        return Objective(
            "SVMDual-features", fwnet.SVMDual(y=y_t, features=X_t, C=C), looks, n + d, batch > 0
        )
    K_t = X_t @ X_t.mT
    K_t = (K_t + K_t.mT) / 2
    looks = [
        look_quadratic(
            np.outer(sides, sides) * (gram + 1) + np.eye(n) / C,
            np.zeros(n),
            np.abs(gram) + 1 + np.eye(n) / C,
        )
        for gram, sides in _each(batch, K_t.double().numpy(), y)
    ]
    return Objective(
        "SVMDual-kernel", fwnet.SVMDual(K_t, y_t, C=C), looks, 2 * n, batch > 0, convex=False
    )


def logistic(generator: np.random.Generator, n: int, dtype: torch.dtype) -> Objective:
    batch, m = _batch(generator), int(generator.integers(1, 16))
    X = _stacked(
        generator, batch, lambda: draw_scale(generator, 3.0) * draw_matrix(generator, m, n)
    )
    y = np.where(generator.random(X.shape[:-1]) < 0.5, -1.0, 1.0)
    (X_t, X), y_t = _rounded(X, dtype), _tensor(y, dtype)
    looks = [look_logistic(one, sides) for one, sides in _each(batch, X, y)]
    return Objective(
        "LogisticRegression", fwnet.LogisticRegression(X_t, y_t), looks, m + n, batch > 0
    )


# Any shape --------------------------------------------------------------------------------------


def look_distance(p: Array, weight: float) -> Look_at:
    def look(x: Array) -> Look:
        r, size = x - p, np.abs(x) + np.abs(p)
        return Look(
            0.5 * weight * float((r * r).sum()),
            weight * r,
            0.5 * weight * float((size * size).sum()),
            weight * size,
        )

    return look


def look_linear(c: Array) -> Look_at:
    return lambda x: Look(
        float((c * x).sum()), c, float(np.abs(c * x).sum()), np.abs(c).astype(np.float64)
    )


def _cost(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if len(shape) == 2 and generator.random() < 0.8:
        return draw_spectrum(generator, *shape)
    return generator.standard_normal(shape)


def distance(generator: np.random.Generator, place: Set, dtype: torch.dtype) -> Objective:
    """½ w |x − p|², p near the set or far away."""
    batch = _batch(generator)

    def point() -> Array:
        return place.reach * draw_scale(generator, 3.0) * _cost(generator, place.shape)

    p_t, p = _rounded(_stacked(generator, batch, point), dtype)
    weight = float(torch.tensor(draw_scale(generator, 6.0), dtype=dtype))
    dims = tuple(range(-len(place.shape), 0))

    def f(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * weight * (x - p_t).square().sum(dims)

    targets = tuple(one for (one,) in _each(batch, p))
    looks = [look_distance(one, weight) for one in targets]
    terms = int(np.prod(place.shape))
    given = (lambda x: weight * (x - p_t)) if generator.random() < 0.5 else None
    problem: Any = fwnet.Function(f, given, batched=batch > 0)
    if batch == 0 and given is None and generator.random() < 0.5:
        problem = f
    if batch == 0 and len(place.shape) == 2 and generator.random() < 0.4 and weight == 1.0:
        rows, cols = (torch.from_numpy(i) for i in np.indices(place.shape).reshape(2, -1))
        problem = fwnet.MatrixCompletion(rows, cols, p_t.flatten(), place.shape)
    return Objective("distance", problem, looks, terms, batch > 0, targets=targets)


def linear(generator: np.random.Generator, place: Set, dtype: torch.dtype) -> Objective:
    batch = _batch(generator)
    costs = _stacked(
        generator, batch, lambda: draw_scale(generator) * _cost(generator, place.shape)
    )
    c_t, c = _rounded(costs, dtype)
    dims = tuple(range(-len(place.shape), 0))
    problem = fwnet.Function(lambda x: (c_t * x).sum(dims), batched=batch > 0)
    looks = [look_linear(one) for (one,) in _each(batch, c)]
    return Objective("linear", problem, looks, int(np.prod(place.shape)), batch > 0)


def look_softmax(X: Array, y: Array, m: int) -> Look_at:
    n = len(y)

    def look(W: Array) -> Look:
        Z, size = X @ W, np.abs(X) @ np.abs(W)
        logs = Z - np.logaddexp.reduce(Z, 1)[:, None]
        errors = np.exp(logs)
        errors[np.arange(n), y] -= 1.0
        most = 1.0 + size.max(1)  # an error e of the logits moves the chances by at most e
        return Look(
            -float(logs[np.arange(n), y].mean()),
            X.T @ errors / n,
            float((2.0 * most + np.log(m)).mean()),
            np.abs(X).T @ (np.abs(errors) + 2.0 * most[:, None] * np.exp(logs) + 1e-300) / n,
        )

    return look


def softmax(generator: np.random.Generator, place: Set, dtype: torch.dtype) -> Objective:
    batch, (d, m), n = _batch(generator), place.shape, int(generator.integers(1, 20))
    X = _stacked(
        generator, batch, lambda: draw_scale(generator, 3.0) * draw_matrix(generator, n, d)
    )
    X_t, X = _rounded(X, dtype)
    y = generator.integers(0, m, X.shape[:-1])
    looks = [look_softmax(one, classes, m) for one, classes in _each(batch, X, y)]
    problem = fwnet.SoftmaxRegression(X_t, torch.from_numpy(y), m)
    return Objective("SoftmaxRegression", problem, looks, d + m + n, batch > 0)


def completion(generator: np.random.Generator, place: Set, dtype: torch.dtype) -> Objective:
    (d, m), seen = place.shape, int(generator.integers(1, 60))
    rows, cols = generator.integers(0, d, seen), generator.integers(0, m, seen)
    scale = place.reach * draw_scale(generator, 6.0)
    values_t, values = _rounded(scale * generator.standard_normal(seen), dtype)

    def look(W: Array) -> Look:
        r, size = W[rows, cols] - values, np.abs(W[rows, cols]) + np.abs(values)
        gradient, gradient_size = np.zeros((d, m)), np.zeros((d, m))
        np.add.at(gradient, (rows, cols), r)
        np.add.at(gradient_size, (rows, cols), size)
        return Look(0.5 * r @ r, gradient, 0.5 * size @ size, gradient_size)

    problem = fwnet.MatrixCompletion(
        torch.from_numpy(rows), torch.from_numpy(cols), values_t, place.shape
    )
    return Objective("MatrixCompletion", problem, [look], d + m + seen)


def known(case: ProblemCase) -> Objective:
    """One of the problems that the tests of `fwnet.problems` keep; f is in plain torch there.

    Their data have at most 9 · 8 entries below 5 (a Gram matrix: below 80), so that the sums over
    absolute values are at most as below.
    """

    def look_at(index: int) -> Look_at:
        def look(x: Array) -> Look:
            point = torch.from_numpy(x).requires_grad_()
            whole = torch.stack([point] * 3) if case.batched else point
            value = case.value(whole)
            value = value[index] if case.batched else value
            (gradient,) = torch.autograd.grad(value, point)
            most = float(np.abs(x).max())
            size = 9 * 5.0 * (8 * 5.0 * most + 5.0) + 8 * 80.0 * most
            return Look(
                float(value.detach()),
                gradient.numpy(),
                8 * size * (most + 1.0),
                np.full(x.shape, size),
            )

        return look

    count = 3 if case.batched else 1
    return Objective(case.name, case.problem, [look_at(k) for k in range(count)], 40, case.batched)


def draw_objective(generator: np.random.Generator, place: Set, dtype: torch.dtype) -> Objective:
    """A random objective on the points of a set."""
    shape = place.shape
    if dtype == torch.float64 and generator.random() < 0.3:
        fitting = [case for case in problems() if case.point == shape]
        if fitting:
            return known(fitting[int(generator.integers(len(fitting)))])
    if generator.random() < 0.4:
        return (linear if generator.random() < 0.4 else distance)(generator, place, dtype)
    if len(shape) == 1:
        kinds = (least_squares, quadratic, svm, logistic)
        return kinds[int(generator.integers(4))](generator, shape[0], dtype)
    return (softmax if generator.random() < 0.4 else completion)(generator, place, dtype)
