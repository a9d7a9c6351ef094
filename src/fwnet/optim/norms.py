"""Balls whose radius follows the shape of a layer: `spectral`, `sign`, `row`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from fwnet.domains import L2Ball, LInfBall, NormBall, RowBall, SpectralBall
from fwnet.numerics import checks

_NAMES = ("spectral", "sign", "row")


@final
@dataclass(frozen=True)
class OperatorNorm:
    """A ball for each layer, from its shape; made by `spectral`, `sign` and `row`.

    Arguments:
        name: of the norm.
        radius: how much a layer may stretch its input; one number suits layers of all sizes.

    Example:
        >>> from fwnet.optim import OperatorNorm, spectral
        >>> spectral(3.0)
        OperatorNorm(name='spectral', radius=3.0)
        >>> isinstance(spectral(3.0), OperatorNorm)
        True
    """

    name: str
    radius: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise ValueError(
                f"OperatorNorm(name=...) must be one of {', '.join(_NAMES)}; got {self.name!r}."
            )
        checks.positive(f"{self.name}(radius=...)", self.radius)

    def ball(self, shape: tuple[int, ...]) -> NormBall:
        """The ball for a parameter of shape (outputs, *inputs), or for a bias, by its RMS."""
        if len(shape) < 2:
            bias = math.sqrt(math.prod(shape))
            return LInfBall(self.radius) if self.name == "sign" else L2Ball(self.radius * bias)
        inputs = math.prod(shape[1:])
        if self.name == "spectral":
            return SpectralBall(self.radius * math.sqrt(shape[0] / inputs))
        if self.name == "sign":
            return LInfBall(self.radius / inputs)
        return RowBall(self.radius / math.sqrt(inputs))


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
