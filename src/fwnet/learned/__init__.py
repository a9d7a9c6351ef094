"""Learned conditional gradients: slots with weights, their training, their files."""

from fwnet.learned import baselines, families, recurring, spectra
from fwnet.learned.checkpoints import available, load, save
from fwnet.learned.controllers import (
    Controller,
    HierarchicalDirection,
    HierarchicalL2L,
    L2LLagrangian,
    L2LSoftmax,
    LearnedAtoms,
    LearnedDirection,
    LearnedLowRank,
    LearnedPairwise,
    LearnedPowerIteration,
    LearnedStart,
    LearnedStep,
    LearnedTraceNorm,
    LSTMDirection,
    LSTMPowerIteration,
    LSTMStep,
    Slots,
)
from fwnet.learned.evaluation.evaluate import evaluate
from fwnet.learned.evaluation.results import Cost, Evaluation
from fwnet.learned.families import LogUniform, ProblemFamily
from fwnet.learned.hub import from_pretrained, push_to_hub
from fwnet.learned.networks import HierarchicalUpdates, LearnedUpdates, LSTMUpdates
from fwnet.learned.optimizer import Optimizer
from fwnet.learned.training.config import Cosine, Linear, MetaConfig
from fwnet.learned.training.gradients import (
    Backpropagation,
    EvolutionStrategies,
    PersistentES,
    Rollout,
)
from fwnet.learned.training.losses import FinalSuboptimality, LogSuboptimality, SumOfValues
from fwnet.learned.training.runs import MetaHistory, MetaRecord
from fwnet.learned.training.tasks import TrainingTask
from fwnet.learned.training.trainer import TrainingFailed, meta_train

__all__ = [
    "Backpropagation",
    "Controller",
    "Cosine",
    "Cost",
    "Evaluation",
    "EvolutionStrategies",
    "FinalSuboptimality",
    "HierarchicalDirection",
    "HierarchicalL2L",
    "HierarchicalUpdates",
    "L2LLagrangian",
    "L2LSoftmax",
    "LSTMDirection",
    "LSTMPowerIteration",
    "LSTMStep",
    "LSTMUpdates",
    "LearnedAtoms",
    "LearnedDirection",
    "LearnedLowRank",
    "LearnedPairwise",
    "LearnedPowerIteration",
    "LearnedStart",
    "LearnedStep",
    "LearnedTraceNorm",
    "LearnedUpdates",
    "Linear",
    "LogSuboptimality",
    "LogUniform",
    "MetaConfig",
    "MetaHistory",
    "MetaRecord",
    "Optimizer",
    "PersistentES",
    "ProblemFamily",
    "Rollout",
    "Slots",
    "SumOfValues",
    "TrainingFailed",
    "TrainingTask",
    "available",
    "baselines",
    "evaluate",
    "families",
    "from_pretrained",
    "load",
    "meta_train",
    "push_to_hub",
    "recurring",
    "save",
    "spectra",
]
