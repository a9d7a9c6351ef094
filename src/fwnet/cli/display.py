"""Progress bars with the time left, for runs of many seeds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fwnet.lab.paper.run import Job, RunObserver


@final
@dataclass
class _Running:
    bar: TaskID
    began: float
    share: float = 0.0

    def left(self) -> float | None:
        """Seconds left at the pace so far; None while unknown."""
        if self.share <= 0.02:
            return None
        return (time.perf_counter() - self.began) * (1 - self.share) / self.share


@final
class Display(RunObserver):
    """A context manager that shows seeds as they run, on the standard error stream.

    Arguments:
        total: number of seeds.
        workers: number of seeds that run at the same time.
    """

    def __init__(self, total: int, workers: int) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._workers = workers
        self._whole = self._bars.add_task("all seeds", total=float(total), note="")
        self._done = 0
        self._running: dict[Job, _Running] = {}
        self._after: float | None = None

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

    def start(self, job: Job, left: float | None) -> None:
        """A seed starts; `left` is the time for the seeds after it, in seconds, if known."""
        bar = self._bars.add_task(f"{job.name}, seed {job.seed}", total=1.0, note="")
        self._running[job] = _Running(bar, time.perf_counter())
        self._after = left

    def progress(self, job: Job, share: float, text: str) -> None:
        """A running seed reports its progress."""
        running = self._running[job]
        running.share = min(max(share, 0.0), 1.0)
        self._bars.update(running.bar, completed=running.share, note=text)
        self._update()

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done."""
        how = "kept from before" if kept else f"{seconds:.1f} s"
        self._end(job, how)

    def fail(self, job: Job) -> None:
        """A seed failed."""
        self._end(job, "failed")

    def _end(self, job: Job, how: str) -> None:
        running = self._running.pop(job, None)
        if running is not None:
            self._bars.remove_task(running.bar)
        self._done += 1
        self._bars.console.print(f"{job.name:<12} seed {job.seed:<3} {how}")
        self._update()

    def _update(self) -> None:
        share = self._done + sum(each.share for each in self._running.values())
        self._bars.update(self._whole, completed=share, note=self._left())

    def _left(self) -> str:
        """Running seeds at their pace so far, the others as long as similar ones took."""
        mine = [left for each in self._running.values() if (left := each.left()) is not None]
        if not mine or self._after is None:
            return ""
        seconds = max(max(mine), (sum(mine) + self._after) / self._workers)
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02d} left"
