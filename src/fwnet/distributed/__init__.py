"""Past one machine: low-rank softmax regression on row shards, over torch.distributed."""

from fwnet.estimators.low_rank.distributed import (
    FitConfig,
    LowRankModel,
    Report,
    Team,
    fit,
    join,
    leave,
    load_model,
    open_shards,
    write_shards,
)

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
