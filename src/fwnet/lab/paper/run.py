"""Run experiments seed by seed; each finished seed is stored at once."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Any, final

import torch

from fwnet.data import DataError, note_sources
from fwnet.lab.paper.environment import environment
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, SeedResult
from fwnet.lab.paper.methods import trainings_in
from fwnet.lab.paper.store import Store, plain

_POLL = 0.1  # seconds between two looks at the workers' progress
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
        shared: where those of trainings that all seeds need are kept.
    """

    experiment: Experiment[Any]
    config: Any
    seed: int
    trainings: Path | None = None
    shared: Path | None = None

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

    def start(self, job: Job, left: float | None) -> None:
        """A seed starts; `left` are the seconds of work in the seeds after it, once known."""

    def progress(self, job: Job, share: float, text: str) -> None:
        """A running seed has done this share of its work."""

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done; `kept` if it had been done before."""

    def fail(self, job: Job) -> None:
        """A seed failed."""


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
        watch: called for every seed.
    """
    if workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1; got {workers!r}.")
    watch = RunObserver() if watch is None else watch
    known: dict[str, float] = {}  # seconds of a seed, by experiment
    left: list[Job] = []
    for job in jobs:
        done = store.done(job.name, profile, job.config, job.seed) if resume else None
        if done is None:
            own, shared = store.trainings(job.name, profile, job.config, job.seed)
            if not resume:
                for folder in (own, shared):
                    shutil.rmtree(folder, ignore_errors=True)
            left.append(replace(job, trainings=own, shared=shared))
        else:
            known[job.name] = done.seconds
            watch.finish(job, done.seconds, kept=True)
    failures: list[Failure] = []

    def following() -> Iterator[Job]:
        while left:
            job = left.pop(0)
            if all(failure.experiment != job.name for failure in failures):
                watch.start(job, _time_for(left, known))
                yield job

    count = min(workers, len(left))
    compute_all = (
        _in_parallel(following(), count, watch) if count > 1 else _here(following(), watch)
    )
    with closing(compute_all) as outcomes:  # ends the workers, whatever happens here
        for job, outcome in outcomes:
            if isinstance(outcome, str):
                failures.append(Failure(job.name, job.seed, outcome))
                watch.fail(job)
                continue
            metrics, seconds, data = outcome
            result = SeedResult(job.seed, metrics, seconds, environment() | {"data": data})
            store.write(job.name, profile, job.config, result)
            if job.trainings is not None:
                shutil.rmtree(job.trainings, ignore_errors=True)
            known[job.name] = seconds
            watch.finish(job, seconds, kept=False)
    return failures


def _time_for(jobs: Sequence[Job], known: dict[str, float]) -> float | None:
    """Seconds for the jobs: as another seed of the experiment took, else as the others did."""
    if jobs and not known:
        return None
    typical = mean(known.values()) if known else 0.0
    return sum(known.get(job.name, typical) for job in jobs)


_Outcome = tuple[dict[str, Any], float, str] | str
"""Plain metrics, seconds and where the data came from; or the reason of a failure."""
_Outcomes = Generator[tuple[Job, _Outcome], None, None]


def _compute(job: Job, progress: Progress) -> _Outcome:
    start = time.perf_counter()
    try:
        with note_sources() as noted, trainings_in(job.trainings, job.shared):
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


@final
class _Worker:
    """A pool of one process: if the process dies, its seed fails and no other.

    The process writes its progress into a pipe, and ends as soon as this end of it is closed.
    """

    def __init__(self) -> None:
        context = get_context("spawn")  # a forked torch can hang
        self.messages, theirs = context.Pipe()
        self.pool = ProcessPoolExecutor(1, context, _begin, (theirs,))

    def submit(self, job: Job) -> Future[_Outcome]:
        with _no_interrupts():  # inherited by the process: Ctrl-C reaches the parent only
            return self.pool.submit(_work, job)

    def close(self) -> None:
        self.messages.close()
        self.pool.shutdown()


def _in_parallel(jobs: Iterator[Job], count: int, watch: RunObserver) -> _Outcomes:
    """Outcomes in the order in which they are ready; a worker that died is replaced."""
    running: dict[Future[_Outcome], tuple[_Worker, Job]] = {}
    workers = [_Worker() for _ in range(count)]

    def start_next(worker: _Worker) -> None:
        job = next(jobs, None)
        if job is not None:
            running[worker.submit(job)] = worker, job

    try:
        for worker in workers:
            start_next(worker)
        while running:
            done, _ = wait(running, _POLL, FIRST_COMPLETED)
            for worker, job in running.values():
                with suppress(EOFError, OSError):  # the process died
                    while worker.messages.poll():
                        watch.progress(job, *worker.messages.recv())
            for future in done:
                worker, job = running.pop(future)
                outcome: _Outcome
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    outcome = "its process ended before it was done; was memory short?"
                    worker.close()
                    workers.remove(worker)
                    workers.append(worker := _Worker())
                except Exception as error:  # the job cannot be sent to a process
                    outcome = f"{type(error).__name__}: {error}"
                yield job, outcome
                start_next(worker)
    finally:
        for worker in workers:
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


_parent: Connection  # in a worker: the pipe to the process that started it


def _begin(parent: Connection) -> None:
    global _parent
    _parent = parent
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    with suppress(EOFError, OSError):
        parent.recv()  # nothing is ever sent: this returns when the other end is closed
    os._exit(1)


def _work(job: Job) -> _Outcome:
    return _compute(job, lambda share, text: _parent.send((share, text)))
