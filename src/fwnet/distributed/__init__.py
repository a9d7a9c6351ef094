"""Past one machine: low-rank softmax regression on row shards, over torch.distributed."""

from fwnet.distributed.config import FitConfig, Report
from fwnet.distributed.fit import fit
from fwnet.distributed.model import LowRankModel, load_model
from fwnet.distributed.shards import open_shards, write_shards
from fwnet.distributed.team import Team, join, leave

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
