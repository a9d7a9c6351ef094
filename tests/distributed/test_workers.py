"""Real processes: the same bits for any number of them, faults, and kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.distributed.cases import WORKERS, environment, fit_arguments, folder, teams

from fwnet.distributed import FitConfig, fit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_two_three_and_four_workers_give_the_same_bits(dtype: type, tmp_path: Path) -> None:
    data = folder(tmp_path, 330, 21, 19, dtype)  # shards of 100: blocks of 16 rows and of 4
    sizes = (1, 2, 3, 4)
    asked = ("--radius", "12", "--max-steps", "30", "--checkpoint-every", "10")
    runs = [(p, fit_arguments(data, tmp_path / str(p), 19, *asked)) for p in sizes]
    codes, _ = teams(*runs)
    assert codes == [[0] * p for p in sizes]
    models = {(tmp_path / str(p) / "model.pt").read_bytes() for p in sizes}
    assert len(models) == 1


def test_only_worker_0_talks(tmp_path: Path) -> None:
    data = folder(tmp_path, 100, 5, 3)
    asked = ("--radius", "5", "--max-steps", "4", "--checkpoint-every", "2")
    _, done = teams((3, fit_arguments(data, tmp_path / "m", 3, *asked)))
    lines = [line for line in done.stdout.splitlines() if line.startswith("step")]
    assert [int(line.split()[1]) for line in lines] == [0, 2, 4]


def test_a_fault_of_one_worker_stops_all_with_its_sentence(tmp_path: Path) -> None:
    data = folder(tmp_path, 330, 5, 3)
    X = np.load(data / "part-00003.X.npy")
    X[7, 2] = np.nan
    np.save(data / "part-00003.X.npy", X)
    codes, done = teams((4, fit_arguments(data, tmp_path / "m", 3, "--radius", "5")))
    assert codes == [[1] * 4]
    assert "worker 3: X must be finite; row 307 (row 7 of part-00003.X.npy), column 2, is nan" in (
        done.stderr
    )
    assert done.stderr.count("error:") == 1


def test_kill_9_loses_at_most_the_steps_since_the_checkpoint(tmp_path: Path) -> None:
    """A team that torchrun restarts ends with the model of a run that nobody disturbed."""
    data = folder(tmp_path, 200, 30, 20)
    config = FitConfig(
        classes=20, radius=15.0, max_steps=80, checkpoint_every=10, tol=0.0, block=16
    )
    asked = ("--radius", "15", "--max-steps", "80", "--checkpoint-every", "10", "--tol", "0")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launch += ["--nproc-per-node", "2", "--max-restarts", "2", "-m", "fwnet.distributed"]
    errors = tmp_path / "errors"
    seen: list[int] = []
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [*launch, *fit_arguments(data, tmp_path / "killed", 20, *asked)],
            env=environment() | {"PYTHONWARNINGS": ""},  # torchrun has warnings of its own
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as agent,
    ):
        for line in agent.stdout or ():
            found = re.match(r"step +(\d+)", line)
            seen += [int(found[1])] if found else []
            if seen == [0, 10, 20, 30]:
                os.kill(children(agent.pid)[-1], signal.SIGKILL)
    assert agent.returncode == 0, errors.read_text()[-3000:]
    resumed = re.search(r"going on from the checkpoint of step (\d+)", errors.read_text())
    assert resumed
    assert int(resumed[1]) >= 30  # what was reported is never computed again
    assert seen[4:] == list(range(seen[4], 81, 10))
    assert seen[-1] == 80
    fit(data, tmp_path / "whole", config)
    killed, whole = ((tmp_path / name / "model.pt").read_bytes() for name in ("killed", "whole"))
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
