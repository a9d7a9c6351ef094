"""The commands. A new one is a file with a function, and one line here."""

from __future__ import annotations

from typing import Annotated

import typer

import fwnet
from fwnet.cli.bench import bench
from fwnet.cli.distributed import distributed
from fwnet.cli.errors import command
from fwnet.cli.evaluate import evaluate_command
from fwnet.cli.features import features
from fwnet.cli.fit import fit
from fwnet.cli.info import info
from fwnet.cli.meta_train import meta_train_command
from fwnet.cli.predict import predict
from fwnet.cli.report import report
from fwnet.cli.reproduce import reproduce
from fwnet.cli.solve import solve
from fwnet.cli.warm_up import warm_up

app = typer.Typer(
    name="fwnet",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"fwnet {fwnet.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Frank-Wolfe networks: solve, fit, and reproduce the paper."""


for function in (solve, fit, predict, reproduce, report, features, bench, info):
    app.command()(command(function))
app.add_typer(distributed, name="distributed")
app.command("warm-up")(command(warm_up))
app.command("meta-train")(command(meta_train_command))
app.command("evaluate")(command(evaluate_command))
