"""Past one machine: low-rank softmax regression on row shards, over torch.distributed."""

from fwnet.estimators.low_rank.distributed.config import FitConfig, Report
from fwnet.estimators.low_rank.distributed.fit import fit
from fwnet.estimators.low_rank.distributed.model import LowRankModel, load_model
from fwnet.estimators.low_rank.distributed.shards import open_shards, write_shards
from fwnet.estimators.low_rank.distributed.team import Team, join, leave

__all__ = [
    "FitConfig",
    "LowRankModel",
    "Report",
    "Team",
    "fit",
    "join",
    "leave",
    "load_model",
    "open_shards",
    "write_shards",
]
