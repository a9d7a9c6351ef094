"""Derivatives by a layer beside those of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray
F64 = torch.float64
STEP = 1e-5
_BETWEEN = [(np.cos(angle), np.sin(angle)) for angle in np.pi / 16 * np.arange(1, 16)]


class Difference(NamedTuple):
    """A derivative by a layer, by the reference, and the size beside which they must agree."""

    given: float
    wanted: float
    size: float
    text: str

    def failure(self, tolerance: float = 1e-5) -> str | None:
        if np.isfinite(self.given) and abs(self.given - self.wanted) <= tolerance * self.size:
            return None
        return (
            f"wrong gradient: {self.given!r} along a direction, but it is {self.wanted!r} "
            f"[{self.text}]"
        )


def tensors(*arrays: Array) -> list[Tensor]:
    return [torch.from_numpy(np.array(a)).requires_grad_() for a in arrays]


def slope(leaves: list[Tensor], ways: list[Array], out: Tensor) -> float:
    """Σ ⟨∂out/∂leaf, way⟩."""
    gradients = torch.autograd.grad(out, leaves)
    return float(sum((g * torch.from_numpy(w)).sum() for g, w in zip(gradients, ways, strict=True)))


def along_a_line(network: Callable[[Tensor], Tensor], text: str) -> Difference | None:
    """The derivative of network(t), t `(2,)`, along the first axis at t = 0.

    None at a kink, or where f itself is rounding: where differences over two lengths, or to either
    side, disagree, or where those along both axes do not add up to those between the axes. There a
    derivative must be a number, no more. So it must where formulas meet in one point only, as those
    of relu(t) − relu(−t) do: right at all points around it.
    """

    step = 1e-6

    def derivative(*place: float) -> float:
        t = torch.tensor(place, dtype=F64, requires_grad=True)
        out = network(t)
        return float(torch.autograd.grad(out, t)[0][0]) if out.requires_grad else 0.0

    given = derivative(0.0, 0.0)

    def value(*place: float) -> float:
        with torch.no_grad():
            return float(network(step * torch.tensor(place, dtype=F64)))

    ends = [value(k, 0.0) for k in (-10, -1, 0, 1, 10)]
    near, far = (ends[3] - ends[1]) / (2 * step), (ends[4] - ends[0]) / (20 * step)
    left, right = (ends[2] - ends[1]) / step, (ends[3] - ends[2]) / step
    size = max(1.0, abs(near))
    found = Difference(given, near, size, text)
    kink = abs(near - far) > 3e-6 * size or abs(right - left) > 1e-4 * size
    if not kink and found.failure() is not None:  # steps from an exact minimum: 0/0, but odd in t
        other = (value(0.0, 1.0) - value(0.0, -1.0)) / (2 * step)
        for a, b in _BETWEEN:
            both = (value(a, b) - value(-a, -b)) / (2 * step)
            kink |= abs(both - a * near - b * other) > 1e-4 * max(size, abs(both), abs(other))
        around = (derivative(step * a, step * b) for a, b in _BETWEEN[::5])
        kink |= all(abs(one - near) <= 1e-4 * size for one in around)
    if kink:
        failed = Difference(given, near, 1.0, f"at a kink: {text}")
        return None if np.isfinite(given) else failed
    return found
