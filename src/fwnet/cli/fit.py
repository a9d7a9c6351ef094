"""`fwnet fit`: a classifier from a file of points."""

from __future__ import annotations

import os
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fwnet.cli.errors import Failed
from fwnet.cli.output import show, table
from fwnet.cli.tables import read_points


class Model(str, Enum):
    """The classifiers."""

    SVC = "svc"
    DEEP_SVC = "deep-svc"
    LOW_RANK = "low-rank"


def fit(
    source: Annotated[
        str, typer.Argument(help="CSV, NPZ (X, y), LIBSVM file, or a data set such as digits.")
    ],
    model: Annotated[Model, typer.Option(help="The classifier.")] = Model.SVC,
    c: Annotated[float, typer.Option("-C", help="SVMs: weight of the errors.")] = 1.0,
    kernel: Annotated[str, typer.Option(help="svc: rbf, linear, poly or sigmoid.")] = "rbf",
    gamma: Annotated[str, typer.Option(help="svc: scale, auto or a number.")] = "scale",
    updates: Annotated[int, typer.Option(help="deep-svc: updates of the network.")] = 100,
    radius: Annotated[str, typer.Option(help="low-rank: trace norm, a number or auto.")] = "auto",
    test: Annotated[float, typer.Option(help="Share of the points held out.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Of the held-out points and weights.")] = 0,
    target: Annotated[str | None, typer.Option(help="Column of the classes in a CSV.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the model here (joblib).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit a classifier, test it on held-out points, and save it.

    svc is a kernel SVM, deep-svc an SVM on a small network, low-rank softmax regression in a
    trace-norm ball.

    A saved model is read by joblib.load; like any pickle, read only files that you trust.

    Examples:

        fwnet fit iris.csv --target species --save iris.joblib

        fwnet fit digits -C 10

        fwnet fit points.npz --model deep-svc --updates 200 --json

        fwnet fit mnist --model low-rank --radius 50
    """
    from sklearn.model_selection import train_test_split

    from fwnet.estimators import FWSVC, DeepSVC, LowRankSoftmaxClassifier

    if not 0 < test < 1:
        raise typer.BadParameter(f"--test must be between 0 and 1; got {test}.")
    X, y = read_points(source, target)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        raise Failed(
            f"{source} needs two classes or more with at least two points each; got "
            + ", ".join(f"{name}: {n}" for name, n in zip(classes, counts, strict=True))
            + "."
        )
    parts = train_test_split(X, y, test_size=test, random_state=seed, stratify=y)
    X_train, X_test, y_train, y_test = parts
    if model is Model.DEEP_SVC:
        estimator = DeepSVC(C=c, max_iter=updates, random_state=seed)
    elif model is Model.LOW_RANK:
        estimator = LowRankSoftmaxClassifier(_number("--radius", radius, "auto"), random_state=seed)
    else:
        width = _number("--gamma", gamma, "scale", "auto")
        estimator = FWSVC(c, kernel=kernel, gamma=width, random_state=seed)
    start = time.perf_counter()
    estimator.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    if save is not None:
        _save(save, estimator)
    facts = {
        "model": model.value,
        "classes": len(classes),
        "train_points": X_train.shape[0],
        "test_points": X_test.shape[0],
        "train_accuracy": float(estimator.score(X_train, y_train)),
        "test_accuracy": float(estimator.score(X_test, y_test)),
        **_size(estimator),
        "duality_gap": float(np.max(estimator.duality_gap_)),
        "seconds": seconds,
    }
    rows = [[name.replace("_", " "), value] for name, value in facts.items()]
    show(facts, as_json, table(f"{source}", ["", ""], rows))


def _number(option: str, text: str, *words: str) -> str | float:
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{option} must be {', '.join(words)} or a number; got {text}."
        ) from None


def _size(estimator: Any) -> dict[str, int]:
    if hasattr(estimator, "rank_"):
        return {"rank": int(estimator.rank_)}
    return {"support_vectors": len(estimator.support_)}


def _save(path: Path, estimator: Any) -> None:
    import joblib

    beside = path.with_name(path.name + ".part")
    try:
        joblib.dump(estimator, beside)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Failed(f"--save {path} cannot be written: {error.strerror or error}.") from None
