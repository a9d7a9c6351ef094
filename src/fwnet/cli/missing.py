"""The message shown if Typer is not installed."""

from __future__ import annotations

import sys


def needs_typer() -> None:
    """Exit with a message unless the packages of the command line are installed."""
    try:
        import rich
        import typer

        del rich, typer
    except ImportError:
        print('The command line needs Typer and Rich: pip install "fwnet[cli]".', file=sys.stderr)
        sys.exit(1)
