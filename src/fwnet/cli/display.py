"""Progress bars with the time left, for runs of many seeds."""

from __future__ import annotations

from types import TracebackType
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fwnet.lab.paper.run import Job, RunObserver


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
        self._running: dict[Job, TaskID] = {}
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
        self._running[job] = self._bars.add_task(f"{job.name}, seed {job.seed}", total=1.0, note="")
        self._after = left

    def progress(self, job: Job, share: float, text: str) -> None:
        """A running seed reports its progress."""
        done = min(max(share, 0.0), 1.0)
        self._bars.update(self._running[job], completed=done, note=text)
        self._update()

    def finish(self, job: Job, seconds: float, kept: bool) -> None:
        """A seed is done."""
        self._end(job, "kept from before" if kept else f"{seconds:.1f} s")

    def fail(self, job: Job) -> None:
        """A seed failed."""
        self._end(job, "failed")

    def _end(self, job: Job, how: str) -> None:
        if job in self._running:
            self._bars.remove_task(self._running.pop(job))
        self._done += 1
        self._bars.console.print(f"{job.name:<12} seed {job.seed:<3} {how}")
        self._update()

    def _update(self) -> None:
        """Running seeds at their pace so far, the others as long as similar ones took."""
        running = [task for task in self._bars.tasks if task.id in self._running.values()]
        known = [task.time_remaining for task in running if task.time_remaining is not None]
        note = ""
        if known and self._after is not None:
            seconds = max(*known, (sum(known) + self._after) / self._workers)
            note = f"{int(seconds) // 60}:{int(seconds) % 60:02d} left"
        share = self._done + sum(task.completed for task in running)
        self._bars.update(self._whole, completed=share, note=note)
