"""`fwnet report`: rebuild the page from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fwnet.cli.errors import Failed, command, say
from fwnet.cli.output import FILE, as_json, make_folder
from fwnet.cli.reproduce import PROFILES, write_page

if TYPE_CHECKING:
    from fwnet.lab.paper.experiment import Results


@command("report")
@click.argument("runs", type=FILE, default="runs", help="Folder of the results.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="Show only this profile. [default: the largest of each]",
)
@click.option("--out", type=FILE, default="report", help="Folder of the page.")
@as_json
def report(runs: Path, profile: str | None, out: Path, as_json: bool) -> None:
    """Rebuild the page from stored results, without training.

    Examples:

        fwnet report
        fwnet report runs --profile paper --out docs/reproduction
    """
    from fwnet.lab.paper.experiments import EXPERIMENTS
    from fwnet.lab.paper.store import Store

    if not runs.is_dir():
        raise Failed(f"there is no folder {runs}. Run `fwnet reproduce` first.")
    results = Store(runs, warn=say).results()
    if profile is not None:
        results = [each for each in results if each.profile.value == profile]
    if not results:
        which = "no results" if profile is None else f"no results of the profile {profile}"
        raise Failed(f"{runs} holds {which}. Run `fwnet reproduce` first.")
    make_folder("--out", out)
    write_page(EXPERIMENTS, _largest(results), out, f"fwnet report {runs}", as_json)


def _largest(results: list[Results]) -> list[Results]:
    """The largest profile of each experiment."""
    best: dict[str, Results] = {}
    for each in sorted(results, key=lambda r: PROFILES.index(r.profile.value)):
        best[each.experiment] = each
    return list(best.values())
