"""A progress bar: by rich on a terminal, by IPython in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from contextlib import ExitStack

from fwnet.numerics.optional import optional


def progress_bar(stack: ExitStack, total: int) -> Callable[[float, str | None], None]:
    """A progress bar, closed by the stack: call it with the count and a text (or None)."""
    if "ipykernel" in sys.modules:  # rich would need ipywidgets there
        return _notebook_bar(total)
    console, bars = (
        optional(f"rich.{part}", "progress=True", "progress") for part in ("console", "progress")
    )
    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.description}"),
    )
    # On stderr, since results go to stdout.
    display = bars.Progress(*columns, console=console.Console(stderr=True))
    stack.enter_context(display)
    task = display.add_task("", total=total)

    def advance(done: float, text: str | None) -> None:
        display.update(task, completed=done, description=text)

    return advance


def _notebook_bar(total: int) -> Callable[[float, str | None], None]:
    """A bar of HTML in the output of the cell; it changes at most a hundred times."""
    from IPython.display import HTML, display

    shown, last = display(HTML(""), display_id=True), -1

    def advance(done: float, text: str | None) -> None:
        nonlocal last
        percent = int(100 * done / max(1, total))
        if percent > last:
            last = percent
            bar = f"<progress value='{done}' max='{total}'></progress>"
            shown.update(HTML(f"{bar} {int(done)}/{total} {html.escape(text or '')}"))

    return advance
