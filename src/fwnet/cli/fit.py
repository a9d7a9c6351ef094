"""`fwnet fit`: fit an estimator by name to a table or a file of points."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from fwnet.cli.errors import Failed, command
from fwnet.cli.names import completes, known
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

    from fwnet.estimators import TableEncoder


@final
@dataclass(frozen=True)
class EstimatorChoice:
    """An estimator on the command line.

    Arguments:
        name: of its class in `fwnet.estimators`.
        takes: its parameter for each option that applies to it.
        measure: the name of its score.
    """

    name: str
    takes: dict[str, str]
    measure: str = "accuracy"


_LIMITS = {"--tol": "tol", "--max-iter": "max_iter", "--seed": "random_state"}
_KERNEL = {"-C": "C", "--kernel": "kernel", "--gamma": "gamma"} | _LIMITS
MODELS = {
    "svc": EstimatorChoice("FWSVC", _KERNEL | {"--probability": "probability"}),
    "deep-svc": EstimatorChoice(
        "DeepSVC",
        {
            "-C": "C",
            "--updates": "max_iter",
            "--seed": "random_state",
            "--probability": "probability",
        },
    ),
    "low-rank": EstimatorChoice("LowRankSoftmaxClassifier", {"--radius": "radius"} | _LIMITS),
    "low-rank-cv": EstimatorChoice("LowRankSoftmaxClassifierCV", _LIMITS),
    "svr": EstimatorChoice("FWSVR", _KERNEL | {"--epsilon": "epsilon"}, "r2"),
}


@command("fit")
@click.argument(
    "source",
    type=click.Path(),
    help="CSV, Parquet, NPZ (X, y) or LIBSVM file, or a data set such as digits.",
)
@click.option("--model", default="svc", shell_complete=completes(MODELS), help="The estimator.")
@click.option("-C", "c", type=float, help="SVMs: weight of the errors. [default: 1]")
@click.option("--kernel", help="svc, svr: rbf, linear, poly or sigmoid. [default: rbf]")
@click.option("--gamma", help="svc, svr: scale, auto or a number. [default: scale]")
@click.option("--epsilon", type=float, help="svr: errors up to this are free. [default: 0.1]")
@click.option("--updates", type=int, help="deep-svc: updates of the network. [default: 100]")
@click.option("--radius", help="low-rank: trace norm, a number or auto. [default: auto]")
@click.option(
    "--tol", type=float, help="Stop at this relative duality gap. [default: the estimator's]"
)
@click.option("--max-iter", type=int, help="Step limit. [default: the estimator's]")
@click.option("--probability", is_flag=True, help="svc, deep-svc: fit probabilities too.")
@click.option(
    "--scale/--no-scale",
    default=None,
    help="Standardise the columns of numbers. [default: only for CSV and Parquet]",
)
@click.option("--drop", default="", show_default=False, help="Columns to leave out, with commas.")
@click.option("--cv", type=click.IntRange(min=2), help="Also cross-validate, with this many folds.")
@click.option("--test", default=0.25, help="Share of the points to hold out.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Seed of the held-out points and the weights.",
)
@click.option("--target", help="Column of y in a CSV or Parquet file. [default: the last]")
@click.option("--save", type=FILE, help="Write the model to this file, for `fwnet predict`.")
@separator
@decimal
@as_json
def fit(
    source: str,
    model: str,
    gamma: str | None,
    radius: str | None,
    probability: bool,
    scale: bool | None,
    drop: str,
    cv: int | None,
    test: float,
    seed: int,
    target: str | None,
    save: Path | None,
    separator: str | None,
    decimal: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit an estimator, test it on held-out points, and save it.

    Estimators: svc (kernel SVM), deep-svc (SVM on a small network), low-rank (softmax regression in
    a trace-norm ball), low-rank-cv (the same, its radius by cross-validation), svr (kernel SVM for
    regression).

    Columns of a CSV or Parquet file: a missing number becomes the median, numbers are
    standardised, texts become one coordinate for each value (missing is a value, and an unknown
    value is zeros), and rows without a target are left out. The saved model is the one that was
    tested: it has not seen the held-out points.

    Examples:

        fwnet fit iris.csv --target species --save iris.fwnet
        fwnet fit customers.parquet --target churned --drop id,name --probability --cv 5
        fwnet fit digits -C 10
        fwnet fit points.npz --model deep-svc --updates 200 --json
        fwnet fit mnist --model low-rank --radius 50
        fwnet fit prices.csv --model svr -C 10 --epsilon 0.01
    """
    chosen = MODELS[known("model", model, MODELS)]
    if not 0 < test < 1:
        raise click.BadParameter(f"--test must be between 0 and 1; got {test}.")
    check_target("--save", save)
    options["gamma"] = gamma and _number("--gamma", gamma, "scale", "auto")
    options["radius"] = radius and _number("--radius", radius, "auto")
    options["probability"] = probability or None
    settings = _settings(model, options) | {"random_state": seed}
    from fwnet.cli.tables import Spelling, is_table, read_points

    dropped = [each for each in drop.split(",") if each]
    X, y, name = read_points(source, target, dropped, Spelling(separator, decimal))
    where = source if name is None else f"column {name} of {source}"
    y, classes = (_numbers(where, y), None) if chosen.measure == "r2" else (y, _classes(where, y))
    scaled = is_table(source) if scale is None else scale
    _check_texts(X, dropped)
    fitted, facts = _fitted(chosen, settings, scaled, (X, y), test, cv, seed)
    if save is not None:
        from fwnet.estimators import save_model

        save_model(fitted, save, {"target": name, "source": source, "model": model})
    facts = {
        "model": model,
        "target": name,
        **_columns(fitted["table"]),
        "classes": classes,
        **facts,
        "saved": save and save.as_posix(),
    }
    facts = {key: value for key, value in facts.items() if value is not None}
    show(facts, as_json, facts_table(source, facts))


def _fitted(
    chosen: EstimatorChoice,
    settings: dict[str, Any],
    scaled: bool,
    points: tuple[Any, np.ndarray],
    test: float,
    cv: int | None,
    seed: int,
) -> tuple[Any, dict[str, Any]]:
    """The fitted pipeline, and what to print of it."""
    import numpy as np
    from sklearn.model_selection import cross_val_score, train_test_split
    from sklearn.pipeline import Pipeline

    from fwnet import estimators
    from fwnet.trace import Clock

    X, y = points
    made = getattr(estimators, chosen.name)(**settings)
    whole = Pipeline([("table", estimators.TableEncoder(scaled)), ("estimator", made)])
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=test, random_state=seed, stratify=None if chosen.measure == "r2" else y
    )
    clock = Clock()
    whole.fit(X_train, y_train)
    seconds = clock.seconds
    scores: dict[str, Any] = {
        f"train_{chosen.measure}": float(whole.score(X_train, y_train)),
        f"test_{chosen.measure}": float(whole.score(X_test, y_test)),
    }
    if cv is not None:
        folds = cross_val_score(whole, X, y, cv=cv)
        scores[f"cv_{chosen.measure}"] = float(folds.mean())
        scores["cv_deviation"] = float(folds.std())
    size = (
        {"rank": int(made.rank_)}
        if hasattr(made, "rank_")
        else {"support_vectors": len(made.support_)}
    )
    counts = {"train_points": X_train.shape[0], "test_points": X_test.shape[0]}
    gap = float(np.max(made.duality_gap_))
    return whole, counts | scores | size | {"duality_gap": gap, "seconds": seconds}


def _check_texts(X: Any, dropped: list[str]) -> None:
    """Raise for columns of a table that cannot be categories, all at once.

    Args:
        X: the points.
        dropped: the columns that are left out already.
    """
    from fwnet.estimators.tables import MOST_VALUES, decimal_commas, many_texts

    commas = decimal_commas(X)
    if commas:
        shown = ", ".join(f"{name} ({text!r})" for name, text in commas.items())
        raise Failed(
            f"columns with commas in numbers would become categories: {shown}. If the comma is the "
            "decimal mark, pass --decimal ,; else convert them, or leave them out: "
            f"--drop {shlex.quote(','.join([*dropped, *commas]))}."
        )
    many = many_texts(X)
    if many:
        shown = ", ".join(f"{name} ({count})" for name, count in many.items())
        names = ",".join([*dropped, *many])
        raise Failed(
            f"columns with more than {MOST_VALUES} different texts cannot become categories: "
            f"{shown}. Convert them, or leave them out: --drop {shlex.quote(names)}."
        )


def _columns(encoder: TableEncoder) -> dict[str, list[str]]:
    """How the columns of a table were read; nothing for an array."""
    if encoder.numbers_ is None:
        return {}
    counts = zip(encoder.texts_, encoder.values_, strict=True)
    texts = [f"{name} ({len(values)} values)" for name, values in counts]
    return {"numbers": encoder.numbers_, "texts": texts}


def _settings(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator; raises for an option that it does not take."""
    takes = {option: name for option, name in MODELS[model].takes.items() if option != "--seed"}
    settings: dict[str, Any] = {}
    for name, value in options.items():
        option = "-C" if name == "c" else f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if option not in takes:
            raise click.BadParameter(
                f"{option} does not apply to --model {model}, which takes {', '.join(takes)}."
            )
        settings[takes[option]] = value
    return settings


def _classes(where: str, y: np.ndarray) -> int:
    """How many classes there are; raises for fewer than two, or for one of a single point."""
    import numpy as np

    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        few = zip(classes[:10], counts[:10], strict=True)
        more = f", and {len(classes) - 10} more" if len(classes) > 10 else ""
        raise Failed(
            f"{where} needs two classes or more with at least two points each; got "
            f"{', '.join(f'{name}: {n}' for name, n in few)}{more}. For numbers, --model svr."
        )
    return len(classes)


def _numbers(where: str, y: np.ndarray) -> np.ndarray:
    import numpy as np

    try:
        return np.asarray(y, dtype=float)
    except ValueError:
        from fwnet.cli.tables import is_number

        text = next(str(value) for value in y if not is_number(str(value)))
        raise Failed(f"{where}: regression needs numbers to predict; got {text!r}.") from None


def _number(option: str, text: str, *words: str) -> str | float:
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(
            f"{option} must be {', '.join(words)} or a number; got {text}."
        ) from None
