"""`fwnet info`: versions, device, data."""

from __future__ import annotations

from fwnet.cli.errors import command
from fwnet.cli.output import as_json, facts_table, show


@command("info")
@as_json
def info(as_json: bool) -> None:
    """Show versions, the device, and which data is on this machine.

    Examples:

        fwnet info
        fwnet info --json
    """
    from fwnet.data import available
    from fwnet.data.load import missing_file
    from fwnet.data.sources import folders
    from fwnet.lab.paper.environment import device, versions

    found = available()
    searched = [str(folder) for folder in folders()]
    incomplete = {name: why for name in found if (why := missing_file(name))}
    data = {
        "versions": versions(),
        "device": device(),
        "data": found,
        "incomplete": incomplete,
        "searched": searched,
    }
    places = {name: where or incomplete.get(name, "not here") for name, where in found.items()}
    show(
        data,
        as_json,
        facts_table("Versions", versions()),
        facts_table("Device", {"torch runs on": device()}),
        facts_table(f"Data (searched: {', '.join(searched)})", places),
    )
