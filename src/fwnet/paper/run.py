"""Run experiments seed by seed; each finished seed is kept at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol, final

from fwnet.paper.environment import environment
from fwnet.paper.experiment import Experiment, Profile, SeedResult
from fwnet.paper.jobs import Job, Outcome, compute
from fwnet.paper.store import Store
from fwnet.paper.workers import work


@final
@dataclass(frozen=True)
class Failure:
    """An experiment that could not be run, and why."""

    experiment: str
    seed: int
    reason: str


class Watch(Protocol):
    """Who is told how a run goes: a progress bar, a log, nobody."""

    def start(self, job: Job, left: float | None) -> None:
        """A seed starts; `left` are the seconds of work in the seeds after it, once known."""

    def progress(self, job: Job, share: float, text: str) -> None:
        """A running seed got so far."""

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done; `kept` if it had been done before."""

    def fail(self, job: Job) -> None:
        """A seed failed."""


@final
class Silent:
    """Tells nobody."""

    def start(self, job: Job, left: float | None) -> None:
        """Nothing."""

    def progress(self, job: Job, share: float, text: str) -> None:
        """Nothing."""

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """Nothing."""

    def fail(self, job: Job) -> None:
        """Nothing."""


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
    watch: Watch | None = None,
) -> list[Failure]:
    """Run the jobs and keep each result; return what failed.

    An experiment that fails does not stop the others. Ctrl-C does, and everything finished stays.

    Arguments:
        jobs: from `plan`.
        profile: the results are kept under its name.
        store: where they are kept.
        resume: take seeds that are done as they are.
        workers: processes that compute side by side, one thread each; with 1, this process does.
        watch: is told of every seed.
    """
    if workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1; got {workers!r}.")
    watch = Silent() if watch is None else watch
    known: dict[str, float] = {}  # seconds of a seed, by experiment
    waiting: list[Job] = []
    for job in jobs:
        done = store.done(job.name, profile, job.config, job.seed) if resume else None
        if done is None:
            waiting.append(job)
        else:
            known[job.name] = done.seconds
            watch.finish(job, done.seconds, kept=True)
    failures: list[Failure] = []
    count = min(workers, len(waiting))
    for job, outcome in _outcomes(waiting, count, known, failures, watch):
        if outcome.metrics is None:
            failures.append(Failure(job.name, job.seed, outcome.reason))
            watch.fail(job)
            continue
        facts = environment() | {"data": outcome.data}
        result = SeedResult(job.seed, outcome.metrics, outcome.seconds, facts)
        store.write(job.name, profile, job.config, result)
        known[job.name] = outcome.seconds
        watch.finish(job, outcome.seconds, kept=False)
    return failures


def _outcomes(
    waiting: Sequence[Job],
    workers: int,
    known: dict[str, float],
    failures: Sequence[Failure],
    watch: Watch,
) -> Iterator[tuple[Job, Outcome]]:
    """Outcomes as they come; an experiment that failed is not tried with its other seeds."""
    left = list(waiting)

    def todo() -> Iterator[Job]:
        while left:
            job = left.pop(0)
            if all(failure.experiment != job.name for failure in failures):
                yield job

    def started(job: Job) -> None:
        watch.start(job, _time_for(left, known))

    if workers > 1:
        yield from work(todo(), workers, started, watch.progress)
        return
    for job in todo():
        started(job)

        def progress(share: float, text: str, job: Job = job) -> None:
            watch.progress(job, share, text)

        yield job, compute(job, progress)


def _time_for(jobs: Sequence[Job], known: dict[str, float]) -> float | None:
    """Seconds for the jobs: as another seed of the experiment took, else as the others did."""
    if jobs and not known:
        return None
    typical = mean(known.values()) if known else 0.0
    return sum(known.get(job.name, typical) for job in jobs)
