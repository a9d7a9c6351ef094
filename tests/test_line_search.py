"""The root of an increasing slope, beside SciPy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import bisect
from torch import Tensor

from fwnet.numerics.line_search import batched_root, scalar_root

Slope = Callable[[Tensor], Tensor]
KINKS = torch.tensor([0.02, 0.3, 0.31, 0.7, 4.0], dtype=torch.float64)
SLOPES: dict[str, Slope] = {
    "line": lambda t: 3 * t - 1,
    "kinks": lambda t: (t[..., None] - KINKS).clamp_min(0).sum(-1) * 50 + 0.01 * t - 1,
    "jump": lambda t: torch.where(t < 0.6, -1.0, 2.0) + 0.1 * t,
    "steep": lambda t: torch.exp(40 * t) - 1e9,
    "flat": lambda t: (t - 0.3) ** 9,
    "logistic": lambda t: torch.sigmoid(200 * (t - 0.8)) - 0.01,
    "tiny": lambda t: 1e-200 * (t - 0.123),
    "near 0": lambda t: t - 1e-9,
    "near 1": lambda t: t - (1 - 1e-9),
    "at 0": lambda t: t + 1.0,
    "at 1": lambda t: t - 2.0,
    "not finite": lambda t: torch.where(t > 0.9, torch.nan, t - 0.5),
}


def at(slope: Slope, t: float) -> float:
    return float(slope(torch.tensor(t, dtype=torch.float64)))


def scalar(slope: Slope, derivative: bool) -> Callable[[float], tuple[float, float | None]]:
    def slope_at(t: float) -> tuple[float, float | None]:
        x = torch.tensor(t, dtype=torch.float64, requires_grad=True)
        value = slope(x)
        return float(value.detach()), float(
            torch.autograd.grad(value, x)[0]
        ) if derivative else None

    return slope_at


def batched(slopes: list[Slope], derivative: bool) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def slope_at(t: Tensor) -> tuple[Tensor, Tensor | None]:
        parts = [scalar(slope, derivative)(float(s)) for slope, s in zip(slopes, t, strict=True)]
        values, derivatives = zip(*parts, strict=True)
        found = torch.tensor(values, dtype=torch.float64)
        return found, torch.tensor(derivatives, dtype=torch.float64) if derivative else None

    return slope_at  # type: ignore[return-value]


def root(slope: Slope) -> float:
    if at(slope, 0.0) >= 0:
        return 0.0
    if at(slope, 1.0) <= 0:
        return 1.0
    top = 1.0 if math.isfinite(at(slope, 1.0)) else 0.9
    return float(bisect(lambda t: at(slope, t), 0.0, top, xtol=1e-15))


@pytest.mark.parametrize("derivative", [True, False])
@pytest.mark.parametrize("name", SLOPES)
def test_one_root(name: str, derivative: bool) -> None:
    slope, slope_at = SLOPES[name], scalar(SLOPES[name], derivative)
    start, end = at(slope, 0.0), at(slope, 1.0)
    found = scalar_root(slope_at, start, 1.0, 0.0, end=end, evaluations=200)
    # (t − 0.3)⁹ is below the smallest difference that its root can be seen from.
    assert found == pytest.approx(root(slope), rel=0.05 if name == "flat" else 1e-9)
    if 0 < found < 1:
        for guess in (1e-3, 0.5, 1.0):
            again = scalar_root(slope_at, start, np.inf, 0.0, guess=guess, evaluations=200)
            assert again == pytest.approx(root(slope), rel=0.05 if name == "flat" else 1e-9)


@pytest.mark.parametrize("derivative", [True, False])
def test_a_batch_of_roots(derivative: bool) -> None:
    slopes = list(SLOPES.values())
    zero, one = (torch.full((len(slopes),), t, dtype=torch.float64) for t in (0.0, 1.0))
    slope_at = batched(slopes, derivative)
    start, end = slope_at(zero)[0], slope_at(one)[0]
    wanted = torch.tensor([root(slope) for slope in slopes], dtype=torch.float64)
    found, inside = batched_root(slope_at, start, one, 1e-14 * start.abs(), end=end, evaluations=99)
    near = torch.tensor([0.05 if name == "flat" else 1e-9 for name in SLOPES])
    assert bool(((found - wanted).abs() <= near * wanted + 1e-14).all())  # 1e-14: the goal
    assert torch.equal(inside, (wanted > 0) & (wanted < 1))
    far = torch.full_like(one, torch.inf)
    open_, _ = batched_root(
        slope_at, start, far, 1e-14 * start.abs(), guess=0.2 * one, evaluations=99
    )
    assert bool(((open_ - wanted).abs() <= near * wanted + 1e-14)[inside].all())


@pytest.mark.parametrize("evaluations", [1, 2, 5])
def test_few_evaluations_end_where_nothing_rose(evaluations: int) -> None:
    for slope in SLOPES.values():
        slope_at, start, end = scalar(slope, True), at(slope, 0.0), at(slope, 1.0)
        found = scalar_root(slope_at, start, 1.0, 0.0, end=end, evaluations=evaluations)
        assert found == 0 or at(slope, found) <= 0


def test_newton_ends_on_a_straight_piece_at_once() -> None:
    calls: list[float] = []

    def slope_at(t: float) -> tuple[float, float]:
        calls.append(t)
        return 3.0 * t - 1.5, 3.0

    assert scalar_root(slope_at, -1.5, np.inf, 1e-12, guess=1.0) == pytest.approx(0.5, rel=1e-15)
    assert calls == [1.0, 0.5]
