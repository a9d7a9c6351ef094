"""The criteria of every figure, fixed beforehand and the same for all of its claims.

    area    the mean of the curve over the iterations
    end     the last value of the curve
    count   iterations to a level, where the paper counts iterations

A run that diverges has infinite area and end, and never reaches a level. A training that failed is
left out of every number and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from fwnet.lab.paper.claims import Comparison, Promise, Reading, Rule
from fwnet.lab.paper.experiment import Results
from fwnet.lab.paper.figures import Curves, PlottedLine, Row, Table, bands
from fwnet.lab.paper.measures import median_text, range_text, reached, times

CRITERIA: dict[str, str] = {"area": "area under the curve", "end": "value at the end"}


def judge(curves: Any, levels: Any = None) -> dict[str, Any]:  # (problems, T + 1), (problems,)
    """Area, end and count of the curves of one method, and their mean curve.

    Example:
        >>> judge([[4.0, 2.0, 1.0]], [2.0])["count"]
        [1.0]
    """
    values = np.atleast_2d(np.asarray(curves, dtype=float))
    values = np.where(np.isnan(values), np.inf, values)
    found = {"curve": values.mean(0), "area": values.mean(1), "end": values[:, -1]}
    if levels is None:
        return found
    return found | {"count": [reached(c, level) for c, level in zip(values, levels, strict=True)]}


@final
@dataclass(frozen=True, eq=False)
class Judged:
    """The numbers of every method over all seeds whose training succeeded."""

    results: Results

    @property
    def names(self) -> list[str]:
        """All methods."""
        return list(self.results.first("methods"))

    def failed(self, *names: str) -> list[int]:
        """The seeds in which the training of one of the methods failed."""
        return [
            each.seed
            for each in self.results.seeds
            if any(_training(each.metrics, name).get("failed") for name in names)
        ]

    def untrained(self, *names: str) -> str:
        """A sentence if no seed has all of these methods trained; empty otherwise."""
        if len(self.failed(*names)) < len(self.results.seeds):
            return ""
        return f"No training of {' and '.join(names)} beat its initial weights on validation."

    def values(self, name: str, key: str, *others: str) -> np.ndarray:  # (seeds, …)
        """An entry of every seed in which the method, and others, are trained.

        Infinite where it is missing: a level that was never reached, a run that diverged.
        """
        left_out = self.failed(name, *others)
        kept = [
            each.metrics["methods"][name][key]
            for each in self.results.seeds
            if each.seed not in left_out
        ]
        found = np.array(kept, dtype=float)
        return np.where(np.isnan(found), np.inf, found)

    def typical(self, name: str, key: str) -> float:
        """The median over seeds of the mean over problems; of counts the median over all."""
        found = self.values(name, key)
        if not found.size:
            return float("nan")
        each = found if key.startswith("count") else found.reshape(len(found), -1).mean(1)
        return float(np.median(each))

    def best(self, names: Iterable[str], key: str) -> str:
        """The method with the least number; one that failed is never the best."""
        order = {name: self.typical(name, key) for name in names}
        return min(order, key=lambda name: np.nan_to_num(order[name], nan=np.inf))

    def worst(self, names: Iterable[str], key: str, untrained: float = np.inf) -> str:
        """The method with the largest number; one that failed counts as `untrained`."""
        return max(names, key=lambda name: np.nan_to_num(self.typical(name, key), nan=untrained))

    def below(self, ours: str, rivals: Iterable[str], key: str, share: float = 1.0) -> Comparison:
        """Our number against the least of the rivals, times a share."""
        rival = self.best(rivals, key)
        what = f"{ours}, against {f'{share:g} × ' if share != 1 else ''}{rival}"
        return Comparison(self.typical(ours, key), "<", share * self.typical(rival, key), what)

    def ahead(
        self, ours: str, rivals: Iterable[str], tuned: Iterable[str] = (), share: float = 1.0
    ) -> list[Reading]:
        """One reading a criterion: our method is below all rivals, and below the tuned ones."""
        tuned = list(tuned)
        return [
            Reading(
                text,
                (self.below(ours, rivals, key, share),),
                (self.below(ours, tuned, key, share),) if tuned else (),
            )
            for key, text in CRITERIA.items()
        ]

    def fewer(
        self, ours: str, rival: str, rule: Rule, goal: float, key: str = "count"
    ) -> Comparison:
        """How many times fewer iterations we need than a rival, against a goal."""
        slow, fast = self.values(rival, key, ours), self.values(ours, key, rival)
        factor = times(slow, fast) if slow.size else float("nan")
        return Comparison(factor, rule, goal, f"{rival} / {ours}, iterations")

    def promise(
        self, words: str, goal: float, learned: str, best: str, rival: str, tuned: str
    ) -> Promise:
        """How many times fewer iterations the learned and the best method need than rivals."""
        pairs = ((learned, rival), (best, rival), (best, tuned))
        factors = [self.fewer(ours, other, ">=", goal).number for ours, other in pairs]
        return Promise(words, goal, factors[0], best, *factors[1:])

    def spread(self, name: str, key: str, what: str = "runs") -> str:
        """Smallest to largest number of a method, and the trainings that failed."""
        found, failed = self.values(name, key), self.failed(name)
        text = range_text(found, what) if found.size else "none"
        note = f"; {len(failed)} of {len(self.results.seeds)} trainings failed" if failed else ""
        return f"{name} {text}{note}"

    def count(self, name: str) -> str:
        """The median iterations of a method, in words."""
        found = self.values(name, "count")
        return median_text(found) if found.size else "not trained"

    # What every experiment shows of its methods.

    def curves(
        self, names: Iterable[str], baselines: Iterable[str] = (), every: int = 1
    ) -> list[PlottedLine]:
        """Mean and standard deviation over seeds of the curves of methods."""
        runs = {name: self.values(name, "curve") for name in names}
        return bands({name: c for name, c in runs.items() if c.size}, set(baselines), every)

    def table(self, caption: str, extra: Mapping[str, Mapping[str, Any]] | None = None) -> Table:
        """Every method by every criterion, further columns, and what was chosen for it."""
        extra = {} if extra is None else extra
        counted = all("count" in m for m in self.results.first("methods").values())
        columns = ["method", *CRITERIA.values(), *(["iterations"] if counted else []), *extra]
        rows: list[Row] = [
            [
                name,
                *(self.typical(name, key) for key in CRITERIA),
                *([self.count(name)] if counted else []),
                *(found.get(name) for found in extra.values()),
                self.results.chosen(name),
            ]
            for name in self.names
        ]
        title = "Every method by every criterion"
        return Table("table", title, caption, (*columns, "chosen"), rows)

    def training(self) -> Curves:
        """Validation while training, for every learned method of the first seed."""
        metrics = self.results.seeds[0].metrics
        lines = []
        for name in metrics.get("training", {}):
            facts = _training(metrics, name)
            score = np.array(facts["validation"], dtype=float)
            first = score[0] if score[0] else 1.0
            share = np.minimum.accumulate(np.where(np.isnan(score), np.inf, score)) / first
            lines.append(PlottedLine(name, facts["updates"], share.tolist()))
        return Curves(
            "training",
            "Training of the learned optimizers",
            "Least validation so far, as a share of that of the initial weights (first seed, best "
            "restart). Training ends when a third of its planned updates brought nothing new. "
            + self._ends()
            + self._rates(),
            "updates of the LSTM's weights",
            "validation / first validation",
            lines,
            log_y=True,
        )

    def _rates(self) -> str:
        """What the first seed found with each learning rate; empty where there was one."""
        said = []
        for name, facts in self.results.seeds[0].metrics.get("training", {}).items():
            rates = facts.get("rates", {})
            if len(rates) > 1:
                said.append(f"{name} {', '.join(f'{rate}: {v:.3g}' for rate, v in rates.items())}")
        if not said:
            return ""
        return f" Least validation of the first seed by meta lr: {'; '.join(said)}."

    def _ends(self) -> str:
        """Which trainings failed, and which were still improving."""
        failed, moving = [], []
        for each in self.results.seeds:
            for name in each.metrics.get("training", {}):
                facts = _training(each.metrics, name)
                text = f"{name} (seed {each.seed})"
                if facts["failed"]:
                    failed.append(text)
                elif not facts["settled"]:
                    moving.append(text)
        said = [f"Failed: {', '.join(failed)}." if failed else "No training failed."]
        if moving:
            said.append(f"Still improving when the budget ended: {', '.join(moving)}.")
        return " ".join(said)


def _training(metrics: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = metrics.get("training", {}).get(name, {})
    return found


def readings(*groups: tuple[str, Sequence[Reading]]) -> list[Reading]:
    """Readings of several groups, each with its group's name in front."""
    return [
        Reading(f"{name}; {each.name}" if name else each.name, each.numbers, each.tuned)
        for name, group in groups
        for each in group
    ]
