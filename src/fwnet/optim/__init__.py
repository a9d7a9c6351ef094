"""torch optimizers that keep layers inside convex sets."""

from fwnet.optim.conditional_gradient import ConditionalGradient
from fwnet.optim.constrain import constrain
from fwnet.optim.frank_wolfe import FrankWolfe
from fwnet.optim.layouts import Layout, columns, rows, stack, whole
from fwnet.optim.norms import OperatorNorm, row, sign, spectral

__all__ = [
    "ConditionalGradient",
    "FrankWolfe",
    "Layout",
    "OperatorNorm",
    "columns",
    "constrain",
    "row",
    "rows",
    "sign",
    "spectral",
    "stack",
    "whole",
]
