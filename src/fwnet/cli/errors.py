"""Errors: one sentence each, with an exit code: 1 failed, 2 usage, 130 Ctrl-C."""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TextIO, TypeVar

import typer

P = ParamSpec("P")
T = TypeVar("T")


class Failed(RuntimeError):
    """A command failed; the message says why."""


def command(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a command so that users see no traceback, unless FWNET_DEBUG is set."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with _plain_warnings():
                return function(*args, **kwargs)
        except KeyboardInterrupt as stop:
            say(str(stop) or "Stopped.")
            raise typer.Exit(130) from None
        except (typer.Exit, typer.BadParameter):
            raise
        except Exception as error:
            if os.environ.get("FWNET_DEBUG"):
                traceback.print_exc()
            if _is_expected(error):
                say(" ".join(str(error).split()))
            else:
                say(
                    f"{type(error).__name__}: {error}. This is a bug in fwnet; FWNET_DEBUG=1 shows "
                    "where it happened."
                )
        raise typer.Exit(1)

    return guarded


def _is_expected(error: Exception) -> bool:
    """Whether the message was written for users."""
    from fwnet.data import DataError
    from fwnet.lab.paper.store import StoreError

    plain = (ValueError, TypeError, ImportError, OSError, FloatingPointError)
    return isinstance(error, (Failed, DataError, StoreError, *plain))


def say(sentence: str) -> None:
    """Print a sentence to the standard error stream, with a coloured name on a terminal."""
    if not sys.stderr.isatty():
        print(f"fwnet: {sentence}", file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("fwnet:", "bold red"), f" {sentence}")
    Console(stderr=True).print(line, soft_wrap=True, highlight=False)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings for users without file and line, and hide those for developers."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        say(" ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield
