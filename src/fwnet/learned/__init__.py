"""Learned conditional gradients: slots with weights, their training, their files."""

from fwnet.learned import families
from fwnet.learned.families import LogUniform, ProblemFamily

__all__ = ["LogUniform", "ProblemFamily", "families"]
