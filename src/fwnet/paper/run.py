"""Run experiments seed by seed; each finished seed is kept before the next one starts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol, final

from fwnet.data import DataError
from fwnet.paper.environment import environment
from fwnet.paper.experiment import Experiment, Profile, SeedResult
from fwnet.paper.store import Store, StoreError


@final
@dataclass(frozen=True, eq=False)
class Job:
    """One seed of one experiment."""

    experiment: Experiment[Any]
    config: Any
    seed: int


@final
@dataclass(frozen=True)
class Failure:
    """An experiment that could not be run, and why."""

    experiment: str
    seed: int
    reason: str


class Watch(Protocol):
    """Who is told how a run goes: a progress bar, a log, nobody."""

    def start(self, job: Job, jobs: int, left: float | None) -> None:
        """A seed starts; `left` are the seconds for the seeds after it, once known."""

    def progress(self, share: float, text: str) -> None:
        """The running seed got so far."""

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done; `kept` if it had been done before."""


@final
class Silent:
    """Tells nobody."""

    def start(self, job: Job, jobs: int, left: float | None) -> None:
        """Nothing."""

    def progress(self, share: float, text: str) -> None:
        """Nothing."""

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """Nothing."""


def plan(
    experiments: Iterable[Experiment[Any]], profile: Profile, seeds: int | None = None
) -> list[Job]:
    """All seeds of all experiments; `seeds` of each, or as many as the profile says."""
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
    watch: Watch | None = None,
) -> list[Failure]:
    """Run the jobs in order and keep each result; return what failed.

    A seed that fails does not stop the others. Ctrl-C does, and everything finished stays.

    Arguments:
        jobs: from `plan`.
        profile: the results are kept under its name.
        store: where they are kept.
        resume: take seeds that are done as they are.
        watch: is told of every seed.
    """
    watch = Silent() if watch is None else watch
    failures: list[Failure] = []
    known: dict[str, float] = {}  # seconds of a seed, by experiment
    waiting: list[Job] = []
    for job in jobs:
        done = _done(job, profile, store) if resume else None
        if done is None:
            waiting.append(job)
        else:
            known[job.experiment.name] = done.seconds
            watch.finish(job, done.seconds, kept=True)
    for i, job in enumerate(waiting):
        name = job.experiment.name
        if any(failure.experiment == name for failure in failures):
            continue  # the other seeds would fail alike
        watch.start(job, len(jobs), _time_for(waiting[i + 1 :], known))
        start = time.perf_counter()
        try:
            metrics = job.experiment.run(job.config, job.seed, watch.progress)
            seconds = time.perf_counter() - start
            result = SeedResult(job.seed, metrics, seconds, environment())
            store.write(name, profile, job.config, result)
        except StoreError:
            raise  # the next seed could not be kept either
        except DataError as error:
            failures.append(Failure(name, job.seed, str(error)))
        except Exception as error:
            failures.append(Failure(name, job.seed, f"{type(error).__name__}: {error}"))
        else:
            known[name] = seconds
            watch.finish(job, seconds, kept=False)
    return failures


def _done(job: Job, profile: Profile, store: Store) -> SeedResult | None:
    return store.done(job.experiment.name, profile, job.config, job.seed)


def _time_for(jobs: Sequence[Job], known: dict[str, float]) -> float | None:
    """Seconds for the jobs: as another seed of the experiment took, else as the others did."""
    if jobs and not known:
        return None
    typical = mean(known.values()) if known else 0.0
    return sum(known.get(job.experiment.name, typical) for job in jobs)
