"""The commands. A new one is a file with a function, and an entry here."""

from __future__ import annotations

import click

import fwnet
from fwnet.cli.bench import bench
from fwnet.cli.completion import completion_options
from fwnet.cli.distributed import distributed
from fwnet.cli.evaluate import evaluate
from fwnet.cli.features import features
from fwnet.cli.fit import fit
from fwnet.cli.info import info
from fwnet.cli.meta_train import meta_train
from fwnet.cli.predict import predict
from fwnet.cli.report import report
from fwnet.cli.reproduce import reproduce
from fwnet.cli.solve import solve
from fwnet.cli.warm_up import warm_up

_COMMANDS = (
    *(solve, fit, predict, reproduce, report, features, bench, info, warm_up),
    *(meta_train, evaluate, distributed),
)
_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


class _InOrder(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        """In the order of the list above, not of the alphabet."""
        return list(self.commands)


@click.group("fwnet", cls=_InOrder, commands=_COMMANDS, context_settings=_SETTINGS)
@click.version_option(fwnet.__version__, message="fwnet %(version)s")
@completion_options
def app() -> None:
    """Frank-Wolfe networks: solve, fit, and reproduce the paper."""
