"""`fwnet solve`: minimise a problem from a file over a domain by name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import fwnet
from fwnet.cli.domains import DOMAINS, choose
from fwnet.cli.errors import Failed
from fwnet.cli.names import completes, known
from fwnet.cli.output import AsJson, check_target, save_picture, show, table, write_arrays

if TYPE_CHECKING:
    import numpy as np

    from fwnet.cli.problems import FileProblem


SolverName = Literal["auto", "plain", "away", "pairwise", "blended", "corrective", "lazy"]
_SOLVERS: dict[SolverName, str] = {
    "plain": "FrankWolfe",
    "away": "AwayFrankWolfe",
    "pairwise": "PairwiseFrankWolfe",
    "blended": "BlendedPairwise",
    "corrective": "Corrective",
    "lazy": "LazyFrankWolfe",
}


def solve(
    file: Annotated[
        Path, typer.Argument(help="CSV (the last column is b, y or value) or NPZ with arrays.")
    ],
    task: Annotated[
        Literal["least-squares", "svm", "completion"], typer.Option(help="What to minimise.")
    ] = "least-squares",
    domain: Annotated[
        str | None,
        typer.Option(help="The domain of x.", autocompletion=completes(DOMAINS)),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Size of the domain, r. [default: 1]")
    ] = None,
    k: Annotated[int | None, typer.Option(help="k of hypersimplex and k-sparse.")] = None,
    p: Annotated[float | None, typer.Option(help="p of lp and schatten.")] = None,
    lower: Annotated[float | None, typer.Option(help="Lower bound of box and polytope.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound of box and polytope.")] = None,
    constraints: Annotated[
        Path | None, typer.Option(help="NPZ with the arrays of the domain.")
    ] = None,
    c: Annotated[
        float | None, typer.Option("-C", help="--task svm: weight of the errors. [default: 1]")
    ] = None,
    solver: Annotated[
        SolverName,
        typer.Option(help="The solver; auto is pairwise on polytopes and corrective elsewhere."),
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Stop at this gap.")] = 1e-6,
    max_steps: Annotated[int, typer.Option(min=1, help="Step limit.")] = 10_000,
    target: Annotated[str | None, typer.Option(help="Column of b or y in a CSV file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write x to this CSV or NPZ file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the gap to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Solve min f(x) over a domain, with a certificate: the gap bounds f(x) − min f.

    Tasks: least-squares is ½‖Ax − b‖², or ½‖AX − B‖² if b is a matrix; svm is the dual of a linear
    SVM, on the simplex; completion is ½ Σ (X_ij − v)² over rows (i, j, v).
    """
    from fwnet.cli.problems import read_problem
    from fwnet.cli.tables import read_arrays

    options = {"radius": radius, "k": k, "p": p, "lower": lower, "upper": upper}
    check_target("--out", out, ".csv", ".npz")
    check_target("--plot", plot, ".png", ".svg", ".pdf")
    if task == "svm" and domain not in (None, "simplex"):
        raise typer.BadParameter("--task svm is always on the simplex; remove --domain.")
    if task != "svm" and c is not None:
        raise typer.BadParameter(f"-C applies only to --task svm, not {task}; remove it.")
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


def _help() -> str:
    """The docstring, the table of domains, and examples."""
    sets = "\n".join(
        f"- {name}: {each.set}{''.join(f', needs --{need}' for need in each.needs)}"
        for name, each in DOMAINS.items()
    )
    examples = "\n\n".join(f"    fwnet solve {example}" for example in _EXAMPLES)
    return (
        f"{inspect.getdoc(solve)}\n\nDomains; r is --radius, arrays come from the NPZ file or from "
        f"--constraints:\n\n{sets}\n\nExamples:\n\n{examples}\n"
    )


_EXAMPLES = (
    "mixture.csv --domain simplex --plot gap.png",
    "design.npz --domain l1 --radius 3 --solver corrective --out x.csv",
    "prices.csv --domain box --lower 0 --upper 1",
    "design.npz --domain polytope --constraints budget.npz --json",
    "ratings.csv --task completion --domain trace-norm --radius 50",
    "points.csv --task svm -C 10 --json",
)
solve.__doc__ = _help()


def _check_kind(name: str, given: FileProblem) -> None:
    matrix = len(given.shape) == 2
    if DOMAINS[name].matrix == matrix or name == "hull":
        return
    others = ", ".join(other for other, each in DOMAINS.items() if each.matrix == matrix)
    if matrix:
        raise typer.BadParameter(
            f"x is a matrix, but --domain {name} holds vectors. Choose one of {others}."
        )
    raise typer.BadParameter(
        f"x is a vector, but --domain {name} holds matrices. Give b as a matrix in an NPZ file, "
        f"use --task completion, or choose one of {others}."
    )


def _solved(
    given: FileProblem, domain: fwnet.Domain, name: SolverName, tol: float, max_steps: int
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
