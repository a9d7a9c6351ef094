"""`fwnet predict`: what a saved model says about new points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fwnet.cli.errors import Failed, command, say
from fwnet.cli.output import (
    FILE,
    as_json,
    check_target,
    decimal,
    facts_table,
    separator,
    show,
)

if TYPE_CHECKING:
    import numpy as np


@command("predict")
@click.argument("model", type=FILE, help="A file of `fwnet fit --save`.")
@click.argument(
    "source", type=click.Path(), help="New points, in a file of the same kind as at the fit."
)
@click.option("--out", type=FILE, help="Write the predictions to this CSV file.")
@click.option("--probability", is_flag=True, help="Add the probability of each class.")
@click.option(
    "--keep",
    default="",
    show_default=False,
    help="Columns to copy in front of the predictions, with commas.",
)
@separator
@decimal
@as_json
def predict(
    model: Path,
    source: str,
    out: Path | None,
    probability: bool,
    keep: str,
    separator: str | None,
    decimal: str,
    as_json: bool,
) -> None:
    """Predict new points with a saved model, in the order of their rows.

    Columns are matched by name; further columns are ignored. If the column of the target is there,
    the accuracy, or R² for numbers, is measured too, on the rows that have a value of it.

    Examples:

        fwnet predict iris.fwnet new.csv
        fwnet predict churn.fwnet customers.parquet --probability --keep id --out predicted.csv
    """
    from fwnet.cli.tables import Spelling, read_new_points
    from fwnet.estimators.model_files import read_model
    from fwnet.numerics.files import write_text

    check_target("--out", out, ".csv")
    fitted, notes = read_model(model)
    width = fitted.steps[0][1].n_features_in_
    X, answers = read_new_points(source, notes["target"], width, Spelling(separator, decimal))
    predicted = fitted.predict(X)
    columns = _kept(source, X, [each for each in keep.split(",") if each])
    columns[notes["target"] or "prediction"] = predicted
    if probability:
        columns |= _probabilities(model, fitted, X)
    facts: dict[str, Any] = {"points": X.shape[0]}
    if answers is not None:
        there, y = answers
        if not there.all():
            facts["scored_points"] = int(there.sum())
        measure = "accuracy" if hasattr(fitted, "classes_") else "r2"
        facts[measure] = float(fitted.score(X[there], y.astype(type(predicted[0]))))
        if out is None and not as_json:  # the standard output holds the predictions alone
            shown = "accuracy" if measure == "accuracy" else "R²"
            say(f"{shown} {facts[measure]:.4g} on {there.sum()} of {len(there)} points.")
    if out is not None:
        write_text(out, _csv(columns), f"--out {out}")
        facts["saved"] = out.as_posix()
    if as_json:
        show(facts | {"predictions": columns}, True)
    elif out is None:
        print(_csv(columns), end="")
    else:
        show(facts, False, facts_table(str(model), facts))


def _kept(source: str, X: Any, names: list[str]) -> dict[str, Any]:
    """Columns of the source that are copied to the predictions."""
    there = [str(name) for name in getattr(X, "columns", ())]
    for name in names:
        if name not in there:
            columns = ", ".join(there) or "no names of columns"
            raise Failed(f"--keep: {source} has no column {name!r}; it has {columns}.")
    return {name: X[name].astype(object).where(X[name].notna(), "").tolist() for name in names}


def _probabilities(path: Path, fitted: Any, X: Any) -> dict[str, np.ndarray]:
    if not hasattr(fitted, "classes_"):
        raise Failed(f"{path} predicts numbers, which have no probabilities.")
    if not hasattr(fitted, "predict_proba"):
        raise Failed(f"{path} holds no probabilities. Fit with --probability.")
    found = fitted.predict_proba(X)
    return {f"P({name})": found[:, j] for j, name in enumerate(fitted.classes_)}


def _csv(columns: dict[str, Any]) -> str:
    """A header and a line for each point."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lists = (values if isinstance(values, list) else values.tolist() for values in columns.values())
    writer.writerows(zip(*lists, strict=True))
    return text.getvalue()
