"""Errors: one sentence each, with an exit code: 1 failed, 2 usage, 130 Ctrl-C."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TextIO

import click

P = ParamSpec("P")


class Failed(RuntimeError):
    """A command failed; the message says why."""


def command(name: str, epilog: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function; its docstring is the help, its first sentence the summary."""

    def make(function: Callable[..., None]) -> click.Command:
        text = inspect.getdoc(function) or ""
        return click.command(
            name,
            help=keep_lines(text),
            short_help=" ".join(text.partition("\n\n")[0].split()),
            epilog=epilog and keep_lines(epilog),
        )(_guarded(function))

    return make


def keep_lines(text: str) -> str:
    """Mark lists and examples with \\b, so that Click does not fill their lines."""
    parts = text.split("\n\n")
    return "\n\n".join(f"\b\n{part}" if part.startswith((" ", "- ")) else part for part in parts)


def _guarded(function: Callable[P, None]) -> Callable[P, None]:
    """Show users no traceback, unless FWNET_DEBUG is set."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _plain_warnings():
                return function(*args, **kwargs)
        except KeyboardInterrupt as stop:
            say(str(stop) or "Stopped.")
            raise click.exceptions.Exit(130) from None
        except (click.exceptions.Exit, click.UsageError):
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
        raise click.exceptions.Exit(1)

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
