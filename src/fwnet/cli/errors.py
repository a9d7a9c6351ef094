"""What goes wrong is said in one sentence, with an exit code: 1 failed, 2 usage, 130 Ctrl-C."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from fwnet.data import DataError
from fwnet.paper.store import StoreError

P = ParamSpec("P")
T = TypeVar("T")
_EXPECTED = (DataError, StoreError, ValueError, TypeError, ImportError, OSError)


class Failed(RuntimeError):
    """A command did not do what it was asked; the message says why."""


def command(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a command: no traceback reaches the user, unless FWNET_DEBUG asks for it."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt as stop:
            say(str(stop) or "Stopped.")
            raise typer.Exit(130) from None
        except (Failed, *_EXPECTED) as error:
            _debug()
            say(" ".join(str(error).split()))
        except typer.Exit:
            raise
        except Exception as error:
            if isinstance(error, typer.BadParameter):
                raise
            _debug()
            say(
                f"{type(error).__name__}: {error}. This is a fault of fwnet; FWNET_DEBUG=1 shows "
                "where it happened."
            )
        raise typer.Exit(1)

    return guarded


def say(sentence: str) -> None:
    """A sentence to the standard error stream."""
    print(f"fwnet: {sentence}", file=sys.stderr)


def _debug() -> None:
    if os.environ.get("FWNET_DEBUG"):
        traceback.print_exc()
