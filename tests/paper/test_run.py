"""Running experiments: every seed kept, nothing done twice, one failure does not stop others."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from fwnet.data import DataError, load
from fwnet.lab.paper.experiment import Profile, Progress
from fwnet.lab.paper.run import Job, RunObserver, _sources, plan, run
from fwnet.lab.paper.store import Store

from .toy import Toy, ToyConfig

DIED = "its process ended before it was done; was memory short?"


class Other(Toy):
    name = "other"

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        raise DataError("mnist is not here.")


class Reading(Toy):
    name = "reading"

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        load("circles", seed=seed)
        return super().run(config, seed, progress)


class Interrupted(Toy):
    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        if seed == 1:
            raise KeyboardInterrupt
        return super().run(config, seed, progress)


class Log(RunObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def progress(self, job: Job, share: float, text: str) -> None:
        assert 0 <= share <= 1
        if not text:
            self.lines.append(f"start {job.seed}")

    def end(self, job: Job, how: str) -> None:
        self.lines.append(f"{'done' if how.endswith(' s') else how} {job.seed}")


def test_a_second_run_does_nothing_and_a_fresh_one_everything(tmp_path: Path) -> None:
    store, toy, log = Store(tmp_path), Toy(), Log()
    jobs = plan([toy], Profile.QUICK)
    assert run(jobs, Profile.QUICK, store, watch=log) == []
    assert toy.ran == [0, 1]
    assert log.lines == ["start 0", "done 0", "start 1", "done 1"]
    run(jobs, Profile.QUICK, store, watch=log)
    assert toy.ran == [0, 1]
    assert log.lines[4:] == ["kept from before 0", "kept from before 1"]
    run(plan([toy], Profile.QUICK, seeds=3), Profile.QUICK, store)
    assert toy.ran == [0, 1, 2]
    run(jobs, Profile.QUICK, store, resume=False)
    assert toy.ran == [0, 1, 2, 0, 1]


def test_a_fresh_run_forgets_trainings_that_its_seed_began(tmp_path: Path) -> None:
    found: list[bool] = []

    class Looks(Toy):
        def run(self, config: Any, seed: int, progress: Progress) -> dict[str, Any]:
            found.append(folder.exists())
            return super().run(config, seed, progress)

    store, toy = Store(tmp_path), Looks()
    folder = store.trainings("toy", Profile.QUICK, toy.config(Profile.QUICK), 0)
    for resume in (True, False):
        folder.mkdir(parents=True)
        run(plan([toy], Profile.QUICK, seeds=1), Profile.QUICK, store, resume=resume)
        assert not folder.exists()
    assert found == [True, False]


def test_one_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        store = Store(tmp_path / name)
        run(plan([Toy()], Profile.QUICK, 1), Profile.QUICK, store)
        found.append(store.results()[0].seeds[0].metrics)
    assert found[0] == found[1]


def test_a_result_says_where_its_data_came_from(tmp_path: Path) -> None:
    jobs = plan([Reading(), Toy()], Profile.QUICK)
    assert run(jobs, Profile.QUICK, Store(tmp_path)) == []
    reading, toy = sorted(Store(tmp_path).results(), key=lambda results: results.experiment)
    assert [each.environment["data"] for each in toy.seeds] == ["", ""]
    for seed, each in enumerate(reading.seeds):
        print_of = load("circles", seed=seed).fingerprint()
        assert each.environment["data"] == f"circles: made, seed {seed} ({print_of})"


def test_a_half_written_seed_is_run_again(tmp_path: Path) -> None:
    store, toy = Store(tmp_path), Toy()
    jobs = plan([toy], Profile.QUICK)
    run(jobs, Profile.QUICK, store)
    path = store.place("toy", Profile.QUICK, jobs[1].config) / "seed-1.json"
    path.write_text(path.read_text()[:100])
    run(jobs, Profile.QUICK, store)
    assert toy.ran == [0, 1, 1]
    assert store.read(path) is not None


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    store, toy = Store(tmp_path), Toy(broken_at=1)
    failures = run(plan([Other(), toy], Profile.QUICK, seeds=3), Profile.QUICK, store)
    assert [(each.experiment, each.seed, each.reason) for each in failures] == [
        ("other", 0, "mnist is not here."),
        ("toy", 1, "RuntimeError: the toy broke"),
    ]
    assert toy.ran == [0]


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    jobs = plan([Interrupted()], Profile.QUICK)
    with pytest.raises(KeyboardInterrupt):
        run(jobs, Profile.QUICK, store)
    assert [each.seed for each in store.results()[0].seeds] == [0]


class Killed(Toy):
    name = "killed"

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


class Odd(Toy):
    name = "odd"

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        return {"a set": {1}}


def local() -> Toy:
    """An experiment that cannot be sent to another process."""

    class Local(Toy):
        name = "local"

    return Local()


@pytest.mark.slow
def test_workers_give_the_same_numbers_and_outlive_a_killed_one(tmp_path: Path) -> None:
    alone, together, log = Store(tmp_path / "alone"), Store(tmp_path / "together"), Log()
    run(plan([Reading()], Profile.QUICK, 2), Profile.QUICK, alone)
    broken = [Killed(), Odd(), local()]
    jobs = [*plan(broken, Profile.QUICK, 1), *plan([Reading()], Profile.QUICK, 2)]
    failures = run(jobs, Profile.QUICK, together, workers=2, watch=log)
    reasons = {each.experiment: each.reason for each in failures}
    assert reasons["killed"] == DIED
    assert reasons["odd"].startswith("TypeError: results must be numbers, texts, arrays")
    assert "Can't pickle local object" in reasons["local"]
    assert {"done 0", "done 1", "failed 0"} <= set(log.lines)
    (expected,), (found,) = alone.results(), together.results()
    assert [s.metrics for s in found.seeds] == [s.metrics for s in expected.seeds]
    assert [s.environment["data"] for s in found.seeds] == [
        s.environment["data"] for s in expected.seeds
    ]


def dies(parent: Connection) -> None:
    """A worker that ends before it reads its job."""
    os._exit(3)


@pytest.mark.slow
def test_a_process_that_dies_at_once_is_a_failure_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fwnet.lab.paper.run._serve", dies)
    jobs = plan([Toy(), Odd()], Profile.QUICK, 1)
    failures = run(jobs, Profile.QUICK, Store(tmp_path), workers=2)
    assert [each.reason for each in failures] == [DIED] * 2


class Slow(Toy):
    name = "slow"

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        if seed:
            progress(0.5, str(os.getpid()))
            time.sleep(600)
        return super().run(config, seed, progress)


class Stopping(Log):
    """Presses Ctrl-C once both other seeds run and the first is done."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: set[int] = set()

    def progress(self, job: Job, share: float, text: str) -> None:
        if job.seed and text:
            self.workers.add(int(text))
        if len(self.workers) == 2 and "done 0" in self.lines:
            raise KeyboardInterrupt

    def end(self, job: Job, how: str) -> None:
        super().end(job, how)
        assert len(self.workers) < 2  # the third seed starts after the first one is done


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_keeps_what_is_done(tmp_path: Path) -> None:
    store, watch = Store(tmp_path), Stopping()
    jobs = plan([Slow()], Profile.QUICK, 3)
    with pytest.raises(KeyboardInterrupt):
        run(jobs, Profile.QUICK, store, workers=2, watch=watch)
    assert [each.seed for each in store.results()[0].seeds] == [0]
    for pid in watch.workers:
        with pytest.raises(ProcessLookupError):  # ended, and its parent has waited for it
            os.kill(pid, 0)


def test_seeds_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"seeds must be a whole number of at least 1; got 0\."):
        plan([Toy()], Profile.QUICK, seeds=0)
    with pytest.raises(ValueError, match="workers must be a whole number of at least 1; got 0"):
        run([], Profile.QUICK, Store(Path("runs")), workers=0)


def test_many_data_sets_are_counted() -> None:
    noted = {f"circles: made, seed {seed}": "0a" for seed in range(6)}
    shown = "; ".join(f"circles: made, seed {seed} (0a)" for seed in range(4))
    assert _sources(noted) == f"{shown}; and 2 more"
