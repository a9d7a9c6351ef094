"""A progress bar, by rich."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


def progress_bar(stack: ExitStack, total: int) -> Callable[[int, str | None], None]:
    """A rich progress bar, closed by the stack: call it with the count and a text (or None)."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        raise ImportError(
            'progress=True needs rich: pip install "fwnet[progress]", or leave progress out.'
        ) from None
    columns: list[Any] = [
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    ]
    # On stderr, since results go to stdout.
    display = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
    task = display.add_task("", total=total)

    def advance(done: int, text: str | None) -> None:
        display.update(task, completed=done, description=text)

    return advance
