"""`fwnet solve`: a least-squares or SVM problem from a file."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

import fwnet
from fwnet.cli.errors import Failed
from fwnet.cli.output import show, table
from fwnet.cli.tables import read_arrays, read_csv


class Task(str, Enum):
    """What is minimised."""

    LEAST_SQUARES = "least-squares"
    SVM = "svm"


class DomainName(str, Enum):
    """Where the answer must lie."""

    SIMPLEX = "simplex"
    L1 = "l1"
    L2 = "l2"
    LINF = "linf"


class SolverName(str, Enum):
    """How it is found; auto is pairwise on polytopes and plain elsewhere."""

    AUTO = "auto"
    PLAIN = "plain"
    AWAY = "away"
    PAIRWISE = "pairwise"
    BLENDED = "blended"
    CORRECTIVE = "corrective"
    LAZY = "lazy"


_DOMAINS: dict[DomainName, Callable[[float], fwnet.Domain]] = {
    DomainName.SIMPLEX: fwnet.Simplex,
    DomainName.L1: fwnet.L1Ball,
    DomainName.L2: fwnet.L2Ball,
    DomainName.LINF: fwnet.LInfBall,
}
_SOLVERS: dict[SolverName, Callable[..., fwnet.FrankWolfe]] = {
    SolverName.PLAIN: fwnet.FrankWolfe,
    SolverName.AWAY: fwnet.AwayFrankWolfe,
    SolverName.PAIRWISE: fwnet.PairwiseFrankWolfe,
    SolverName.BLENDED: fwnet.BlendedPairwise,
    SolverName.CORRECTIVE: fwnet.Corrective,
    SolverName.LAZY: fwnet.LazyFrankWolfe,
}


def solve(
    file: Annotated[
        Path, typer.Argument(help="CSV (the last column is b or y) or NPZ with A and b, X and y.")
    ],
    task: Annotated[Task, typer.Option(help="What is minimised.")] = Task.LEAST_SQUARES,
    domain: Annotated[
        DomainName, typer.Option(help="Where x lies (least squares).")
    ] = DomainName.SIMPLEX,
    radius: Annotated[float, typer.Option(help="Size of the domain.")] = 1.0,
    c: Annotated[float, typer.Option("-C", help="Weight of the errors (SVM).")] = 1.0,
    solver: Annotated[SolverName, typer.Option(help="How it is found.")] = SolverName.AUTO,
    tol: Annotated[float, typer.Option(help="Stop at this gap.")] = 1e-6,
    max_steps: Annotated[int, typer.Option(help="Stop after so many steps.")] = 10_000,
    target: Annotated[str | None, typer.Option(help="Column of b or y in a CSV file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write x to this CSV or NPZ file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the gap to this PNG or SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Solve min ½‖Ax − b‖² over a domain, or the dual of a linear SVM, with a certificate.

    The gap bounds how far the value is above the minimum.

    Examples:

        fwnet solve mixture.csv --domain simplex --plot gap.png

        fwnet solve design.npz --domain l1 --radius 3 --solver corrective --out x.csv

        fwnet solve points.csv --task svm -C 10 --json
    """
    if task is Task.SVM and domain is not DomainName.SIMPLEX:
        raise typer.BadParameter("--task svm lives on the simplex; leave --domain out.")
    problem = _problem(file, task, c, target)
    place = fwnet.Simplex() if task is Task.SVM else _DOMAINS[domain](radius)
    result = _solved(problem, place, solver, tol, max_steps)
    x = result.x.numpy()
    if out is not None:
        _write(out, x)
    if plot is not None:
        _draw(plot, result)
    used = int((np.abs(x) > 1e-9).sum())
    facts = {
        "status": result.status,
        "steps": result.steps,
        "value": float(result.value),
        "gap": float(result.gap),
        "seconds": result.trace[-1].seconds,
        "nonzero": used,
    }
    labels = ["Status", "Steps", "Value", "Gap", "Seconds", f"Nonzero of {x.size}"]
    show(
        facts | {"x": x},
        as_json,
        table("Steps", ["step", "value", "gap", "step size"], _rows(result.trace)),
        table("Answer", labels, [list(facts.values())]),
    )


def _problem(file: Path, task: Task, c: float, target: str | None) -> fwnet.Problem:
    names = ("X", "y") if task is Task.SVM else ("A", "b")
    if file.suffix == ".npz":
        arrays = read_arrays(file)
        for name in names:
            if name not in arrays:
                raise Failed(f"{file} must hold {' and '.join(names)}; it has {', '.join(arrays)}.")
        matrix, goal = (arrays[name] for name in names)
    else:
        matrix, goal = read_csv(file, target)
    if task is Task.SVM:
        classes, y = np.unique(goal, return_inverse=True)
        if len(classes) != 2:
            raise Failed(
                f"{file}: an SVM needs two classes; got {len(classes)}. See `fwnet fit` for more."
            )
        signs = torch.tensor(2.0 * y - 1.0, dtype=torch.float64)
        return fwnet.SVMDual(features=_tensor(matrix), y=signs, C=c)
    try:
        numbers = np.asarray(goal, dtype=float)
    except ValueError as error:
        raise Failed(f"{file}: the target must hold numbers: {error}.") from None
    return fwnet.LeastSquares(_tensor(matrix), _tensor(numbers))


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=float))


def _solved(
    problem: fwnet.Problem, domain: fwnet.Domain, name: SolverName, tol: float, max_steps: int
) -> fwnet.Result:
    if name is SolverName.AUTO:
        return fwnet.minimize(problem, domain, tol=tol, max_steps=max_steps)
    result: fwnet.Result = _SOLVERS[name](domain, tol=tol, max_steps=max_steps)(problem)
    return result


def _rows(trace: fwnet.Trace) -> list[list[float]]:
    """Steps 0, 1, 2, 5, 10, 20, … and the last."""
    wanted = {k * 10**e for e in range(9) for k in (1, 2, 5)} | {0, trace[-1].t}
    return [
        [record.t, float(record.value), float(record.gap), float(record.step_size)]
        for record in trace
        if record.t in wanted
    ]


def _write(path: Path, x: np.ndarray) -> None:
    if path.suffix == ".npz":
        np.savez(path, x=x)
    elif path.suffix == ".csv":
        np.savetxt(path, x, delimiter=",", fmt="%.17g")
    else:
        raise typer.BadParameter(f"--out must end in .csv or .npz; got {path}.")


def _draw(path: Path, result: fwnet.Result) -> None:
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"--plot must end in .png, .svg or .pdf; got {path}.")
    figure: Any = result.trace.plot().figure
    figure.savefig(path, dpi=160)
