"""Real processes: the same bits for any number of them, faults, and kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from distributed.cases import (
    WORKERS,
    by_hand,
    environment,
    fit_arguments,
    folder,
    rows,
    sparse_rows,
    teams,
)
from fwnet.distributed import FitConfig, write_shards
from fwnet.estimators.low_rank.distributed.fit import fit

pytestmark = pytest.mark.slow

KINDS = {"single": np.float32, "double": np.float64, "sparse": np.float32}
SIZES = {"single": (1, 3), "double": (1, 2, 4), "sparse": (1, 3)}  # of teams


class Teams(NamedTuple):
    """What the teams of this page left behind."""

    folder: Path
    same: dict[str, list[list[int]]]  # exit codes of the teams that must agree
    codes: list[list[int]]  # of the others
    out: str
    errors: str


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Teams:
    """Ten teams at the same time: one import of torch serves them all."""
    path = tmp_path_factory.mktemp("teams")
    asked = ("--radius", "12", "--max-steps", "6", "--checkpoint-every", "3")
    runs = []
    for name, dtype in KINDS.items():
        make = sparse_rows if name == "sparse" else rows
        parts = make(230, 21, 19, dtype)  # shards of 100: blocks of 16 rows and of 4
        data = write_shards(path / name / "parts", *parts, rows=100)
        runs += [(p, fit_arguments(data, path / f"{name}{p}", 19, *asked)) for p in SIZES[name]]
    few = folder(path / "few", 20, 5, 3)  # two blocks
    late = ("--radius", "5", "--max-seconds", "1e-9")
    runs.append((4, fit_arguments(few, path / "late", 3, *late)))
    bad = by_hand(folder(path / "bad", 330, 5, 3))
    X = np.load(bad / "part-00003.X.npy")
    X[7, 2] = np.nan
    np.save(bad / "part-00003.X.npy", X)
    runs.append((4, fit_arguments(bad, path / "m", 3, "--radius", "5")))
    runs.append((2, fit_arguments(bad, path / "m", 3, "--radius", "0")))
    codes, done = teams(*runs)
    found = iter(codes)
    same = {name: [next(found) for _ in sizes] for name, sizes in SIZES.items()}
    return Teams(path, same, list(found), done.stdout, done.stderr)


@pytest.mark.parametrize("name", KINDS)
def test_any_number_of_workers_gives_the_same_bits(name: str, ran: Teams) -> None:
    assert ran.same[name] == [[0] * p for p in SIZES[name]]
    models = [ran.folder / f"{name}{p}" / "model.safetensors" for p in SIZES[name]]
    assert len({model.read_bytes() for model in models}) == 1


def test_only_worker_0_talks(ran: Teams) -> None:
    steps = re.findall(r"step +(\d+)", ran.out)  # of teams whose lines may run together
    assert sorted(map(int, steps)) == sorted([0, 3, 6] * 7 + [0])


def test_more_workers_than_blocks_stop_together_when_the_time_is_over(ran: Teams) -> None:
    assert ran.codes[0] == [0] * 4
    assert json.loads((ran.folder / "late" / "model.json").read_text())["steps"] == 0


def test_a_fault_of_one_worker_stops_all_with_its_message(ran: Teams) -> None:
    assert ran.codes[1] == [1] * 4
    text = "worker 3: X must be finite; row 307 (row 7 of part-00003.X.npy), column 2, is nan"
    assert text in ran.errors
    assert ran.errors.count("X must be finite") == 1


def test_a_bad_setting_is_said_once(ran: Teams) -> None:
    assert ran.codes[2] == [1] * 2
    assert ran.errors.count("fwnet: radius must be a positive finite number; got 0.0.") == 1


def test_kill_9_loses_at_most_the_steps_since_the_checkpoint(tmp_path: Path) -> None:
    """A team that torchrun restarts ends with the model of a run that nobody disturbed."""
    data = folder(tmp_path, 200, 30, 20)
    config = FitConfig(
        classes=20, radius=15.0, max_steps=50, checkpoint_every=10, tol=0.0, block=16
    )
    asked = ("--radius", "15", "--max-steps", "50", "--checkpoint-every", "10", "--tol", "0")
    arguments = json.dumps(fit_arguments(data, tmp_path / "killed", 20, *asked))
    errors = tmp_path / "errors"
    seen: list[int] = []
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [sys.executable, str(WORKERS), "restarted", arguments],
            env=environment() | {"PYTHONWARNINGS": ""},  # torchrun has warnings of its own
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as agent,
    ):
        for line in agent.stdout or ():
            found = re.match(r"step +(\d+)", line)
            seen += [int(found[1])] if found else []
            if seen == [0, 10, 20]:
                os.kill(children(agent.pid)[-1], signal.SIGKILL)
    assert agent.returncode == 0, errors.read_text()[-3000:]
    resumed = re.search(r"going on from the checkpoint of step (\d+)", errors.read_text())
    assert resumed
    again = list(range(int(resumed[1]), 51, 10))
    assert seen[-len(again) :] == again
    assert max(seen[: -len(again)]) <= again[0]  # what was reported is never computed again
    fit(data, tmp_path / "whole", config)
    killed, whole = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "whole")
    )
    assert killed == whole


def test_the_others_end_when_a_worker_dies(tmp_path: Path) -> None:
    """Without a launcher that would end them: no process is left waiting."""
    data = folder(tmp_path, 200, 30, 20)
    asked = ("--radius", "15", "--max-steps", "100000", "--tol", "0")
    run = json.dumps([[3, fit_arguments(data, tmp_path / "m", 20, *asked)]])
    with subprocess.Popen(
        [sys.executable, str(WORKERS), run],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("step      0")
        os.kill(children(process.pid)[1], signal.SIGKILL)
        out, errors = process.communicate(timeout=30)
    assert json.loads(out.splitlines()[-1]) == [[1, -9, 1]]
    assert "lost the others" in errors
    assert "Start the fit again; it goes on from its last checkpoint." in errors


def children(pid: int) -> list[int]:
    """The processes that a process started, in order."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return sorted(int(line) for line in found.stdout.split())
