"""What commands print: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

FILE = click.Path(path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
separator = click.option(
    "--separator",
    help="Between the columns of a CSV file. [default: a comma; a tab in .tsv]",
)
decimal = click.option("--decimal", default=".", help="Decimal mark of numbers in a CSV file.")
# Colours on a terminal; rich leaves them out elsewhere, and where NO_COLOR is set.
_STYLES = {"converged": "green", "holds": "green", "max_steps": "yellow", "does not hold": "red"}


def show(data: Any, as_json: bool, *tables: Table) -> None:
    """Print the data as JSON, or the tables, to the standard output stream."""
    from rich.console import Console

    from fwnet.lab.paper.store import plain

    if as_json:
        print(json.dumps(plain(data, digits=17)))
        return
    console = Console()
    for table in tables:
        console.print(table)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A plain table with numbers aligned right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        show_header=any(columns),
    )
    numeric = [any(isinstance(row[j], int | float) for row in rows) for j in range(len(columns))]
    for column, number in zip(columns, numeric, strict=True):
        made.add_column(column, justify="right" if number else "left")
    for row in rows:
        made.add_row(*(Text(_text(value), _STYLES.get(str(value), "")) for value in row))
    return made


def facts_table(title: str, facts: Mapping[str, Any]) -> Table:
    """A table of names and values."""
    return table(title, ["", ""], [[name.replace("_", " "), facts[name]] for name in facts])


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(value) or "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def check_target(option: str, path: Path | None, *suffixes: str) -> None:
    """Check, before any work, that an output file has an existing folder and a known suffix."""
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        words = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise click.BadParameter(f"{option} must end in {words}; got {path}.")
    if not path.parent.is_dir():
        raise click.BadParameter(
            f"{option} {path} needs the folder {path.parent}, which does not exist."
        )
    if path.is_dir():
        raise click.BadParameter(f"{option} {path} is a folder; name a file in it.")


def make_folder(option: str, path: Path) -> None:
    """Make a folder for output, before any work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{option} {path} cannot be a folder: {error.strerror}.") from None


def write_arrays(option: str, path: Path, **arrays: Any) -> None:
    """Write arrays to an NPZ file, or one array to a CSV file, whole or not at all."""
    import numpy as np

    from fwnet.numerics.files import written_whole

    with written_whole(path, f"{option} {path}") as file:
        if path.suffix == ".npz":
            np.savez(file, **arrays)
        else:
            (array,) = arrays.values()
            np.savetxt(file, array, delimiter=",", fmt="%.17g")


def save_picture(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, whole or not at all, in the format of the suffix."""
    from fwnet.numerics.files import written_whole

    with written_whole(path) as file:
        figure.savefig(file, dpi=160, format=path.suffix[1:])
