"""The command `fwnet`: parse, call, print. One file per command."""

from __future__ import annotations

import io
import sys

from fwnet.cli.missing import needs_typer

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit with 0, 1 (failed), 2 (usage) or 130 (Ctrl-C)."""
    needs_typer()
    from fwnet.cli.app import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # ∇ is not in every code page
    try:
        app(prog_name="fwnet")
    except KeyboardInterrupt:  # while modules load, before a command runs
        sys.exit(130)
