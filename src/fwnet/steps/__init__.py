"""How far: step rules, hand-designed; learned ones fill the same slot."""

from fwnet.steps.base import ByIndex, StepRule, as_rule
from fwnet.steps.line_search import LineSearch, OverRelaxed
from fwnet.steps.open_loop import Constant, LogOpenLoop, OpenLoop, Scheduled
from fwnet.steps.sufficient_decrease import Armijo, Backtracking, Monotonic, ShortStep

__all__ = [
    "Armijo",
    "Backtracking",
    "ByIndex",
    "Constant",
    "LineSearch",
    "LogOpenLoop",
    "Monotonic",
    "OpenLoop",
    "OverRelaxed",
    "Scheduled",
    "ShortStep",
    "StepRule",
    "as_rule",
]
