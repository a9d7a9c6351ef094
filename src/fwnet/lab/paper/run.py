"""Run experiments seed by seed; each finished seed is stored at once."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, final

import torch

from fwnet.data import DataError, note_sources
from fwnet.lab.paper.environment import environment
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, SeedResult
from fwnet.lab.paper.methods import trainings_in
from fwnet.lab.paper.store import Store, plain

_SHOWN = 4  # data sets that are named


@final
@dataclass(frozen=True, eq=False)
class Job:
    """One seed of one experiment.

    Arguments:
        experiment: that is run.
        config: of it.
        seed: of it.
        trainings: where the states of the seed's trainings are kept.
    """

    experiment: Experiment[Any]
    config: Any
    seed: int
    trainings: Path | None = None

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.experiment.name


@final
@dataclass(frozen=True)
class Failure:
    """A seed that could not be run, and why."""

    experiment: str
    seed: int
    reason: str


class RunObserver:
    """Follows a run, as a display or a log does; this one does nothing."""

    def progress(self, job: Job, share: float, text: str) -> None:
        """A seed has done this share of its work, 0 when it starts; the text says what it does."""

    def end(self, job: Job, how: str) -> None:
        """A seed is done, was done before, or failed; `how` says which in a few words."""


def plan(
    experiments: Iterable[Experiment[Any]], profile: Profile, seeds: int | None = None
) -> list[Job]:
    """All seeds of all experiments; `seeds` of each, or as many as the experiment says."""
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be a whole number of at least 1; got {seeds!r}.")
    return [
        Job(experiment, experiment.config(profile), seed)
        for experiment in experiments
        for seed in range(experiment.seeds(profile) if seeds is None else seeds)
    ]


def run(
    jobs: Sequence[Job],
    profile: Profile,
    store: Store,
    *,
    resume: bool = True,
    workers: int = 1,
    watch: RunObserver | None = None,
) -> list[Failure]:
    """Run the jobs and store each result; return what failed.

    After a failure the other seeds of the same experiment are skipped; other experiments go on.
    Ctrl-C stops everything, and finished seeds stay stored.

    Arguments:
        jobs: from `plan`.
        profile: the results are stored under its name.
        store: where they are stored.
        resume: keep seeds that are done.
        workers: processes that compute in parallel, one thread each; with 1, this process does.
        watch: follows every seed.
    """
    if workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1; got {workers!r}.")
    watch = RunObserver() if watch is None else watch
    left: list[Job] = []
    for job in jobs:
        done = store.done(job.name, profile, job.config, job.seed) if resume else None
        if done is None:
            folder = store.trainings(job.name, profile, job.config, job.seed)
            if not resume:
                shutil.rmtree(folder, ignore_errors=True)
            left.append(replace(job, trainings=folder))
        else:
            watch.end(job, "kept from before")
    failures: list[Failure] = []

    def following() -> Iterator[Job]:
        for job in left:
            if all(failure.experiment != job.name for failure in failures):
                watch.progress(job, 0.0, "")
                yield job

    count = min(workers, len(left))
    compute_all = (
        _in_parallel(following(), count, watch) if count > 1 else _here(following(), watch)
    )
    with closing(compute_all) as outcomes:  # ends the workers, whatever happens here
        for job, outcome in outcomes:
            if isinstance(outcome, str):
                failures.append(Failure(job.name, job.seed, outcome))
                watch.end(job, "failed")
                continue
            metrics, seconds, data = outcome
            result = SeedResult(job.seed, metrics, seconds, environment() | {"data": data})
            store.write(job.name, profile, job.config, result)
            if job.trainings is not None:
                shutil.rmtree(job.trainings, ignore_errors=True)
            watch.end(job, f"{seconds:.1f} s")
    return failures


_Outcome = tuple[dict[str, Any], float, str] | str
"""Plain metrics, seconds and where the data came from; or the reason of a failure."""
_Outcomes = Generator[tuple[Job, _Outcome], None, None]


def _compute(job: Job, progress: Progress) -> _Outcome:
    start = time.perf_counter()
    try:
        with note_sources() as noted, trainings_in(job.trainings):
            metrics = plain(job.experiment.run(job.config, job.seed, progress))
    except DataError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return metrics, time.perf_counter() - start, _sources(noted)


def _sources(noted: dict[str, str]) -> str:
    """What was loaded, with fingerprints; of many generated sets the first few and the number."""
    found = [f"{source} ({content})" for source, content in sorted(noted.items())]
    rest = len(found) - _SHOWN
    return "; ".join(found[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


def _here(jobs: Iterator[Job], watch: RunObserver) -> _Outcomes:
    for job in jobs:

        def progress(share: float, text: str, job: Job = job) -> None:
            watch.progress(job, share, text)

        yield job, _compute(job, progress)


class _Share(NamedTuple):
    """How far a job is: what a worker sends before its outcome."""

    share: float
    text: str


@final
class _Worker:
    """A process that computes one job after the other, and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")  # a forked torch can hang
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        with _no_interrupts():  # inherited by the process: Ctrl-C reaches the parent only
            self.process.start()
        theirs.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _in_parallel(jobs: Iterator[Job], count: int, watch: RunObserver) -> _Outcomes:
    """Outcomes in the order in which they are ready; a worker that died is replaced."""
    running: dict[Any, tuple[_Worker, Job]] = {}  # by the pipe
    free: list[_Worker] = []
    try:
        while True:
            while len(running) < count and (job := next(jobs, None)) is not None:
                worker = free.pop() if free else _Worker()
                running[worker.pipe] = worker, job
                try:
                    worker.pipe.send(job)
                except OSError:  # the process died: its pipe is at its end
                    pass
                except Exception as error:  # the job cannot be sent to a process
                    free.append(running.pop(worker.pipe)[0])
                    yield job, f"{type(error).__name__}: {error}"
            if not running:
                return
            for pipe in wait(list(running)):
                worker, job = running[pipe]
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.close()
                    message = "its process ended before it was done; was memory short?"
                else:
                    if isinstance(message, _Share):
                        watch.progress(job, *message)
                        continue
                    free.append(worker)
                del running[pipe]
                yield job, message
    finally:
        for worker in (*free, *(worker for worker, _ in running.values())):
            worker.close()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only it may set signals
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _serve(pipe: Connection) -> None:
    """What a worker does until it is ended, or its parent is gone."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        pipe.send(_compute(pipe.recv(), lambda share, text: pipe.send(_Share(share, text))))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
