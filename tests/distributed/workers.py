"""Run the command on several processes: one import of torch, then a fork for each worker.

    python workers.py '[[2, ["fit", "--data", …]], [4, […]]]'
    python workers.py restarted '["fit", "--data", …]'

Each entry is a number of workers and their arguments. All teams run side by side; the last line is
their exit codes as a list of lists. What torchrun sets, `start` sets: the rest is the command that
users start. `restarted` runs two workers under torchrun's own agent, which restarts them.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from contextlib import ExitStack

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import fwnet.distributed
from fwnet.cli import run as command
from fwnet.cli.app import app

LOADED = (fwnet.distributed, app)  # and torch: once, before the forks


def start(rank: int, size: int, port: int, arguments: list[str]) -> int:
    """Fork a worker; its process id."""
    child = os.fork()
    if child == 0:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        code = command(["distributed", *arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return child


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def run(runs: list[tuple[int, list[str]]]) -> list[list[int]]:
    """The exit codes of teams that run at the same time."""
    teams = [
        [start(rank, size, port, arguments) for rank in range(size)]
        for (size, arguments), port in zip(runs, free_ports(len(runs)), strict=True)
    ]
    return [
        [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in team] for team in teams
    ]


def work(arguments: list[str]) -> None:
    """`python -m fwnet.distributed`, which torchrun starts on every worker."""
    sys.argv[1:] = arguments
    runpy.run_module("fwnet.distributed", run_name="__main__")


def restarted(arguments: list[str]) -> None:
    """As `torchrun --standalone --nproc-per-node 2 --max-restarts 2 -m`, but with forks."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        run_id="test",
        max_restarts=2,
        start_method="fork",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
    )
    elastic_launch(config, work)(arguments)


if __name__ == "__main__":
    if sys.argv[1] == "restarted":
        restarted(json.loads(sys.argv[2]))
    else:
        print(json.dumps(run(json.loads(sys.argv[1]))))
