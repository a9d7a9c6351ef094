"""Run the command on several processes: one import of torch, then a fork for each worker.

    python workers.py '[[2, ["fit", "--data", …]], [4, […]]]'

Each entry is a number of workers and their arguments; prints the exit codes as a list of lists.
What torchrun sets, it sets: the rest is the command that users start.
"""

from __future__ import annotations

import json
import os
import socket
import sys

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


def run(size: int, arguments: list[str]) -> list[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = [start(rank, size, port, arguments) for rank in range(size)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


if __name__ == "__main__":
    codes = [run(size, arguments) for size, arguments in json.loads(sys.argv[1])]
    print(json.dumps(codes))
