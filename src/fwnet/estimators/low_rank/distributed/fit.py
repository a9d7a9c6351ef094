"""fit: a low-rank softmax classifier from shards, on one worker or many."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from fwnet.estimators.low_rank.distributed.config import FitConfig, Report
from fwnet.estimators.low_rank.distributed.model import LowRankModel
from fwnet.estimators.low_rank.distributed.rows import WorkerRows
from fwnet.estimators.low_rank.distributed.run import ShardedRun
from fwnet.estimators.low_rank.distributed.shards import open_shards
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.estimators.low_rank.distributed.team import Team


@torch.no_grad()
def fit(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: FitConfig,
    team: Team | None = None,
    *,
    on_report: Callable[[Report], object] | None = None,
    say: Callable[[str], object] | None = None,
) -> LowRankModel:
    """Fit a low-rank softmax classifier to the shards of a folder; the same bits for any team.

        min over ‖W‖_* <= radius of 1/n Σ (log Σⱼ exp zᵢⱼ − z_{i,yᵢ}),   Z = XW

    Steps are those of `FrankWolfe`: its oracle, direction and rule slots, filled with ones that
    work on shards. Every `checkpoint_every` steps there is a pause: the atoms are recompressed,
    the logits computed anew, the gap certified by an exact oracle, and the state written down.
    A run that was killed goes on from there; since a run that was not killed passes through the
    very same state, both end with the same model. All of this on one kind of processor: others
    round the products of a block differently.

    Arguments:
        data: folder of shards, as `write_shards` makes it.
        out: folder of the model; checkpoints are in its folder `checkpoints`.
        team: the workers; only this process if left out.
        on_report: called at every pause, on worker 0 only.
        say: called with a message where a checkpoint is refused or used, on worker 0 only.

    Example:
        >>> import tempfile
        >>> from fwnet.distributed import FitConfig, fit, write_shards
        >>> X = torch.eye(3).repeat(8, 1)
        >>> folder = tempfile.mkdtemp()
        >>> parts = write_shards(folder + "/parts", X, X.argmax(-1))
        >>> model = fit(parts, folder + "/model", FitConfig(classes=3, radius=9.0, block=16))
        >>> model.predict(torch.eye(3)).tolist()
        [0, 1, 2]
    """
    if not isinstance(config, FitConfig):
        raise TypeError(f"config must be a FitConfig(...); got {type(config).__name__}.")
    team, folder = team or Team(), Path(out)
    shards = team.together(lambda: open_shards(data))
    rows = WorkerRows(shards, config.classes, config.block, team)
    problem = ShardedSoftmax(rows, config.classes, config.radius, team)
    return ShardedRun(problem, config, folder, say or _nothing)(on_report or _nothing)


def _nothing(_: object) -> None:
    """The callback where none was given."""
