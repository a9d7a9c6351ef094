"""fit: a low-rank softmax classifier from shards, on one worker or many.

The loop runs on shards, with a certificate and a checkpoint every few steps.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import TraceNormBall
from fwnet.estimators.low_rank.distributed.config import FitConfig, Report
from fwnet.estimators.low_rank.distributed.model import LowRankModel
from fwnet.estimators.low_rank.distributed.rows import WorkerRows
from fwnet.estimators.low_rank.distributed.segment import (
    FromCertificate,
    RecentVertices,
    SearchOnShards,
)
from fwnet.estimators.low_rank.distributed.shards import open_shards
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.estimators.low_rank.distributed.team import Team
from fwnet.estimators.low_rank.factors import Factors
from fwnet.iterates import ActiveSet, Iterate
from fwnet.numerics.files import CheckpointSeries, FileFormat, fingerprint, make_folder
from fwnet.oracles import Linearization, certify
from fwnet.solvers import FrankWolfe, SlotStates
from fwnet.solvers.loop import run
from fwnet.solvers.watch import Watch
from fwnet.trace import Clock
from fwnet.vertices import Rank1

_CHECKPOINT = FileFormat(
    "fwnet distributed checkpoint",
    1,
    "checkpoint of a distributed fit",
    "Delete it to go on without it, or choose another folder.",
)


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


@final
class ShardedRun:
    """One fit: a solver whose slots work on shards, and the checkpoints between its steps.

    Arguments:
        problem: the sharded loss.
        config: what was asked.
        folder: of the model and the checkpoints.
        say: called where a checkpoint is used or refused; on worker 0 only.
    """

    def __init__(
        self,
        problem: ShardedSoftmax,
        config: FitConfig,
        folder: Path,
        say: Callable[[str], object],
    ) -> None:
        self.problem, self.config, self.team = problem, config, problem.team
        self.folder, self.say = folder, say
        self.checkpoints = CheckpointSeries(folder / "checkpoints", _CHECKPOINT)
        self.solver = FrankWolfe(
            TraceNormBall(config.radius),
            SearchOnShards(config.search_rows),
            direction=RecentVertices(config.memory, config.search_rows),
            oracle=FromCertificate(config.power_steps),
            tol=0.0,
        )

    def __call__(self, on_report: Callable[[Report], object]) -> LowRankModel:
        """Steps and certificates until the gap is small enough or the budget is used up.

        The steps between two checkpoints depend on the first one alone: a run that was killed
        takes them again.
        """
        clock = Clock(self.config.max_seconds)
        t, it = self._first()
        lin = certify(self.problem, self.solver.domain, it)
        while True:
            assert lin.gap is not None
            assert it.active is not None
            value, gap = self.problem.true_value(it.active), float(lin.gap)
            if self.team.rank == 0:
                on_report(Report(t, value, gap, int(it.active.used.sum()), clock.seconds))
            enough = gap <= self.config.tol * value or t >= self.config.max_steps
            limited = self.config.max_seconds is not None
            if enough or (limited and self.team.share(clock.is_over)):  # worker 0's clock
                return self._finished(t, it.active, value, gap)
            t, it, lin = self._steps(t, it, lin)
            self._save(t, it)

    def _steps(self, t: int, it: Iterate, lin: Linearization) -> tuple[int, Iterate, Linearization]:
        """The loop from one certificate to the next."""
        watch = Watch(self.solver, self.problem, ())
        watch.max_steps = min(t + self.config.checkpoint_every, self.config.max_steps)
        end = run(self.solver, self.problem, it, SlotStates(lin, None, None), watch, t=t)
        if end.true is None:
            raise ValueError(
                f"f is NaN or infinite at step {end.t}. Scale the features down, or write float64 "
                "shards."
            )
        return end.t, end.it, end.true

    def _first(self) -> tuple[int, Iterate]:
        """Steps and iterate of the newest whole checkpoint, or W = 0."""
        rows, config, device = self.problem.rows, self.config, self.team.device
        saved = self.team.share(self.team.on_first(self._load))
        if saved is None:
            zero = Factors.zero(rows.d, config.classes, rows.dtype, device)
            return 0, self.problem.at_atoms(zero.atoms(config.radius))
        t, tensors = saved
        if self.team.rank == 0:
            self.say(f"going on from the checkpoint of step {t}.")
        u, v, weights = (tensors[name].to(device) for name in ("u", "v", "weights"))
        return t, self.problem.at_atoms(ActiveSet(Rank1(u, v), weights))

    def _load(self) -> tuple[int, dict[str, Tensor]] | None:
        """Steps and tensors of the newest whole checkpoint of this fit, if there is one."""
        make_folder(self.checkpoints.folder)  # now, and not after a thousand steps
        newest = self.checkpoints.read(self.say)
        if newest is None:
            return None
        path, found, tensors = newest
        _CHECKPOINT.check_run(f"checkpoint {path}", found["fit"], self._facts())
        return found["t"], tensors

    def _save(self, t: int, it: Iterate) -> None:
        """Worker 0 writes the iterate, after all have found that they hold the same one."""
        assert it.active is not None
        atoms = it.active.atoms
        assert isinstance(atoms, Rank1)
        parts = {"u": atoms.u, "v": atoms.v, "weights": it.active.weights}
        tensors = {name: part.cpu() for name, part in parts.items()}
        if not self.team.agree(int(fingerprint(*tensors.values()), 16) >> 2):
            raise ValueError(
                f"the workers computed different iterates before step {t}: they must run on "
                "the same kind of processor with the same libraries and --threads."
            )
        facts = {"fit": self._facts(), "t": t}
        self.team.on_first(lambda: self.checkpoints.write(t, facts, tensors))

    def _finished(self, t: int, active: ActiveSet, value: float, gap: float) -> LowRankModel:
        atoms, radius, used = active.atoms, self.config.radius, active.used
        assert isinstance(atoms, Rank1)
        model = LowRankModel(
            U=(atoms.u[used] / radius).mT.contiguous().cpu(),
            s=(active.weights[used] * radius).cpu(),
            V=atoms.v[used].mT.contiguous().cpu(),
            radius=radius,
            value=value,
            gap=gap,
            steps=t,
            config={**asdict(self.config), "rows": self.problem.rows.count},
        )
        self.team.on_first(lambda: model.save(self.folder))
        return model

    def _facts(self) -> dict[str, Any]:
        """What makes two fits the same one; more steps or time or a smaller gap may be asked."""
        rows = self.problem.rows
        free = ("max_steps", "max_seconds", "tol")
        asked = {k: v for k, v in asdict(self.config).items() if k not in free}
        return asked | {
            "rows": rows.count,
            "features": rows.d,
            "dtype": str(rows.dtype),
            "checksum of the data": rows.checksum,
        }
