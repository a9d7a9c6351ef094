"""A progress bar with the time left, for runs of many seeds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fwnet.paper.run import Job


@final
class Display:
    """Shows seeds as they are run; a context manager. Writes to the standard error stream."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bars.add_task("", total=1.0, left="")
        self._total = 1
        self._done = 0
        self._began = 0.0
        self._others: float | None = None
        self._name = ""

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def start(self, job: Job, jobs: int, left: float | None) -> None:
        """A seed starts; `left` are the seconds for the seeds after it, once known."""
        self._total, self._others, self._began = jobs, left, time.perf_counter()
        self._name = f"{job.experiment.name}, seed {job.seed}"
        self.progress(0.0, "")

    def progress(self, share: float, text: str) -> None:
        """The running seed got so far."""
        self._bars.update(
            self._task,
            total=float(self._total),
            completed=self._done + min(max(share, 0.0), 1.0),
            description=f"{self._name}: {text}" if text else self._name,
            left=self._left(share),
        )

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done."""
        self._done += 1
        how = "kept from before" if kept else f"{seconds:.1f} s"
        self._bars.console.print(f"{job.experiment.name:<12} seed {job.seed:<3} {how}")

    def _left(self, share: float) -> str:
        """This seed at its pace so far, and the others as their like took."""
        if share <= 0.02:
            return ""
        mine = (time.perf_counter() - self._began) * (1 - share) / share
        if self._others is None:
            return f"{_clock(mine)} left of this seed"
        return f"{_clock(mine + self._others)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
