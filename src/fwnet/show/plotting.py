"""Plots of traces and classifiers, by matplotlib."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fwnet.numerics.optional import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {"t": "step", "seconds": "seconds"}


class TraceColumns(Protocol):
    """Records that are read by column, as those of `fwnet.trace.Trace`."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> np.ndarray:
        """One field over all records: `(records,)`, or `(records, batch)`."""


def plot_trace(
    trace: TraceColumns, against: str = "t", ax: Axes | None = None, label: str = ""
) -> Axes:
    """Duality gap, and the value's distance from the best one seen, on a logarithmic axis.

    A batch is drawn as its median with a band from the smallest to the largest.

    Arguments:
        trace: of one solve.
        against: `"t"` or `"seconds"`.
        ax: where to draw; a new figure if left out.
        label: in front of the legend's entries.

    Example:
        >>> from fwnet.plotting import plot_trace
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> result = FrankWolfe(Simplex(), tol=1e-2)(problem)
        >>> plot_trace(result.trace).get_yscale()
        'log'
    """
    if against not in _LABELS:
        raise ValueError(f'against must be "t" or "seconds"; got {against!r}.')
    if len(trace) == 0:
        raise ValueError("the trace is empty; there is nothing to plot.")
    ax = _new_axes((6, 4)) if ax is None else ax
    where = trace.column(against)
    value, gap = trace.column("value"), trace.column("gap")
    excess = value - np.nanmin(value, axis=0)
    prefix = f"{label} " if label else ""
    for data, name, style in ((gap, "gap", "-"), (excess, "value − best value", "--")):
        data = np.where(data > 0, data, np.nan).reshape(len(trace), -1)
        known = ~np.isnan(data).all(axis=1)
        if not known.any():
            continue
        middle = np.nanmedian(data[known], axis=1)
        (line,) = ax.plot(where[known], middle, style, label=prefix + name)
        if data.shape[1] > 1:
            low, high = np.nanmin(data[known], axis=1), np.nanmax(data[known], axis=1)
            ax.fill_between(where[known], low, high, color=line.get_color(), alpha=0.2, lw=0)
    ax.set_yscale("log")
    ax.set_xlabel(_LABELS[against])
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_curves(
    curves: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
    x_label: str,
    y_label: str,
    ax: Axes | None = None,
) -> Axes:
    """Named curves (x, y) on one pair of axes.

    Example:
        >>> from fwnet.plotting import plot_curves
        >>> ax = plot_curves({"a": ([1, 2, 3], [3, 2, 1])}, "step", "gap")
        >>> ax.get_xlabel()
        'step'
    """
    ax = _new_axes((6, 4)) if ax is None else ax
    for name, (x, y) in curves.items():
        ax.plot(x, y, label=name)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_decision_boundary(
    classifier: Any,
    X: Any,  # (n, 2)
    y: Any,  # (n,)
    ax: Axes | None = None,
    *,
    resolution: int = 200,
    support: bool = True,
) -> Axes:
    """Regions of the classes, the points, the margin and the support vectors, for points in 2-D.

        boundary f(x) = 0 (solid),   margin f(x) = −1 and +1 (dashed),   support vectors (rings)

    With more than two classes, regions and their borders only: each class has its own f.

    Arguments:
        classifier: fitted, with `predict`, `decision_function` and `classes_`; the rows of X that
            its `support_` names, if it has one, are ringed.
        X: the points that it was fitted to, or others (then pass support=False).
        y: their classes.
        ax: where to draw; a new figure if left out.
        resolution: grid points along each axis.
        support: ring the support vectors.

    Example:
        >>> import numpy as np
        >>> from fwnet.estimators import FWSVC
        >>> from fwnet.plotting import plot_decision_boundary
        >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 1])
        >>> ax = plot_decision_boundary(FWSVC(kernel="linear").fit(X, y), X, y, resolution=20)
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    _check_plane(X, y)
    ringed = _support(classifier, X) if support else np.empty(0, dtype=int)
    classes = _classes(classifier)
    ax = _new_axes((5, 4.5)) if ax is None else ax
    colors = [f"C{k % 10}" for k in range(len(classes))]
    _draw_regions(ax, classifier, _grid(X, resolution), colors)
    size = float(np.clip(6000 / len(X), 4, 24))
    for name, color in zip(classes, colors, strict=True):
        mine = X[y == name]
        ax.scatter(
            mine[:, 0], mine[:, 1], s=size, color=color, label=str(name), linewidths=0, zorder=2
        )
    if ringed.size:
        ax.scatter(
            X[ringed, 0],
            X[ringed, 1],
            s=2.5 * size + 12,
            facecolors="none",
            edgecolors="k",
            linewidths=0.8,
            label=f"{ringed.size} support vectors",
            zorder=3,
        )
    columns = min(len(classes) + 1, 6)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=columns, fontsize="small")
    ax.set_aspect("equal", adjustable="box")
    return ax


def _check_plane(X: np.ndarray, y: np.ndarray) -> None:
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"X must hold points in the plane, shape (n, 2); got {X.shape}.")
    if y.shape != X.shape[:1]:
        raise ValueError(f"y must hold one class per point, shape {X.shape[:1]}; got {y.shape}.")


def _classes(classifier: Any) -> list[Any]:
    if not hasattr(classifier, "classes_") or not hasattr(classifier, "decision_function"):
        raise TypeError(
            "classifier must be fitted and have a decision_function; "
            f"got {type(classifier).__name__}. Call fit first."
        )
    return list(classifier.classes_)


def _support(classifier: Any, X: np.ndarray) -> np.ndarray:
    """The rows of X that are support vectors."""
    rows = np.asarray(getattr(classifier, "support_", []), dtype=int)
    if rows.size and rows.max() >= len(X):
        raise ValueError(
            f"classifier.support_ names row {rows.max()} of X, which has {len(X)} rows. Pass the "
            "points of the fit, or support=False."
        )
    return rows


def _draw_regions(
    ax: Axes,
    classifier: Any,
    grid: tuple[np.ndarray, np.ndarray, np.ndarray],
    colors: Sequence[str],
) -> None:
    """The regions of the classes and their borders; for two classes also the margin."""
    first, second, points = grid
    found = np.searchsorted(classifier.classes_, classifier.predict(points)).reshape(first.shape)
    edges = np.arange(len(colors) + 1) - 0.5
    ax.contourf(first, second, found, levels=edges, colors=colors, alpha=0.22)
    if len(colors) == 2:
        values = np.asarray(classifier.decision_function(points)).reshape(first.shape)
        for level, style in ((-1.0, "dashed"), (0.0, "solid"), (1.0, "dashed")):
            level_line(ax, first, second, values, level, style)
    else:
        for k in range(len(colors)):
            level_line(ax, first, second, (found == k).astype(float), 0.5, "solid")


def plot_comparison(
    grid: np.ndarray,  # (points,)
    curves: Mapping[str, np.ndarray],  # (runs, points) each
    profiles: Mapping[str, tuple[np.ndarray, np.ndarray]],
    bold: Collection[str],
    tolerance: float,
) -> Figure:
    """Many methods on many problems: median suboptimality, and the share of problems solved.

    Bold methods and the best four others have a colour each; the remaining ones are grey.

    Arguments:
        grid: numbers of gradient evaluations.
        curves: relative suboptimality of each run after so many evaluations, by method.
        profiles: budgets and the share of runs solved within them, by method.
        bold: methods to draw on top, with their quartiles.
        tolerance: at which a problem counts as solved.

    Example:
        >>> import numpy as np
        >>> from fwnet.plotting import plot_comparison
        >>> grid = np.array([1.0, 10.0])
        >>> curves = {"ours": np.array([[0.1, 1e-5]]), "theirs": np.array([[0.1, 1e-3]])}
        >>> profiles = {name: (grid, np.array([0.0, 1.0])) for name in curves}
        >>> figure = plot_comparison(grid, curves, profiles, {"ours"}, 1e-3)
    """
    figure, (left, right) = optional("matplotlib.pyplot", "plotting", "plot").subplots(
        1, 2, figsize=(9, 4.4), layout="constrained"
    )
    medians = {
        name: np.nanmedian(np.where(np.isnan(rows), np.inf, rows), axis=0)
        for name, rows in curves.items()
    }
    styles = _styles(medians, bold, tolerance)
    for name, rows in curves.items():
        style, middle = styles[name], medians[name]
        seen = np.isfinite(middle)
        left.plot(grid[seen], middle[seen], **style)
        if name in bold:
            low, high = np.quantile(rows[:, seen], [0.25, 0.75], axis=0)
            left.fill_between(grid[seen], low, high, color=style["color"], alpha=0.2, lw=0)
        budgets, shares = profiles[name]
        right.step(
            np.concatenate([[1], budgets, [grid[-1]]]),
            np.concatenate([[0], shares, [shares[-1] if len(shares) else 0]]),
            where="post",
            **{**style, "label": "_"},
        )
    left.axhline(tolerance, color="k", lw=0.8, ls=":")
    left.set(xscale="log", yscale="log", ylim=(tolerance / 3, None))
    left.set(xlabel="gradient evaluations", ylabel="(f − f*) / f*, median")
    right.set(xscale="log", xlabel="gradient evaluations", ylim=(-0.02, 1.02))
    right.set_ylabel(f"share of problems within {tolerance:.0e}")
    for ax in (left, right):
        ax.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return figure


def _styles(
    medians: Mapping[str, np.ndarray], bold: Collection[str], tolerance: float
) -> dict[str, dict[str, Any]]:
    """How to draw each method: few colours, since nobody can tell seventeen apart."""

    def place(name: str) -> tuple[int, float]:
        """When the median reaches the tolerance, then how far it gets."""
        reached = np.flatnonzero(medians[name] <= tolerance)
        return (reached[0] if reached.size else len(medians[name])), np.min(medians[name])

    others = sorted((name for name in medians if name not in bold), key=place)
    rest = others[4:]
    coloured = [name for name in medians if name not in rest]
    styles: dict[str, dict[str, Any]] = {}
    for name in medians:
        if name in rest:
            label = f"the {len(rest)} others" if name == rest[0] else "_"
            styles[name] = {"color": "0.75", "lw": 0.8, "zorder": 1, "label": label}
        else:
            width, above = (2.6, 3) if name in bold else (1.3, 2)
            k = coloured.index(name)
            styles[name] = {"color": f"C{k % 10}", "lw": width, "zorder": above, "label": name}
            styles[name]["ls"] = ("-", "--", ":")[k // 10 % 3]
    return styles


def _new_axes(size: tuple[float, float]) -> Axes:
    _, ax = optional("matplotlib.pyplot", "plotting", "plot").subplots(
        figsize=size, layout="constrained"
    )
    return ax


def _grid(X: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates `(resolution, resolution)` around the points, and the same as rows."""
    if resolution < 2:
        raise ValueError(f"resolution must be at least 2; got {resolution!r}.")
    low, high = X.min(0), X.max(0)
    room = 0.08 * np.where(high > low, high - low, 1.0)
    axes = [np.linspace(a, b, resolution) for a, b in zip(low - room, high + room, strict=True)]
    first, second = np.meshgrid(*axes)
    return first, second, np.column_stack([first.ravel(), second.ravel()])


def level_line(
    ax: Axes, x: Any, y: Any, values: np.ndarray, level: float, style: str, color: str = "k"
) -> None:
    """The line values = level, unless there is none, of which matplotlib would warn."""
    if np.nanmin(values) < level < np.nanmax(values):
        ax.contour(x, y, values, levels=[level], colors=color, linestyles=style, linewidths=1.1)
