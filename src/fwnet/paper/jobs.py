"""One seed of one experiment: computed here, or by a worker."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, final

from fwnet.data import DataError, note_sources
from fwnet.paper.experiment import Experiment, Progress


@final
@dataclass(frozen=True, eq=False)
class Job:
    """One seed of one experiment."""

    experiment: Experiment[Any]
    config: Any
    seed: int

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.experiment.name


@final
@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job gave: metrics, or the reason why there are none.

    Arguments:
        metrics: of the seed; None where it failed.
        seconds: it took.
        reason: a sentence, empty where it did not fail.
        data: where the sets came from that it loaded.
    """

    metrics: dict[str, Any] | None
    seconds: float
    reason: str = ""
    data: str = ""


def compute(job: Job, progress: Progress) -> Outcome:
    """Run a job; an error is an outcome too, Ctrl-C is not."""
    start = time.perf_counter()
    try:
        with note_sources() as noted:
            metrics = job.experiment.run(job.config, job.seed, progress)
    except DataError as error:
        return Outcome(None, time.perf_counter() - start, str(error))
    except Exception as error:
        return Outcome(None, time.perf_counter() - start, f"{type(error).__name__}: {error}")
    data = "; ".join(f"{source} ({content})" for source, content in sorted(noted.items()))
    return Outcome(metrics, time.perf_counter() - start, data=data)
