"""Balls whose radius follows the shape of a layer: `spectral`, `sign`, `row`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from fwnet.domains import L2Ball, LInfBall, NormBall, RowBall, SpectralBall
from fwnet.numerics import checks


def _rms_to_rms(outputs: int, inputs: int, radius: float) -> NormBall:
    return SpectralBall(radius * math.sqrt(outputs / inputs))


def _one_to_max(outputs: int, inputs: int, radius: float) -> NormBall:
    return LInfBall(radius / inputs)


def _rms_to_max(outputs: int, inputs: int, radius: float) -> NormBall:
    return RowBall(radius / math.sqrt(inputs))


_BALLS: dict[str, Callable[[int, int, float], NormBall]] = {
    "spectral": _rms_to_rms,
    "sign": _one_to_max,
    "row": _rms_to_max,
}


@final
@dataclass(frozen=True)
class OperatorNorm:
    """A ball for each layer, from its shape; made by `spectral`, `sign` and `row`.

    Arguments:
        name: of the norm.
        radius: how much a layer may stretch its input; one number suits layers of all sizes.
    """

    name: str
    radius: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in _BALLS:
            raise ValueError(
                f"OperatorNorm(name=...) must be one of {', '.join(_BALLS)}; got {self.name!r}."
            )
        checks.positive(f"{self.name}(radius=...)", self.radius)

    def ball(self, shape: tuple[int, ...]) -> NormBall:
        """The ball for a parameter of shape (outputs, *inputs), or for a bias, by its RMS."""
        if len(shape) < 2:
            size = math.prod(shape)
            small = LInfBall(self.radius) if self.name == "sign" else None
            return small or L2Ball(self.radius * math.sqrt(size))
        return _BALLS[self.name](shape[0], math.prod(shape[1:]), self.radius)


def spectral(radius: float = 1.0) -> OperatorNorm:
    """No input is stretched by more than `radius`, in root mean squares.

        {W : ‖W‖₂ <= radius · sqrt(outputs / inputs)},   vertex −radius · sqrt(outputs/inputs) U Vᵀ

    The usual choice for hidden layers. A bias has a root mean square of at most `radius`.

    Example:
        >>> from fwnet.optim import spectral
        >>> spectral(2.0).ball((64, 16))
        SpectralBall(radius=4.0)

    Reference: Pethick et al., Training Deep Learning Models with Norm-Constrained LMOs (2025).
    """
    return OperatorNorm("spectral", radius)


def sign(radius: float = 1.0) -> OperatorNorm:
    """Every entry is small.

        {W : max |W_ij| <= radius / inputs},   vertex −(radius / inputs) · sign(G)

    The usual choice for the last layer. A bias has entries of at most `radius`.

    Example:
        >>> from fwnet.optim import sign
        >>> sign(8.0).ball((10, 16))
        LInfBall(radius=0.5)
    """
    return OperatorNorm("sign", radius)


def row(radius: float = 1.0) -> OperatorNorm:
    """Every output is small.

        {W : |row_i|₂ <= radius / sqrt(inputs)},   vertex −(radius / sqrt(inputs)) · g_i / |g_i|

    A bias has a root mean square of at most `radius`.

    Example:
        >>> from fwnet.optim import row
        >>> row(2.0).ball((10, 16))
        RowBall(radius=0.5)
    """
    return OperatorNorm("row", radius)
