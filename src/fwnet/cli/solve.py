"""`fwnet solve`: minimise a problem from a file over a domain by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import fwnet
from fwnet.cli.domains import DOMAINS, choose
from fwnet.cli.errors import Failed, command
from fwnet.cli.names import completes, known
from fwnet.cli.output import FILE, as_json, check_target, save_picture, show, table, write_arrays

if TYPE_CHECKING:
    import numpy as np

    from fwnet.cli.problems import FileProblem


_SOLVERS = {
    "plain": "FrankWolfe",
    "away": "AwayFrankWolfe",
    "pairwise": "PairwiseFrankWolfe",
    "blended": "BlendedPairwise",
    "corrective": "Corrective",
    "lazy": "LazyFrankWolfe",
}
_TASKS = ("least-squares", "svm", "completion")


def _domains() -> str:
    """The table of domains."""
    sets = "\n".join(
        f"- {name}: {each.set}{''.join(f', needs --{need}' for need in each.needs)}"
        for name, each in DOMAINS.items()
    )
    return f"Domains; r is --radius, arrays come from FILE or from --constraints:\n\n{sets}"


@command("solve", epilog=_domains())
@click.argument(
    "file", type=FILE, help="CSV (the last column is b, y or value) or NPZ with arrays."
)
@click.option(
    "--task", type=click.Choice(_TASKS), default="least-squares", help="What to minimise."
)
@click.option("--domain", shell_complete=completes(DOMAINS), help="The domain of x.")
@click.option("--radius", type=float, help="Size of the domain, r. [default: 1]")
@click.option("--k", type=int, help="k of hypersimplex and k-sparse.")
@click.option("--p", type=float, help="p of lp and schatten.")
@click.option("--lower", type=float, help="Lower bound of box and polytope.")
@click.option("--upper", type=float, help="Upper bound of box and polytope.")
@click.option("--constraints", type=FILE, help="NPZ with the arrays of the domain.")
@click.option("-C", "c", type=float, help="--task svm: weight of the errors. [default: 1]")
@click.option(
    "--solver",
    type=click.Choice(("auto", *_SOLVERS)),
    default="auto",
    help="The solver; auto is pairwise on polytopes and corrective elsewhere.",
)
@click.option("--tol", default=1e-6, help="Stop at this gap.")
@click.option("--max-steps", type=click.IntRange(min=1), default=10_000, help="Step limit.")
@click.option("--target", help="Column of b or y in a CSV file.")
@click.option("--out", type=FILE, help="Write x to this CSV or NPZ file.")
@click.option("--plot", type=FILE, help="Plot the gap to this PNG or SVG file.")
@as_json
def solve(
    file: Path,
    task: str,
    domain: str | None,
    constraints: Path | None,
    c: float | None,
    solver: str,
    tol: float,
    max_steps: int,
    target: str | None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
    **options: float | None,
) -> None:
    """Solve min f(x) over a domain, with a certificate: the gap bounds f(x) − min f.

    Tasks: least-squares is ½‖Ax − b‖², or ½‖AX − B‖² if b is a matrix; svm is the dual of a linear
    SVM, on the simplex; completion is ½ Σ (X_ij − v)² over rows (i, j, v).

    Examples:

        fwnet solve mixture.csv --domain simplex --plot gap.png
        fwnet solve design.npz --domain l1 --radius 3 --solver corrective --out x.csv
        fwnet solve prices.csv --domain box --lower 0 --upper 1
        fwnet solve design.npz --domain polytope --constraints budget.npz --json
        fwnet solve ratings.csv --task completion --domain trace-norm --radius 50
        fwnet solve points.csv --task svm -C 10 --json
    """
    from fwnet.cli.problems import read_problem
    from fwnet.cli.tables import read_arrays

    check_target("--out", out, ".csv", ".npz")
    check_target("--plot", plot, ".png", ".svg", ".pdf")
    if task == "svm" and domain not in (None, "simplex"):
        raise click.BadParameter("--task svm is always on the simplex; remove --domain.")
    if task != "svm" and c is not None:
        raise click.BadParameter(f"-C applies only to --task svm, not {task}; remove it.")
    name = domain or ("trace-norm" if task == "completion" else "simplex")
    known("domain", name, DOMAINS)  # before a large file is read
    given = read_problem(file, task, 1.0 if c is None else c, target)
    _check_kind(name, given)
    arrays = dict(given.arrays) | ({} if constraints is None else read_arrays(constraints))
    place = choose(name, options, arrays, given.shape)
    result = _solved(given, place, solver, tol, max_steps)
    if result.status == "non_finite":
        raise Failed(f"{file}: {result.message}. Are its numbers too large? Scale them.")
    x = result.x.numpy()
    if out is not None:
        write_arrays("--out", out, x=x)
    if plot is not None:
        save_picture(result.trace.plot().figure, plot)
    facts = {
        "status": result.status,
        "steps": result.steps,
        "value": float(result.value),
        "gap": float(result.gap),
        "seconds": result.trace[-1].seconds,
        **_size(x),
    }
    show(
        {"task": task, "domain": name} | facts | {"x": x},
        as_json,
        table("Steps", ["step", "value", "gap", "step size"], _rows(result.trace)),
        table(
            f"Answer, {name}, x of shape {' × '.join(map(str, x.shape))}",
            [key.capitalize() for key in facts],
            [list(facts.values())],
        ),
    )


def _check_kind(name: str, given: FileProblem) -> None:
    matrix = len(given.shape) == 2
    if DOMAINS[name].matrix == matrix or name == "hull":
        return
    others = ", ".join(other for other, each in DOMAINS.items() if each.matrix == matrix)
    if matrix:
        raise click.BadParameter(
            f"x is a matrix, but --domain {name} holds vectors. Choose one of {others}."
        )
    raise click.BadParameter(
        f"x is a vector, but --domain {name} holds matrices. Give b as a matrix in an NPZ file, "
        f"use --task completion, or choose one of {others}."
    )


def _solved(
    given: FileProblem, domain: fwnet.Domain, name: str, tol: float, max_steps: int
) -> fwnet.Result:
    import torch

    start = domain.start(given.shape, torch.float64)
    if name == "auto":
        return fwnet.minimize(given.problem, domain, start, tol=tol, max_steps=max_steps)
    solver = getattr(fwnet, _SOLVERS[name])(domain, tol=tol, max_steps=max_steps)
    result: fwnet.Result = solver(given.problem, start)
    return result


def _size(x: np.ndarray) -> dict[str, int]:
    """The rank of x, or its number of nonzero entries."""
    import numpy as np

    if x.ndim == 2:
        return {"rank": int((np.linalg.svd(x, compute_uv=False) > 1e-9).sum())}
    return {"nonzero": int((np.abs(x) > 1e-9).sum())}


def _rows(trace: fwnet.Trace) -> list[list[float]]:
    """Steps 0, 1, 2, 5, 10, 20, … and the last."""
    wanted = {k * 10**e for e in range(9) for k in (1, 2, 5)} | {0, trace[-1].t}
    return [
        [record.t, float(record.value), float(record.gap), float(record.step_size)]
        for record in trace
        if record.t in wanted
    ]
