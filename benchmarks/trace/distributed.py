"""What a distributed step sends and costs: `python -m benchmarks.trace.distributed`.

    numbers of a step = K (d + m) + a few;   of an all-reduced gradient = d · m

Counts what goes through all-reduce, and beside it the bytes that the loopback device carried
(headers and other people's traffic included). Rates of one worker, one thread, for the scaling
note of docs/distributed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from benchmarks import THREADS
from fwnet.distributed import FitConfig, Report, Team, join, leave, open_shards, write_shards
from fwnet.estimators.low_rank.distributed.fit import ShardedRun, fit
from fwnet.estimators.low_rank.distributed.rows import WorkerRows
from fwnet.estimators.low_rank.distributed.softmax import ShardedSoftmax
from fwnet.low_rank import Factors
from fwnet.oracles import certify
from fwnet.solvers import SlotStates

FEATURES, CLASSES, TARGET = 2000, 1000, 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        data = write_shards(Path(folder) / "parts", *made(args.rows), rows=args.rows // 4)
        found = {p: team_of(p, data, args.steps, Path(folder)) for p in (1, 2, 4)}
        show(found, args.rows)
        convergence(Path(folder))


def made(rows: int, d: int = FEATURES, m: int = CLASSES) -> tuple[np.ndarray, np.ndarray]:
    """Labels from a model of rank 10."""
    generator = np.random.default_rng(0)
    W = generator.standard_normal((d, 10)) @ generator.standard_normal((10, m))
    X = generator.standard_normal((rows, d)).astype(np.float32) / d**0.5
    return X, (X @ W + generator.gumbel(size=(rows, m))).argmax(1)


def team_of(size: int, data: Path, steps: int, folder: Path) -> dict[str, list[float]]:
    """Fork a team, let it measure, and read what worker 0 found."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = folder / f"{size}.json"
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            worker(data, steps, out)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return json.loads(out.read_text())


@torch.no_grad()
def worker(data: Path, steps: int, out: Path) -> None:
    """numbers, loopback bytes, wall and CPU seconds of each kind of work, in order."""
    team = join()
    config = FitConfig(CLASSES, 188.0)
    rows = WorkerRows(open_shards(data), CLASSES, config.block, team)
    problem = ShardedSoftmax(rows, CLASSES, config.radius, team)
    solver = ShardedRun(problem, config, out.parent, print).solver
    it = problem.at_atoms(Factors.zero(FEATURES, CLASSES, problem.dtype).atoms(config.radius))
    v = torch.randn(CLASSES, generator=torch.Generator().manual_seed(0))
    slots = SlotStates(v / v.norm(), None, None)

    def step() -> None:
        nonlocal it, slots
        lin, slots = solver.look(problem, it, slots)
        move, step_size, slots = solver.choose(problem, it, lin, slots)
        it = move.arrive(step_size)

    for _ in range(config.memory):  # until the mixture has all its vertices
        step()
    found = {"step": measured(team, step, steps)}
    found["certificate"] = measured(team, lambda: certify(problem, solver.domain, it), 1)
    lin, _ = solver.look(problem, it, slots)
    move, _ = solver.direction(problem, it, lin, None)
    tiny = torch.tensor(1e-6, dtype=torch.float64)
    found["oracle"] = measured(team, lambda: solver.look(problem, it, slots), 5)
    found["line search"] = measured(team, lambda: solver.rule(problem, it, move, None), 3)
    found["new logits"] = measured(team, lambda: move.arrive(tiny), 5)
    found["pass over X"] = measured(team, lambda: problem.scores(torch.ones(FEATURES)), 10)
    dense = torch.zeros(FEATURES * CLASSES, dtype=torch.float64)
    found["dense gradient"] = measured(team, lambda: team.sum(dense), 5)
    thin = torch.zeros(FEATURES + CLASSES, dtype=torch.float64)
    found["d + m numbers"] = measured(team, lambda: team.sum(thin), 50)
    leave()
    if team.rank == 0:
        out.write_text(json.dumps(found))


def measured(team: Team, call: Callable[[], object], repeats: int) -> list[float]:
    """What one call takes, of `repeats` in a row."""
    meet(team)
    before = np.array([team.traffic.numbers, loopback(), time.perf_counter(), time.process_time()])
    for _ in range(repeats):
        call()
    meet(team)
    after = np.array([team.traffic.numbers, loopback(), time.perf_counter(), time.process_time()])
    return list((after - before) / repeats)


def meet(team: Team) -> None:
    if team.size > 1:
        dist.barrier()


def loopback() -> int:
    """Bytes that this machine has sent to itself."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split()[9])
    raise AssertionError("no loopback device")


def show(found: dict[int, dict[str, list[float]]], rows: int) -> None:
    print(f"n = {rows}, d = {FEATURES}, m = {CLASSES}, float32 rows, one thread a worker\n")
    print(
        f"{'workers':>7}  {'what':<18}{'numbers':>12}{'loopback bytes':>16}{'wall':>10}{'CPU':>10}"
    )
    for size, kinds in found.items():
        for kind, (numbers, sent, wall, cpu) in kinds.items():
            print(
                f"{size:>7}  {kind:<18}{numbers:>12.0f}{sent:>16.0f}{wall * 1e3:>8.1f}ms"
                f"{cpu * 1e3:>8.1f}ms"
            )
    print("\nall-reduced gradient / ours")
    for size in (2, 4):
        kinds = found[size]
        dense, alone, proof, oracle = (
            kinds[k] for k in ("dense gradient", "step", "certificate", "oracle")
        )
        every = FitConfig(CLASSES, 188.0).checkpoint_every
        # A certificate is also the oracle of the step that follows it.
        mixed = [s + (c - o) / every for s, c, o in zip(alone, proof, oracle, strict=True)]
        for what, ours in (("a step", alone), (f"with a certificate every {every}", mixed)):
            ratio, of_bytes = dense[0] / ours[0], dense[1] / ours[1]
            verdict = "meets" if ratio >= TARGET else "MISSES"
            print(
                f"  {size} workers, {what}: {ratio:.0f} x fewer numbers ({verdict} {TARGET}), "
                f"{of_bytes:.0f} x fewer bytes on the wire"
            )
    one = found[1]
    x_pass = 1e9 * one["pass over X"][3] / (rows * FEATURES)
    print(f"\none worker, one thread: {x_pass:.2f} ns a feature of a row and pass over X")
    for kind in ("oracle", "line search", "new logits"):
        print(f"  {kind}: {1e9 * one[kind][3] / (rows * CLASSES):.2f} ns a logit")


def convergence(folder: Path) -> None:
    """Certified gaps of plain Frank-Wolfe steps and of the default ones, on one worker."""
    print("\nn = 3000, d = 40, m = 30, radius 60: certified gap / loss")
    data = write_shards(folder / "small", *made(3000, 40, 30))
    plain = FitConfig(30, 60.0, power_steps=1, memory=1, max_steps=200, tol=0.0)
    for name, config in (
        ("one power iteration, one vertex", plain),
        ("the default", replace(plain, power_steps=2, memory=8)),
    ):
        reports: list[Report] = []
        before = time.process_time()
        fit(data, folder / name, config, on_report=reports.append)
        gaps = ", ".join(f"{r.gap / r.value:.2%} at step {r.t}" for r in reports[1:])
        print(f"  {name}: {gaps}; {time.process_time() - before:.1f} s of CPU")


if __name__ == "__main__":
    main()
