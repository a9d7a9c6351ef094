"""Run: Frank-Wolfe steps on shards, with a pause every few of them."""

from __future__ import annotations

import hashlib
import time
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
from fwnet.vertices import Rank1


class State(NamedTuple):
    """All that the steps after a pause depend on."""

    t: int
    active: ActiveSet  # x


@final
class Run:
    """One fit: a solver whose slots work on shards, and the pauses between its steps.

    Arguments:
        problem: the sharded loss.
        config: what was asked.
        folder: of the model and the checkpoints.
        say: told where a checkpoint is used or refused; on worker 0 only.
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
        state, began = self._first(), time.perf_counter()
        while True:
            # Every run passes here, also one that was just restarted: from the same state.
            it = self.problem.at_atoms(state.active)
            lin = certify(self.problem, self.solver.domain, it)
            assert lin.gap is not None
            value, gap = self.problem.true_value(state.active), float(lin.gap)
            if self.team.rank == 0:
                rank = int(state.active.used.sum())
                on_report(Report(state.t, value, gap, rank, time.perf_counter() - began))
            enough = gap <= self.config.tol * value or state.t >= self.config.max_steps
            if enough or self._late(time.perf_counter() - began):
                return self._finished(state, value, gap)
            assert isinstance(lin.vertex, Rank1)
            slots, pause = SlotStates(lin.vertex.v, None, None), self._next_pause(state.t)
            for t in range(state.t, pause):
                if t > state.t:  # the first vertex is the certificate's, an exact one
                    lin, slots = self.solver.look(self.problem, it, slots)
                move, step_size, slots = self.solver.choose(self.problem, it, lin, slots)
                it = move.arrive(step_size)
            assert it.active is not None
            state = State(pause, compressed(it.active, self.config.radius))
            self._save(state)

    def _late(self, seconds: float) -> bool:
        limit = self.config.max_seconds
        return limit is not None and self.team.share(seconds >= limit)  # one clock for all

    def _next_pause(self, t: int) -> int:
        return min(t + self.config.checkpoint_every, self.config.max_steps)

    def _first(self) -> State:
        """The state of the newest whole checkpoint, or that of W = 0."""
        rows, config, device = self.problem.rows, self.config, self.team.device

        def load() -> dict[str, Any] | None:
            make_folder(self.checkpoints)  # now, and not after a thousand steps
            return load_checkpoint(self.checkpoints, self._facts(), self.say)

        saved = self.team.share(self.team.together(load if self.team.rank == 0 else lambda: None))
        if saved is None:
            features, dtype = rows.shards.features, self.problem.dtype
            return State(0, nothing_yet(features, config.classes, dtype, device))
        if self.team.rank == 0:
            self.say(f"going on from the checkpoint of step {saved['t']}.")
        atoms = Rank1(saved["u"].to(device), saved["v"].to(device))
        return State(saved["t"], ActiveSet(atoms, saved["weights"].to(device)))

    def _save(self, state: State) -> None:
        """Worker 0 writes the state, after all have found that they hold the same one."""
        atoms = state.active.atoms
        assert isinstance(atoms, Rank1)
        parts = {"u": atoms.u, "v": atoms.v, "weights": state.active.weights}
        tensors = {name: part.cpu() for name, part in parts.items()}
        if not self.team.agree(_digest(*tensors.values())):
            raise ValueError(
                f"the workers computed different iterates before step {state.t}: they must run on "
                "the same kind of processor with the same libraries and --threads."
            )

        def write() -> None:
            save_checkpoint(self.checkpoints, state.t, self._facts(), tensors)

        self.team.together(write if self.team.rank == 0 else lambda: None)

    def _finished(self, state: State, value: float, gap: float) -> LowRankModel:
        atoms, radius = state.active.atoms, self.config.radius
        assert isinstance(atoms, Rank1)
        used = state.active.used
        model = LowRankModel(
            U=(atoms.u[used] / radius).mT.contiguous().cpu(),
            s=(state.active.weights[used] * radius).cpu(),
            V=atoms.v[used].mT.contiguous().cpu(),
            radius=radius,
            value=value,
            gap=gap,
            steps=state.t,
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
            "features": rows.shards.features,
            "dtype": str(rows.shards.dtype),
            "checksum of the data": rows.checksum,
        }


def _digest(*tensors: Tensor) -> int:
    """62 bits of a SHA-256."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 2
