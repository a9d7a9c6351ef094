"""torch optimizers that keep layers inside convex sets."""

from fwnet.optim.conditional_gradient import ConditionalGradient
from fwnet.optim.constrain import constrain
from fwnet.optim.frank_wolfe import FrankWolfe
from fwnet.optim.norms import OperatorNorm, row, sign, spectral

__all__ = [
    "ConditionalGradient",
    "FrankWolfe",
    "OperatorNorm",
    "constrain",
    "row",
    "sign",
    "spectral",
]
