"""Drawn points for estimators, and fits that may warn or refuse."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Points:
    X: Array
    y: Array  # a number each
    text: str
    pixels: bool = False


def draw_points(generator: np.random.Generator, most: int = 40) -> Points:
    """Offset, scaled, duplicated, tiny, of one feature; separable, noisy."""
    kind = generator.random()
    n = int(generator.integers(2, 8) if kind < 0.2 else generator.integers(8, most + 1))
    d = 1 if generator.random() < 0.25 else int(generator.integers(1, 7))
    X = generator.standard_normal((n, d))
    y = X @ generator.standard_normal(d)
    if generator.random() < 0.5:
        y = y + generator.choice([0.1, 1.0, 10.0]) * generator.standard_normal(n)
    text = f"n={n}, d={d}"
    if generator.random() < 0.2:
        chosen = generator.integers(0, max(1, n // 2), n)
        X, y, text = (
            X[chosen],
            y[chosen] + 0.1 * generator.standard_normal(n),
            text + ", duplicated",
        )
    if generator.random() < 0.3:
        scale = 10.0 ** generator.uniform(-6, 6, d if generator.random() < 0.5 else 1)
        X, text = X * scale, text + f", scaled by {scale.min():.2g} to {scale.max():.2g}"
    if generator.random() < 0.4:
        offset = 10.0 ** generator.uniform(3, 8)
        X, text = X + offset, text + f", offset {offset:.3g}"
    return Points(X, y, text)


def draw_pixels(generator: np.random.Generator) -> Points:
    """So many points on at most 256 levels that their kernel values come from 8-bit integers."""
    n, d = int(generator.integers(520, 700)), int(generator.integers(33, 65))
    most = int(generator.choice([1, 15, 255]))
    whole = generator.integers(0, most + 1, (n, d))
    if generator.random() < 0.5:  # near each other, so that kernel values of all sizes occur
        whole[n // 2 :, 3:] = whole[: n - n // 2, 3:]
    y = whole @ generator.standard_normal(d) / most
    y = y + generator.choice([0.0, 1.0]) * generator.standard_normal(n)
    step, offset = 10.0 ** generator.uniform(-6, 6), generator.choice([0.0, -0.5, 1e3])
    X = (whole / most + offset) * step
    single = generator.random() < 0.5
    if single:  # off the grid by the rounding of float32
        X = X.astype(np.float32).astype(np.float64)
    text = f"pixels, n={n}, d={d}, {most + 1} levels, step {step:.2g}, offset {offset:g}"
    return Points(X, y, text + (", single" if single else ""), pixels=True)


def two_sides(generator: np.random.Generator, y: Array, classes: int) -> Array:
    """Labels from numbers, every class present."""
    order = np.argsort(np.argsort(y))
    labels = order * classes // len(y)
    return labels if len(np.unique(labels)) == classes else order % classes


def fitted(model: Any, *data: Any, **more: Any) -> tuple[Any, bool, str | None]:
    """The model, whether it warned that its gap is above tol, and an honest refusal if any.

    Points that double precision cannot hold apart are refused with advice to scale them.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(*data, **more)
        except ValueError as error:
            text = str(error)
            if "cale" in text or "semi-definite" in text or "double precision" in text:
                return model, False, text
            raise
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return model, warned, None
