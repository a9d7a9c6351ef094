"""Learned conditional gradients: slots with weights, their training, their files."""

from fwnet.learned import families
from fwnet.learned.checkpoints import available, load, save
from fwnet.learned.controllers import (
    Controller,
    L2LLagrangian,
    L2LSoftmax,
    LearnedDirection,
    LearnedStep,
    LearnedTraceNorm,
    LSTMDirection,
    LSTMPowerIteration,
    LSTMStep,
)
from fwnet.learned.families import LogUniform, ProblemFamily
from fwnet.learned.meta_gradients import Backpropagation, EvolutionStrategies, PersistentES
from fwnet.learned.meta_losses import LogSuboptimality, SumOfValues
from fwnet.learned.meta_runs import MetaHistory, MetaRecord
from fwnet.learned.meta_train import MetaConfig, meta_train

__all__ = [
    "Backpropagation",
    "Controller",
    "EvolutionStrategies",
    "L2LLagrangian",
    "L2LSoftmax",
    "LSTMDirection",
    "LSTMPowerIteration",
    "LSTMStep",
    "LearnedDirection",
    "LearnedStep",
    "LearnedTraceNorm",
    "LogSuboptimality",
    "LogUniform",
    "MetaConfig",
    "MetaHistory",
    "MetaRecord",
    "PersistentES",
    "ProblemFamily",
    "SumOfValues",
    "available",
    "families",
    "load",
    "meta_train",
    "save",
]
