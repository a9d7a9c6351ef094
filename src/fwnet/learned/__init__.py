"""Learned conditional gradients: slots with weights, their training, their files."""

from fwnet.learned import baselines, families
from fwnet.learned.evaluate import evaluate
from fwnet.learned.evaluation import Cost, Evaluation
from fwnet.learned.families import LogUniform, ProblemFamily

__all__ = [
    "Cost",
    "Evaluation",
    "LogUniform",
    "ProblemFamily",
    "baselines",
    "evaluate",
    "families",
]
