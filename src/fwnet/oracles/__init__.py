"""How the domain is asked for a vertex: exactly, softly, iteratively, lazily, in blocks."""

from fwnet.oracles.base import Answer, CostOracle, Exact, Linearization, Oracle, certify, linearize
from fwnet.oracles.blocks import Blocks
from fwnet.oracles.lazy import Lazy
from fwnet.oracles.newton_schulz import NewtonSchulz
from fwnet.oracles.power_iteration import PowerIteration
from fwnet.oracles.soft_trace_norm import SoftTraceNorm
from fwnet.oracles.softmin import Softmin
from fwnet.oracles.stochastic import Stochastic

__all__ = [
    "Answer",
    "Blocks",
    "CostOracle",
    "Exact",
    "Lazy",
    "Linearization",
    "NewtonSchulz",
    "Oracle",
    "PowerIteration",
    "SoftTraceNorm",
    "Softmin",
    "Stochastic",
    "certify",
    "linearize",
]
