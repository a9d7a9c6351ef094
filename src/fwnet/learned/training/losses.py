"""What a controller is trained to minimise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.numerics import checks


class MetaLoss(ABC):
    """A number for a stretch of steps, the smaller the better.

    Attributes:
        needs_minimum: whether it looks at min f; if not, the minimum is never computed.
    """

    needs_minimum: ClassVar[bool] = True

    @property
    def least(self) -> float:
        """A lower bound of the loss, whatever the controller; minus infinity if none is known."""
        return -math.inf

    @abstractmethod
    def __call__(self, values: Tensor, first: Tensor, best: Tensor) -> Tensor:
        """The loss, `()`.

        Arguments:
            values: f after each step, `(steps, batch)`.
            first: f at the start, `(batch,)`.
            best: min f, `(batch,)`; NaN unless `needs_minimum`.
        """


@final
@dataclass(frozen=True)
class LogSuboptimality(MetaLoss):
    """Mean over steps and problems of the logarithm of the relative suboptimality.

        log10((f(x_t) − f*) / |f*| + floor)

    Every decade counts the same, at step 3 and at step 100. Where |f*| is less than a thousandth of
    f(x_0) − f*, that is the unit instead.

    Example:
        >>> from fwnet import learned
        >>> learned.MetaConfig(loss=learned.LogSuboptimality(floor=1e-4)).loss
        LogSuboptimality(floor=0.0001)
    """

    floor: float = 1e-5

    def __post_init__(self) -> None:
        checks.positive("LogSuboptimality(floor=...)", self.floor)

    @property
    def least(self) -> float:
        return math.log10(self.floor)

    def __call__(self, values: Tensor, first: Tensor, best: Tensor) -> Tensor:
        return (relative_suboptimality(values, first, best) + self.floor).log10().mean()


@final
@dataclass(frozen=True)
class SumOfValues(MetaLoss):
    """The paper's Σ_t f(x_t), mean over the problems: late steps hardly count.

    Example:
        >>> from fwnet import learned
        >>> learned.MetaConfig(loss=learned.SumOfValues()).loss
        SumOfValues()
    """

    needs_minimum: ClassVar[bool] = False

    def __call__(self, values: Tensor, first: Tensor, best: Tensor) -> Tensor:
        return values.sum(0).mean()


@final
@dataclass(frozen=True)
class FinalSuboptimality(MetaLoss):
    """The mean over problems of the relative suboptimality after the last step.

    (f(x_T) − f*) / |f*|, for a validation of what is judged at the end.

    Example:
        >>> from fwnet import learned
        >>> learned.MetaConfig(validation_loss=learned.FinalSuboptimality()).validation_loss
        FinalSuboptimality()
    """

    def __call__(self, values: Tensor, first: Tensor, best: Tensor) -> Tensor:
        return relative_suboptimality(values[-1], first, best).mean()


def relative_suboptimality(values: Tensor, first: Tensor, best: Tensor) -> Tensor:
    """(f − f*) / |f*|, not below 0; in units of (f(x_0) − f*) / 1000 where f* is nearly 0."""
    unit = torch.maximum(best.abs(), 1e-3 * (first - best))
    return (values - best).clamp_min(0) / unit.clamp_min(torch.finfo(best.dtype).tiny)
