"""The one thing that is said without Typer: that it is missing."""

from __future__ import annotations

import sys


def needs_typer() -> None:
    """End with a sentence where the packages of the command line are not installed."""
    try:
        import rich
        import typer

        del rich, typer
    except ImportError:
        print('The command line needs Typer and Rich: pip install "fwnet[cli]".', file=sys.stderr)
        sys.exit(1)
