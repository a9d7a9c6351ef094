"""`fwnet meta-train`: train a controller on a family of problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fwnet.cli.errors import Failed, command
from fwnet.cli.names import completes, is_own, known, own_family
from fwnet.cli.output import FILE, as_json, facts_table, make_folder, save_picture, show

if TYPE_CHECKING:
    from fwnet.learned import Controller, MetaHistory, ProblemFamily


FAMILIES = ("svm", "deep-svm", "quadratic", "least-squares")
CONTROLLERS = (
    *("step", "direction", "pairwise", "atoms"),
    *("lstm-step", "lstm-direction", "hierarchical"),
)


@command("meta-train")
@click.option(
    "--out",
    type=FILE,
    required=True,
    help="Folder of the run; the same command again resumes it.",
)
@click.option(
    "--family",
    default="svm",
    shell_complete=completes(FAMILIES),
    help="Problems to train on: svm, deep-svm, quadratic, least-squares, or your own as "
    "module:Class.",
)
@click.option(
    "--controller", type=click.Choice(CONTROLLERS), default="direction", help="What is learned."
)
@click.option("--minutes", type=float, help="Stop after this many minutes.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Episodes. [default: direction 320, step and pairwise 60, atoms 10, others 300]",
)
@click.option(
    "--unroll",
    type=click.IntRange(min=1),
    help="Solver steps per update. [default: step and pairwise all, direction 14, atoms 16, "
    "others 20]",
)
@click.option("--size", type=(int, int), help="Smallest and largest n. [default: 64 384]")
@click.option("--seed", default=0, help="Seed of all randomness.")
@as_json
def meta_train(
    out: Path,
    family: str,
    controller: str,
    minutes: float | None,
    steps: int | None,
    unroll: int | None,
    size: tuple[int, int] | None,
    seed: int,
    as_json: bool,
) -> None:
    """Train a controller; resumes where an earlier call with the same options stopped.

    Writes controller.fwnet (the best weights by validation), history.jsonl and, with matplotlib,
    curves.png to the folder.

    Examples:

        fwnet meta-train --family svm --controller direction --minutes 10 --out runs/mine
        fwnet meta-train --controller lstm-step --steps 50 --out runs/paper-step
        fwnet meta-train --family my_problems:Prices --controller step --out runs/prices
    """
    if minutes is not None and not minutes > 0:
        raise click.BadParameter(f"--minutes must be positive; got {minutes:g}.")
    import torch

    from fwnet import learned

    asked = {"steps": steps, "unroll": unroll}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    make_folder("--out", out)
    training, validation = _families(family, size)
    torch.manual_seed(seed)  # for the initial weights, which use torch's own generator
    chosen = _controller(controller)
    config = replace(learned.MetaConfig.suited_to(chosen), seed=seed, **given)
    try:
        _, history = learned.meta_train(
            chosen,
            training,
            config,
            validation=validation,
            out=out,
            minutes=minutes,
            progress=not as_json,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Stopped. Finished episodes are kept in {out}; the same command resumes from there."
        ) from None
    if not history:
        raise Failed("no episode finished within --minutes; allow more.")
    _draw(history, out)
    facts = {
        "controller": (out / "controller.fwnet").as_posix(),
        "episodes": len(history),
        "of": config.steps,
        "first validation loss": history.initial,
        "best validation loss": min(history.validations),
        "seconds": sum(record.seconds for record in history),
    }
    show(facts, as_json, facts_table(str(out), facts))


def _controller(name: str) -> Controller:
    from fwnet import learned

    made: dict[str, Callable[[], Controller]] = {
        "step": learned.LearnedStep,
        "direction": lambda: learned.LearnedDirection(memory=4),
        "pairwise": learned.LearnedPairwise,
        "atoms": learned.LearnedAtoms,
        "lstm-step": learned.LSTMStep,
        "lstm-direction": learned.LSTMDirection,
        "hierarchical": lambda: learned.HierarchicalDirection(blocks=2),
    }
    return made[name]()


def _families(
    name: str, size: tuple[int, int] | None
) -> tuple[ProblemFamily, ProblemFamily | None]:
    """Problems for training and for validation (None: new draws of the former)."""
    from fwnet.lab.recipes.simplex import svm_families
    from fwnet.learned import families

    if is_own(name):
        if size is not None:
            raise click.BadParameter(f"--size does not apply to {name}, which has its own.")
        return own_family(name), None
    size = size or (64, 384)
    if known("family", name, FAMILIES) == "svm":
        return svm_families(size)
    if name == "deep-svm":
        return families.deep_svms("train", n=size), families.deep_svms("validation", n=size)
    if name == "quadratic":
        return families.QuadraticFamily(n=size), None
    return families.LeastSquaresFamily(n=size), None


def _draw(history: MetaHistory, out: Path) -> None:
    try:
        figure: Any = history.plot().figure
    except ImportError:  # matplotlib is optional; history.jsonl has the numbers
        return
    save_picture(figure, out / "curves.png")
