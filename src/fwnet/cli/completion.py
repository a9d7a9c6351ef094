"""Completion by the shell: --show-completion prints its script, --install-completion writes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

_FILES = {  # the script, the file that a shell reads when it starts, and what to add there
    "bash": (".bash_completions/fwnet.sh", ".bashrc", "source ~/.bash_completions/fwnet.sh"),
    "zsh": (".zfunc/_fwnet", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/fwnet.fish", None, ""),
}


def completion_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --install-completion and --show-completion."""
    return _option("--install-completion", _install, "Install completion for the current shell.")(
        _option(
            "--show-completion",
            _show,
            "Show completion for the current shell, to copy it or customize the installation.",
        )(command)
    )


def _option(
    name: str, call: Callable[[ShellComplete], str], text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A flag that prints what the function returns for the script of the shell, and ends."""

    def callback(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
        if asked and not context.resilient_parsing:
            click.echo(call(_script(context)))
            context.exit()

    return click.option(
        name, is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text
    )


def _script(context: click.Context) -> ShellComplete:
    from click.shell_completion import get_completion_class

    shell = Path(os.environ.get("SHELL") or ("powershell" if os.name == "nt" else "")).stem
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(
            f"there is no completion for the shell {shell!r} of the variable SHELL. Known: "
            f"{', '.join(_FILES)}."
        )
    return made(context.command, {}, "fwnet", "_FWNET_COMPLETE")


def _show(script: ShellComplete) -> str:
    return script.source()


def _install(script: ShellComplete) -> str:
    if script.name not in _FILES:
        raise click.UsageError(
            f"copy the output of --show-completion into the profile of {script.name}."
        )
    place, profile, line = _FILES[script.name]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script.source())
    if profile is not None:
        read = Path.home() / profile
        before = read.read_text() if read.exists() else ""
        if line not in before.splitlines():
            read.write_text(f"{before.rstrip()}\n\n{line}\n".lstrip())
    return f"{script.name} completion installed in {path}. Restart the terminal."
