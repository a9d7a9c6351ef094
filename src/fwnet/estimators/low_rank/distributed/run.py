"""Run: Frank-Wolfe steps on shards, with a pause every few of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from fwnet.domains import TraceNormBall
from fwnet.estimators.low_rank.distributed.checkpoints import load_checkpoint, save_checkpoint
from fwnet.estimators.low_rank.distributed.config import FitConfig, Report
from fwnet.estimators.low_rank.distributed.factors import compressed, nothing_yet
from fwnet.estimators.low_rank.distributed.model import LowRankModel
from fwnet.estimators.low_rank.distributed.segment import RecentVertices, SearchOnShards
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.iterates import ActiveSet
from fwnet.numerics.files import make_folder
from fwnet.oracles import PowerIteration, certify
from fwnet.solvers import FrankWolfe, SlotStates
from fwnet.trace import Clock
from fwnet.vertices import Rank1


class Pause(NamedTuple):
    """All that the steps after a pause depend on."""

    t: int
    active: ActiveSet  # x


@final
class ShardedRun:
    """One fit: a solver whose slots work on shards, and the pauses between its steps.

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
        self.checkpoints = folder / "checkpoints"
        self.solver = FrankWolfe(
            TraceNormBall(config.radius),
            SearchOnShards(config.search_rows),
            direction=RecentVertices(config.memory, config.search_rows),
            oracle=PowerIteration(config.power_steps),
        )

    def __call__(self, on_report: Callable[[Report], object]) -> LowRankModel:
        """Step and pause until the gap is small enough or the budget is used up."""
        here, clock = self._first(), Clock(self.config.max_seconds)
        while True:
            # Every run passes here, also one that was just restarted: from the same here.
            it = self.problem.at_atoms(here.active)
            lin = certify(self.problem, self.solver.domain, it)
            assert lin.gap is not None
            value, gap = self.problem.true_value(here.active), float(lin.gap)
            if self.team.rank == 0:
                rank = int(here.active.used.sum())
                on_report(Report(here.t, value, gap, rank, clock.seconds))
            enough = gap <= self.config.tol * value or here.t >= self.config.max_steps
            if enough or self._is_over(clock):
                return self._finished(here, value, gap)
            assert isinstance(lin.vertex, Rank1)
            slots, end = SlotStates(lin.vertex.v, None, None), self._next_pause(here.t)
            for t in range(here.t, end):
                if t > here.t:  # the first vertex is the certificate's, an exact one
                    lin, slots = self.solver.look(self.problem, it, slots)
                move, step_size, slots = self.solver.choose(self.problem, it, lin, slots)
                it = move.arrive(step_size)
            assert it.active is not None
            here = Pause(end, compressed(it.active, self.config.radius))
            self._save(here)

    def _is_over(self, clock: Clock) -> bool:
        return self.config.max_seconds is not None and self.team.share(clock.is_over)  # worker 0's

    def _next_pause(self, t: int) -> int:
        return min(t + self.config.checkpoint_every, self.config.max_steps)

    def _first(self) -> Pause:
        """The state of the newest whole checkpoint, or that of W = 0."""
        rows, config, device = self.problem.rows, self.config, self.team.device

        def load() -> dict[str, Any] | None:
            make_folder(self.checkpoints)  # now, and not after a thousand steps
            return load_checkpoint(self.checkpoints, self._facts(), self.say)

        saved = self.team.share(self.team.together(load if self.team.rank == 0 else lambda: None))
        if saved is None:
            features, dtype = rows.d, rows.dtype
            return Pause(0, nothing_yet(features, config.classes, dtype, device))
        if self.team.rank == 0:
            self.say(f"going on from the checkpoint of step {saved['t']}.")
        atoms = Rank1(saved["u"].to(device), saved["v"].to(device))
        return Pause(saved["t"], ActiveSet(atoms, saved["weights"].to(device)))

    def _save(self, here: Pause) -> None:
        """Worker 0 writes the state, after all have found that they hold the same one."""
        atoms = here.active.atoms
        assert isinstance(atoms, Rank1)
        parts = {"u": atoms.u, "v": atoms.v, "weights": here.active.weights}
        tensors = {name: part.cpu() for name, part in parts.items()}
        if not self.team.agree(_digest(*tensors.values())):
            raise ValueError(
                f"the workers computed different iterates before step {here.t}: they must run on "
                "the same kind of processor with the same libraries and --threads."
            )

        def write() -> None:
            save_checkpoint(self.checkpoints, here.t, self._facts(), tensors)

        self.team.together(write if self.team.rank == 0 else lambda: None)

    def _finished(self, here: Pause, value: float, gap: float) -> LowRankModel:
        atoms, radius = here.active.atoms, self.config.radius
        assert isinstance(atoms, Rank1)
        used = here.active.used
        model = LowRankModel(
            U=(atoms.u[used] / radius).mT.contiguous().cpu(),
            s=(here.active.weights[used] * radius).cpu(),
            V=atoms.v[used].mT.contiguous().cpu(),
            radius=radius,
            value=value,
            gap=gap,
            steps=here.t,
            config={**asdict(self.config), "rows": self.problem.rows.count},
        )
        self.team.together(
            (lambda: model.save(self.folder)) if self.team.rank == 0 else lambda: None
        )
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


def _digest(*tensors: Tensor) -> int:
    """62 bits of a SHA-256."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 2
