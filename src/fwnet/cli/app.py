"""The commands by name. A new command is a file with a function and one line here."""

from __future__ import annotations

import typer

from fwnet.cli.bench import bench
from fwnet.cli.errors import command
from fwnet.cli.evaluate import evaluate_command
from fwnet.cli.features import features
from fwnet.cli.fit import fit
from fwnet.cli.info import info
from fwnet.cli.meta_train import meta_train_command
from fwnet.cli.report import report
from fwnet.cli.reproduce import reproduce
from fwnet.cli.shard import shard
from fwnet.cli.solve import solve

app = typer.Typer(
    name="fwnet",
    help="Frank-Wolfe networks: solve, fit, and reproduce the paper.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for function in (solve, fit, reproduce, report, features, shard, bench, info):
    app.command()(command(function))
app.command("meta-train")(command(meta_train_command))
app.command("evaluate")(command(evaluate_command))
