"""The loop, and its named variants."""

from fwnet.solvers.frank_wolfe import FrankWolfe, Objective
from fwnet.solvers.loop import SlotStates
from fwnet.solvers.minimize import minimize
from fwnet.solvers.presets import (
    AwayFrankWolfe,
    BlendedPairwise,
    BlockCoordinateFrankWolfe,
    Corrective,
    LazyFrankWolfe,
    PairwiseFrankWolfe,
    StochasticFrankWolfe,
)

__all__ = [
    "AwayFrankWolfe",
    "BlendedPairwise",
    "BlockCoordinateFrankWolfe",
    "Corrective",
    "FrankWolfe",
    "LazyFrankWolfe",
    "Objective",
    "PairwiseFrankWolfe",
    "SlotStates",
    "StochasticFrankWolfe",
    "minimize",
]
