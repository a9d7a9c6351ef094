"""`fwnet fit`: fit an estimator by name to a file of points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from fwnet.cli.errors import Failed
from fwnet.cli.names import completes, known
from fwnet.cli.output import check_target, show, table

if TYPE_CHECKING:
    import numpy as np


@final
@dataclass(frozen=True)
class EstimatorChoice:
    """An estimator on the command line.

    Arguments:
        make: makes the estimator from the options.
        takes: the options that apply to it.
        measure: the name of its score.
    """

    make: Callable[[SimpleNamespace], Any]
    takes: tuple[str, ...] = ()
    measure: str = "accuracy"


def _svc(settings: SimpleNamespace) -> Any:
    from fwnet.estimators import FWSVC

    return FWSVC(
        settings.c, kernel=settings.kernel, gamma=settings.gamma, random_state=settings.seed
    )


def _svr(settings: SimpleNamespace) -> Any:
    from fwnet.estimators import FWSVR

    return FWSVR(C=settings.c, kernel=settings.kernel, gamma=settings.gamma)


def _deep_svc(settings: SimpleNamespace) -> Any:
    from fwnet.estimators import DeepSVC

    return DeepSVC(C=settings.c, max_iter=settings.updates, random_state=settings.seed)


def _low_rank(settings: SimpleNamespace) -> Any:
    from fwnet.estimators import LowRankSoftmaxClassifier

    return LowRankSoftmaxClassifier(settings.radius, random_state=settings.seed)


def _low_rank_cv(settings: SimpleNamespace) -> Any:
    from fwnet.estimators import LowRankSoftmaxClassifierCV

    return LowRankSoftmaxClassifierCV(random_state=settings.seed)


MODELS = {
    "svc": EstimatorChoice(_svc, ("-C", "--kernel", "--gamma")),
    "deep-svc": EstimatorChoice(_deep_svc, ("-C", "--updates")),
    "low-rank": EstimatorChoice(_low_rank, ("--radius",)),
    "low-rank-cv": EstimatorChoice(_low_rank_cv),
    "svr": EstimatorChoice(_svr, ("-C", "--kernel", "--gamma"), "r2"),
}


def fit(
    source: Annotated[
        str, typer.Argument(help="CSV, NPZ (X, y), LIBSVM file, or a data set such as digits.")
    ],
    model: Annotated[
        str, typer.Option(help="The estimator.", autocompletion=completes(lambda: MODELS))
    ] = "svc",
    c: Annotated[
        float | None, typer.Option("-C", help="SVMs: weight of the errors. [default: 1]")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="svc, svr: rbf, linear, poly or sigmoid. [default: rbf]")
    ] = None,
    gamma: Annotated[
        str | None, typer.Option(help="svc, svr: scale, auto or a number. [default: scale]")
    ] = None,
    updates: Annotated[
        int | None, typer.Option(help="deep-svc: updates of the network. [default: 100]")
    ] = None,
    radius: Annotated[
        str | None, typer.Option(help="low-rank: trace norm, a number or auto. [default: auto]")
    ] = None,
    test: Annotated[float, typer.Option(help="Share of the points to hold out.")] = 0.25,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of the held-out points and the weights.")
    ] = 0,
    target: Annotated[str | None, typer.Option(help="Column of y in a CSV file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the model here (joblib).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit an estimator, test it on held-out points, and save it.

    Estimators: svc (kernel SVM), deep-svc (SVM on a small network), low-rank (softmax regression in
    a trace-norm ball), low-rank-cv (the same, its radius by cross-validation), svr (kernel SVM for
    regression).

    Read a saved model with joblib.load; it is a pickle, so load only files that you trust.

    Examples:

        fwnet fit iris.csv --target species --save iris.joblib

        fwnet fit digits -C 10

        fwnet fit points.npz --model deep-svc --updates 200 --json

        fwnet fit mnist --model low-rank --radius 50

        fwnet fit prices.csv --model svr -C 100
    """
    import numpy as np
    from sklearn.model_selection import train_test_split

    from fwnet.cli.tables import read_points
    from fwnet.trace import Clock

    chosen = MODELS[known("model", model, MODELS)]
    if not 0 < test < 1:
        raise typer.BadParameter(f"--test must be between 0 and 1; got {test}.")
    check_target("--save", save)
    options = {"-C": c, "--kernel": kernel, "--gamma": gamma, "--updates": updates}
    _check_options(model, options | {"--radius": radius})
    settings = SimpleNamespace(c=1.0 if c is None else c, kernel=kernel or "rbf", seed=seed)
    settings.updates = 100 if updates is None else updates
    settings.gamma = _number("--gamma", gamma or "scale", "scale", "auto")
    settings.radius = _number("--radius", radius or "auto", "auto")
    X, y = read_points(source, target)
    classes = None if chosen.measure == "r2" else _classes(source, y)
    y = _numbers(source, y) if classes is None else y
    parts = train_test_split(
        X, y, test_size=test, random_state=seed, stratify=None if classes is None else y
    )
    X_train, X_test, y_train, y_test = parts
    estimator = chosen.make(settings)
    clock = Clock()
    estimator.fit(X_train, y_train)
    seconds = clock.seconds
    if save is not None:
        _save(save, estimator)
    facts = {
        "model": model,
        **({} if classes is None else {"classes": len(classes)}),
        "train_points": X_train.shape[0],
        "test_points": X_test.shape[0],
        f"train_{chosen.measure}": float(estimator.score(X_train, y_train)),
        f"test_{chosen.measure}": float(estimator.score(X_test, y_test)),
        **_size(estimator),
        "duality_gap": float(np.max(estimator.duality_gap_)),
        "seconds": seconds,
    }
    rows = [[name.replace("_", " "), value] for name, value in facts.items()]
    show(facts, as_json, table(f"{source}", ["", ""], rows))


def _check_options(model: str, options: dict[str, Any]) -> None:
    """Raise for an option that the estimator does not take."""
    takes = MODELS[model].takes
    for option, value in options.items():
        if value is not None and option not in takes:
            raise typer.BadParameter(
                f"{option} does not apply to --model {model}, which takes "
                f"{' and '.join(takes) or 'no such option'}."
            )


def _classes(source: str, y: np.ndarray) -> np.ndarray:
    import numpy as np

    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        few = zip(classes[:10], counts[:10], strict=True)
        more = f", and {len(classes) - 10} more" if len(classes) > 10 else ""
        raise Failed(
            f"{source} needs two classes or more with at least two points each; got "
            f"{', '.join(f'{name}: {n}' for name, n in few)}{more}. For numbers, --model svr."
        )
    return classes


def _numbers(source: str, y: np.ndarray) -> np.ndarray:
    import numpy as np

    try:
        return np.asarray(y, dtype=float)
    except ValueError as error:
        raise Failed(f"{source}: regression needs numbers to predict: {error}.") from None


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

    from fwnet.numerics.files import written_whole

    with written_whole(path, f"--save {path}") as file:
        joblib.dump(estimator, file)
