"""Names typed by the user: looked up, completed by the shell, corrected."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fwnet.learned import ProblemFamily


def known(what: str, name: str, names: Iterable[str]) -> str:
    """Return a known name; raise a usage error with the closest one otherwise."""
    names = list(names)
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise click.BadParameter(f"there is no {what} {name!r}. {hint}Known: {', '.join(names)}.")


def completes(
    names: Iterable[str],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For the `shell_complete` of a parameter: the names that start with the typed text."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        return [name for name in names if name.startswith(typed)]

    return complete


def is_own(name: str) -> bool:
    """Whether a name is module:Class, something of the user's."""
    return ":" in name


def own_family(name: str) -> ProblemFamily:
    """The family of problems module:Class, in this folder or on the Python path."""
    from fwnet.data.features import made_by
    from fwnet.learned import ProblemFamily

    sys.path.insert(0, os.getcwd())  # the installed script leaves it out
    noun = "a family of problems (learned.ProblemFamily)"
    try:
        family: ProblemFamily = made_by(name, ProblemFamily, noun)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return family
