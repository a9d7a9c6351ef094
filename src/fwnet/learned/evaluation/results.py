"""Evaluation: what each method needed on held-out problems, as a table, a picture, a file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from fwnet.learned.baselines import Choice
from fwnet.numerics.files import write_text
from fwnet.numerics.optional import optional
from fwnet.show import html
from fwnet.show.plotting import plot_comparison

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

COSTS = ("iterations", "gradients", "seconds")


class Cost(NamedTuple):
    """What one run needed to come within a tolerance of the optimum; infinite if it did not.

    Example:
        >>> from fwnet import learned
        >>> cost = learned.Cost("FISTA", 0, 3, 1e-4, iterations=21.0, gradients=25.0, seconds=0.005)
        >>> cost.gradients
        25.0
    """

    method: str
    seed: int  # which of several controllers; 0 for a baseline
    problem: int
    tolerance: float  # (f − f*)/|f*|
    iterations: float
    gradients: float
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Costs of every method on every held-out problem.

    Arguments:
        learned: names of the learned methods.
        costs: one record for each run and tolerance.
        choices: the constants that validation problems chose, and the scores of each grid.
        grid: numbers of gradient evaluations at which `curves` are taken, `(points,)`.
        curves: relative suboptimality of each run of a method, `(runs, points)`.
        facts: family, problems, budgets, seeds.

    Example:
        >>> from fwnet import learned
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> fista = learned.baselines.FISTA()
        >>> found: learned.Evaluation = learned.evaluate(
        ...     learned.load("simplex-qp"), family, [fista], problems=2, max_steps=50
        ... )
        >>> sorted({cost.method for cost in found.costs})
        ['FISTA', 'learned']
    """

    learned: tuple[str, ...]
    costs: tuple[Cost, ...]
    choices: dict[str, Choice] = field(default_factory=dict)
    grid: np.ndarray = field(default_factory=lambda: np.zeros(0))
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        runs = len(self.costs) // max(1, len(self.tolerances))
        return f"Evaluation({len(self.methods)} methods, {runs} runs; print it for its tables)"

    def __str__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return html.text(self.report())

    @property
    def methods(self) -> list[str]:
        """Names, the learned ones first."""
        return list(dict.fromkeys([*self.learned, *(cost.method for cost in self.costs)]))

    @property
    def tolerances(self) -> list[float]:
        """From the loosest to the tightest."""
        return sorted({cost.tolerance for cost in self.costs}, reverse=True)

    def of(self, method: str, tolerance: float, by: str = "iterations") -> np.ndarray:
        """The costs of a method, one entry a run: problems in order, seed after seed."""
        if by not in COSTS:
            raise ValueError(f"by must be one of {COSTS}; got {by!r}.")
        if method not in self.methods:
            raise ValueError(f"method must be one of {self.methods}; got {method!r}.")
        rows = [c for c in self.costs if c.method == method and c.tolerance == tolerance]
        if not rows:
            raise ValueError(f"tolerance must be one of {self.tolerances}; got {tolerance!r}.")
        rows.sort(key=lambda cost: (cost.seed, cost.problem))
        return np.array([getattr(cost, by) for cost in rows], dtype=float)

    def quartiles(
        self, method: str, tolerance: float, by: str = "iterations"
    ) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile; infinite where too few runs got there.

        Each is the cost of a run: of two in the middle, the smaller one is the median.
        """
        ordered = np.sort(self.of(method, tolerance, by))
        low, middle, high = (_order_quantile(ordered, q) for q in (0.25, 0.5, 0.75))
        return low, middle, high

    def speedup(
        self, ours: str, theirs: str, tolerance: float, by: str = "gradients"
    ) -> tuple[float, float, float]:
        """Quartiles of (their cost / our cost), problem by problem; above 1, ours is cheaper."""
        mine, other = self.of(ours, tolerance, by), self.of(theirs, tolerance, by)
        seeds = len(mine) // len(other) if len(mine) >= len(other) else 1
        other = np.tile(other, seeds)
        # A start that is good enough costs nothing: count it as one.
        least = 1.0 if by != "seconds" else 1e-9
        with np.errstate(invalid="ignore"):
            ratio = np.maximum(other, least) / np.maximum(mine, least)
        ratio = np.sort(np.where(np.isinf(mine) & np.isinf(other), 1.0, ratio))
        low, middle, high = (_order_quantile(ratio, q) for q in (0.25, 0.5, 0.75))
        return low, middle, high

    def losses(self, by: str = "gradients") -> list[tuple[str, str, float, float]]:
        """Where we lose: (learned, baseline, tolerance, median speedup below 1)."""
        found = []
        for ours in self.learned:
            for theirs in self.methods:
                for tolerance in self.tolerances if theirs not in self.learned else ():
                    ratio = self.speedup(ours, theirs, tolerance, by)[1]
                    if ratio < 1:
                        found.append((ours, theirs, tolerance, ratio))
        return found

    def table(self, by: str = "iterations") -> str:
        """Medians (quartiles) of one cost to every tolerance, one line a method."""
        scale, unit = (1e3, "ms") if by == "seconds" else (1.0, by)
        header = [f"{unit} to", *(f"{tol:.0e}" for tol in self.tolerances)]
        rows = [header]
        for method in self.methods:
            chosen = self.choices.get(method)
            name = method if chosen is None else f"{method} [{chosen.constant:g}]"
            cells = []
            for tolerance in self.tolerances:
                low, middle, high = (scale * q for q in self.quartiles(method, tolerance, by))
                spread = f"{_short(middle)} ({_short(low)} to {_short(high)})"
                cells.append("never" if math.isinf(low) else spread)
            rows.append([f"* {name}" if method in self.learned else f"  {name}", *cells])
        return _aligned(rows)

    def ends(self) -> str:
        """Medians (quartiles) of the suboptimality where runs ended, one line a method.

        They end at the tightest tolerance, or when all steps are taken.
        """
        rows = [["where it ended", "(f − f*)/|f*|"]]
        for method, curves in self.curves.items():
            low, middle, high = np.quantile(curves[:, -1], (0.25, 0.5, 0.75), method="lower")
            mark = "*" if method in self.learned else " "
            rows.append([f"{mark} {method}", f"{middle:.1e} ({low:.1e} to {high:.1e})"])
        return _aligned(rows)

    def report(self) -> str:
        """The tables, the chosen constants, and where the learned methods lose."""
        runs = max(cost.problem for cost in self.costs) + 1
        head = f"{runs} {'problem' if runs == 1 else 'problems'}: median (quartiles); * is learned"
        parts = [head, *(self.table(by) for by in COSTS), *([self.ends()] if self.curves else [])]
        for by, name in (("gradients", "gradient evaluations"), ("seconds", "seconds")):
            worst: dict[tuple[str, str], tuple[float, float]] = {}
            for ours, theirs, tolerance, ratio in self.losses(by):
                pair, loss = (ours, theirs), (ratio, tolerance)
                worst[pair] = min(worst.get(pair, loss), loss)
            lines = [
                f"  {a} against {b}: {f'{ratio:.2f}×' if ratio else 'never'} to {tolerance:.0e}"
                for (a, b), (ratio, tolerance) in worst.items()
            ]
            parts.append(
                f"where we lose (their {name} / ours, medians, at the worst tolerance)\n"
                + ("\n".join(lines) if lines else "  nowhere on this family")
            )
        return "\n\n".join(parts)

    def profile(
        self, method: str, tolerance: float, by: str = "gradients"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Data profile: budgets, and the share of runs that were done within each of them."""
        ordered = np.sort(self.of(method, tolerance, by))
        done = ordered[np.isfinite(ordered)]
        return done, np.arange(1, len(done) + 1) / len(ordered)

    def plot(self, tolerance: float | None = None) -> Figure:
        """Median suboptimality against gradient evaluations, and the data profile beside it."""
        tolerance = self.tolerances[-1] if tolerance is None else tolerance
        profiles = {name: self.profile(name, tolerance) for name in self.methods}
        return plot_comparison(self.grid, self.curves, profiles, self.learned, tolerance)

    def to_pandas(self) -> pandas.DataFrame:
        """One row a run and tolerance, the fields of `Cost`."""
        pandas = optional("pandas", "to_pandas", "pandas")
        return pandas.DataFrame(list(self.costs), columns=list(Cost._fields))

    def save(self, path: str | Path) -> None:
        """Write everything but the curves as JSON; infinite costs as null."""
        data = {
            "facts": self.facts,
            "learned": list(self.learned),
            "choices": {name: asdict(choice) for name, choice in self.choices.items()},
            "costs": [
                {k: None if v == math.inf else v for k, v in c._asdict().items()}
                for c in self.costs
            ],
        }
        write_text(Path(path), json.dumps(data, indent=1) + "\n")


def _aligned(rows: list[list[str]]) -> str:
    """Cells under each other, one line a row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _order_quantile(ordered: np.ndarray, q: float) -> float:
    """A quantile that is one of the samples: infinities must not be averaged."""
    return float(ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)])


def _short(value: float) -> str:
    if math.isinf(value):
        return "never"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
