"""Low-rank fits: W = U diag(s) Vᵀ is in the ball, and its gap is the one that is reported."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from fwnet import distributed
from fwnet.estimators import (
    LowRankCompletion,
    LowRankRegressor,
    LowRankSoftmaxClassifier,
    LowRankSoftmaxClassifierCV,
)
from laws.coverage import note
from laws.fits import Array, draw_points, fitted, two_sides


def trace_norm_verdict(
    model: Any, W: Array, look: Callable[[Array], tuple[Any, Array]], size: float, text: str
) -> str | None:
    """`size` bounds the absolute sums behind an entry of G, times max(W, radius)."""
    eps = float(np.finfo(getattr(model, "dtype", model.s_.dtype)).eps)
    radius, k = model.radius_, 4 * sum(W.shape) + 50
    norm = float(np.linalg.svd(W.astype(np.float64), compute_uv=False).sum())
    if norm > radius * (1 + k * eps):
        return f"infeasible: ‖W‖_* = {norm!r} > radius = {radius!r} [{text}]"
    value, G = look(W)
    zero, _ = look(0 * W)
    sigma = float(np.linalg.norm(G.astype(np.float64), 2))
    gap = float((G * W).sum()) + radius * sigma
    rounding = k * eps * size * radius
    if model.duality_gap_ < gap - rounding:
        return (
            f"false certificate: duality_gap_ {model.duality_gap_:.6g}, but it is {gap:.6g} "
            f"(rounding {rounding:.3g}) [{text}]"
        )
    if hasattr(model, "value_") and abs(model.value_ - float(value)) > rounding + k * eps * abs(
        float(zero) + float(value)
    ):
        return f"other: value_ {model.value_!r}, but f(W) = {float(value)!r} [{text}]"
    if getattr(model, "status_", "") != "converged":
        return None
    allowed = model.tol * max(float(value), float(zero) / 1000)
    if gap > allowed + rounding:
        return f"false certificate: converged at a gap of {gap:.6g} > {allowed:.6g} [{text}]"
    return None


def with_ones(X: Array, wanted: bool) -> Array:
    return np.column_stack([X, np.ones(len(X))]) if wanted else X


def weights_of(model: Any) -> Array:
    U_, s, V = (np.asarray(x, dtype=np.longdouble) for x in (model.U_, model.s_, model.V_))
    return (U_ * s) @ V.T


def draw_budget(generator: np.random.Generator) -> dict[str, Any]:
    return {
        "radius": float(10.0 ** generator.uniform(-2, 2)),
        "tol": float(generator.choice([1e-2, 1e-3, 1e-5])),
        "max_iter": int(generator.choice([1, 20, 300])),
    }


def attack_softmax(generator: np.random.Generator) -> str | None:
    points = draw_points(generator)
    classes = int(generator.integers(2, 5)) if len(points.y) > 8 else 2
    labels = two_sides(generator, points.y, classes)
    budget, intercept = draw_budget(generator), bool(generator.random() < 0.5)
    dtype = np.float64 if generator.random() < 0.7 else np.float32
    X = points.X.astype(dtype)
    text = f"{budget}, intercept {intercept}, {dtype.__name__}, {points.text}"
    if generator.random() < 0.1 and len(labels) >= 4 * classes:
        del budget["radius"]
        model: Any = LowRankSoftmaxClassifierCV(3, cv=2, fit_intercept=intercept, **budget)
    else:
        model = LowRankSoftmaxClassifier(fit_intercept=intercept, **budget)
    model, _, _ = fitted(model, X, labels)
    note(estimator=type(model).__name__, dtype=dtype.__name__)
    rows = with_ones(X.astype(np.longdouble), intercept)
    return softmax_verdict(model, rows, labels, f"{type(model).__name__} {text}")


def softmax_verdict(model: Any, rows: Array, labels: Array, text: str) -> str | None:
    n = len(labels)

    def look(W: Array) -> tuple[Any, Array]:
        Z = rows @ W
        top = Z.max(1, keepdims=True)
        logs = Z - top - np.log(np.exp(Z - top).sum(1, keepdims=True))
        errors = np.exp(logs)
        errors[np.arange(n), labels] -= 1
        return -logs[np.arange(n), labels].mean(), rows.T @ errors / n

    longest = float(np.sqrt((rows**2).sum(1)).max())
    size = 2 * longest * (1 + longest * model.radius_)  # an error of the logits moves the chances
    return trace_norm_verdict(model, weights_of(model), look, size, text)


def attack_distributed(generator: np.random.Generator) -> str | None:
    """`distributed.fit` of shards, dense or sparse, by one worker."""
    points = draw_points(generator, 80)
    classes = int(generator.integers(2, 5)) if len(points.y) > 8 else 2
    labels = two_sides(generator, points.y, classes)
    dtype = np.float64 if generator.random() < 0.6 else np.float32
    X, sparse = points.X.astype(dtype), bool(generator.random() < 0.3)
    config = distributed.FitConfig(
        classes,
        float(10.0 ** generator.uniform(-2, 2)),
        max_steps=int(generator.choice([1, 5, 60])),
        tol=float(generator.choice([1e-1, 1e-2])),
        checkpoint_every=int(generator.choice([1, 10])),
        block=16,
    )
    note(estimator="distributed.fit", dtype=dtype.__name__)
    text = f"{config}, {dtype.__name__}{', sparse' * sparse}, {points.text}"
    with tempfile.TemporaryDirectory() as place:
        rows = csr_matrix(X) if sparse else X
        data = distributed.write_shards(Path(place) / "data", rows, labels, rows=20)
        distributed.fit(data, Path(place) / "out", config)
        found = distributed.load_model(Path(place) / "out")
    U, s, V = (x.numpy() for x in (found.U, found.s, found.V))
    model = SimpleNamespace(
        U_=U,
        s_=s,
        V_=V,
        radius_=found.radius,
        duality_gap_=found.gap,
        value_=found.value,
        dtype=dtype,  # of the sums; the factors are kept in float64
    )
    return softmax_verdict(model, X.astype(np.longdouble), labels, text)


def attack_regression(generator: np.random.Generator) -> str | None:
    points = draw_points(generator)
    budget, intercept = draw_budget(generator), bool(generator.random() < 0.5)
    outputs = int(generator.integers(1, 5))
    Y = points.y[:, None] * generator.standard_normal(outputs)
    Y = Y + 0.1 * generator.standard_normal(Y.shape) + generator.choice([0.0, 1e3])
    text = f"LowRankRegressor {budget}, intercept {intercept}, {outputs} outputs, {points.text}"
    note(estimator="LowRankRegressor")
    model, _, _ = fitted(LowRankRegressor(fit_intercept=intercept, **budget), points.X, Y)
    rows = with_ones(points.X.astype(np.longdouble), intercept)
    targets = Y.astype(np.longdouble) - model.offset_.astype(np.longdouble)

    def look(W: Array) -> tuple[Any, Array]:
        R = rows @ W - targets
        return (R * R).sum() / (2 * len(R)), rows.T @ R / len(R)

    longest = float(np.sqrt((rows**2).sum(1)).max())
    most = float(np.sqrt((targets**2).sum(1)).max()) + float(np.abs(Y).max())
    size = longest * (longest * model.radius_ + most) + most**2 / model.radius_
    return trace_norm_verdict(model, weights_of(model), look, size, text)


def attack_completion(generator: np.random.Generator) -> str | None:
    d, m = (int(s) for s in generator.integers(1, 25, 2))
    seen = int(generator.integers(1, 80))
    pairs = np.column_stack([generator.integers(0, d, seen), generator.integers(0, m, seen)])
    scale = 10.0 ** generator.choice([-6, 0, 0, 6])
    y = scale * (generator.standard_normal(seen) + generator.choice([0, 0, 1e4]))
    budget = draw_budget(generator)
    budget["radius"] *= scale
    text = f"LowRankCompletion {budget}, {d}x{m}, {seen} seen, scale {scale:g}"
    note(estimator="LowRankCompletion")
    model, _, _ = fitted(LowRankCompletion(shape=(d, m), **budget), pairs, y)
    centred = (y - model.mean_).astype(np.longdouble)
    rows, cols = pairs.T

    def look(W: Array) -> tuple[Any, Array]:
        r = W[rows, cols] - centred
        G = np.zeros(W.shape, dtype=np.longdouble)
        np.add.at(G, (rows, cols), r)
        return (r * r).sum() / 2, G

    most = float(np.abs(y).max()) + abs(model.mean_)
    size = np.sqrt(seen) * (model.radius_ + most) + seen * most**2 / model.radius_
    return trace_norm_verdict(model, weights_of(model), look, size, text)


LOW_RANK = (attack_softmax, attack_regression, attack_completion, attack_distributed)


def attack_low_rank(generator: np.random.Generator) -> str | None:
    """gap = ⟨G, W⟩ + radius · σ₁(G) at W = U diag(s) Vᵀ, ‖W‖_* <= radius."""
    return LOW_RANK[int(generator.integers(len(LOW_RANK)))](generator)
