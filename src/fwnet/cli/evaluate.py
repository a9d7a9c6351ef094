"""`fwnet evaluate`: a controller against tuned baselines on held-out problems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fwnet.cli.errors import command
from fwnet.cli.names import is_own, known, own_family
from fwnet.cli.output import FILE, as_json, facts_table, make_folder, save_picture, show

if TYPE_CHECKING:
    from fwnet.learned import Evaluation, ProblemFamily, families

_FAMILIES = {  # functions of fwnet.learned.families
    "digits": "digits_pairs",
    "circles": "circles",
    "mnist-pairs": "mnist_pairs",
    "deep-svm": "deep_svms",
}


@command("evaluate")
@click.argument("controller", help="A shipped controller, a .fwnet file, or a run of meta-train.")
@click.option(
    "--on",
    "--family",
    default="digits",
    help="Families, with commas: digits, circles, mnist-pairs, deep-svm, or your own as "
    "module:Class.",
)
@click.option("--C", "c", type=float, help="Of the SVMs. [default: 10]")
@click.option("--size", type=click.IntRange(min=4), help="Points per problem. [default: 300]")
@click.option(
    "--problems", type=click.IntRange(min=1), default=20, help="Held-out problems per family."
)
@click.option("--max-steps", type=click.IntRange(min=1), default=2000, help="Step limit per run.")
@click.option(
    "--tolerances",
    default="1e-2,1e-3,1e-4",
    help="Relative suboptimalities to reach, with commas.",
)
@click.option("--out", type=FILE, help="Folder for results and pictures.")
@click.option("--seed", default=0, help="Seed of the problems.")
@as_json
def evaluate(
    controller: str,
    on: str,
    c: float | None,
    size: int | None,
    problems: int,
    max_steps: int,
    tolerances: str,
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compare a controller with hand-designed methods, tuned on validation problems.

    Examples:

        fwnet evaluate simplex-qp
        fwnet evaluate runs/mine --on digits,circles,mnist-pairs --out runs/mine/evaluation
        fwnet evaluate runs/mine --family my_problems:Prices --problems 5
    """
    import torch

    from fwnet import learned

    names = _names(on)
    c, size = _sizes(names, c, size)
    goals = _tolerances(tolerances)
    judged = learned.load(controller)
    for name in names:  # before the baselines are tuned, which takes a while
        judged.check_domain(_family(name, "test", c, size).domain)
    if out is not None:
        make_folder("--out", out)
    torch.set_num_threads(1)  # so that times can be compared
    data: dict[str, Any] = {}
    for name in names:
        found = learned.evaluate(
            judged,
            _family(name, "test", c, size),
            validation=None if is_own(name) else _family(name, "validation", c, size),
            problems=problems,
            tolerances=goals,
            max_steps=max_steps,
            generator=torch.Generator().manual_seed(seed),
            progress=not as_json,
        )
        data[name] = _facts(found)
        if not as_json:
            how = "" if is_own(name) else f", C = {c:g}, n = {size}"
            print(f"{name}{how}\n\n{found.report()}\n")
        if out is not None:
            found.save(_file(out, name, ".json"))
            save_picture(found.plot(), _file(out, name, ".png"))
    pictures = {} if out is None else {name: _file(out, name, ".png") for name in names}
    show(data, as_json, *([facts_table("pictures", pictures)] if pictures else []))


def _names(on: str) -> list[str]:
    """The families, each known by name or of the user's."""
    names = [name.strip() for name in on.split(",")]
    return [name if is_own(name) else known("family", name, _FAMILIES) for name in names]


def _tolerances(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"--tolerances must be numbers with commas between them; got {text!r}."
        ) from None


def _sizes(names: list[str], c: float | None, size: int | None) -> tuple[float, int]:
    """C and n of the SVMs; a family of the user's has its own."""
    if all(map(is_own, names)) and (c, size) != (None, None):
        raise click.BadParameter(
            f"--C and --size do not apply to {', '.join(names)}, which has its own."
        )
    if c is not None and not c > 0:
        raise click.BadParameter(f"--C must be positive; got {c:g}.")
    return 10.0 if c is None else c, 300 if size is None else size


def _file(folder: Path, name: str, suffix: str) -> Path:
    return folder / (name.replace(":", "-") + suffix)


def _family(name: str, part: families.Part, c: float, size: int) -> ProblemFamily:
    from fwnet.learned import families

    if is_own(name):
        return own_family(name)
    made: ProblemFamily = getattr(families, _FAMILIES[name])(part, c, size)
    return made


def _facts(found: Evaluation) -> dict[str, Any]:
    """Medians of each cost, by method and tolerance."""
    return {
        method: {
            by: {f"{tol:g}": found.quartiles(method, tol, by)[1] for tol in found.tolerances}
            for by in ("iterations", "gradients", "seconds")
        }
        for method in found.methods
    }
