"""Slots with weights: learned step rules, directions and oracles."""

from fwnet.learned.controllers.atoms import LearnedAtoms
from fwnet.learned.controllers.base import Controller, Learned
from fwnet.learned.controllers.direction import LearnedDirection, LearnedPoint
from fwnet.learned.controllers.hierarchical import (
    HierarchicalDirection,
    HierarchicalL2L,
    HierarchicalRNN,
)
from fwnet.learned.controllers.l2l import L2LLagrangian, L2LSoftmax
from fwnet.learned.controllers.low_rank import LearnedLowRank
from fwnet.learned.controllers.lstm import LSTMDirection, LSTMPowerIteration, LSTMStep
from fwnet.learned.controllers.pairwise import LearnedPairwise
from fwnet.learned.controllers.power_iteration import LearnedPowerIteration
from fwnet.learned.controllers.slots import Slots
from fwnet.learned.controllers.start import LearnedStart
from fwnet.learned.controllers.step import LearnedStep
from fwnet.learned.controllers.trace_norm import LearnedTraceNorm

KINDS: dict[str, type[Controller]] = {  # what a file may build: every controller of this module
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, Controller) and kind is not Controller
}

__all__ = [
    "KINDS",
    "Controller",
    "HierarchicalDirection",
    "HierarchicalL2L",
    "HierarchicalRNN",
    "L2LLagrangian",
    "L2LSoftmax",
    "LSTMDirection",
    "LSTMPowerIteration",
    "LSTMStep",
    "Learned",
    "LearnedAtoms",
    "LearnedDirection",
    "LearnedLowRank",
    "LearnedPairwise",
    "LearnedPoint",
    "LearnedPowerIteration",
    "LearnedStart",
    "LearnedStep",
    "LearnedTraceNorm",
    "Slots",
]
