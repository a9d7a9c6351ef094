"""The command `fwnet`: parse, call, print. One file per command.

A command imports what it needs when it runs, so that --help and the shell's completion do not wait
for torch.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

__all__ = ["main", "run"]


def main() -> None:
    """The command `fwnet`."""
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 (failed), 2 (usage) or 130 (Ctrl-C).

    Arguments:
        arguments: after the name of the program; those of this process by default.
    """
    try:
        from fwnet.cli.app import app
    except ImportError as error:
        if error.name != "click":
            raise
        print('The command line needs Click: pip install "fwnet[cli]".', file=sys.stderr)
        return 1

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # ∇ is not in every code page
    try:
        app(None if arguments is None else list(arguments), prog_name="fwnet")
    except KeyboardInterrupt:  # while modules load, before a command runs
        return 130
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
