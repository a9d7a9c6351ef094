"""An experiment that takes no time and shows everything a page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwnet.lab.paper.claims import Claim, Comparison, Promise, Reading
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Maps, Panel, Table, band

METHODS = ("FWNet", "L2LC_γ", "Adam, tuned")


@dataclass(frozen=True)
class ToyConfig:
    """Arguments:
    steps: of a curve.
    """

    steps: int


class Toy(Experiment[ToyConfig]):
    """Curves 1/tᵃ with noise from the seed."""

    name = "toy"
    title = "Powers of t & <other> things"
    paper = "Figure 0"
    question = "Which power falls fastest?"

    def __init__(self, broken_at: int | None = None) -> None:
        self.broken_at = broken_at
        self.ran: list[int] = []

    def config(self, profile: Profile) -> ToyConfig:
        return ToyConfig(steps={"quick": 40, "paper": 400, "full": 4000}[profile.value])

    def run(self, config: ToyConfig, seed: int, progress: Progress) -> dict[str, Any]:
        if seed == self.broken_at:
            raise RuntimeError("the toy broke")
        self.ran.append(seed)
        generator = np.random.default_rng(seed)
        t = np.arange(1, config.steps + 1)
        loss = {}
        for i, method in enumerate(METHODS):
            progress(i / len(METHODS), method)
            noise = 0.3 * generator.standard_normal() + 0.05 * generator.standard_normal(len(t))
            loss[method] = np.exp(noise) / t ** (0.5 + 0.5 * i)
        grid = np.linspace(-1, 1, 40)
        values = 0.4 - np.hypot(grid[:, None], grid[None, :])
        points = generator.uniform(-1, 1, (60, 2))
        return {
            "t": t,
            "loss": loss,
            "map": 4 * values,
            "points": points,
            "labels": (np.hypot(*points.T) < 0.4).astype(int),
            "lost": np.nan,
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        t = results.first("t")
        series = [
            band(name, t, results.over_seeds("loss", name), baseline=name.startswith("Adam"))
            for name in METHODS
        ]
        panel = Panel(
            "FWNet, 500 iterations",
            results.first("map"),
            (-1, 1, -1, 1),
            results.first("points"),
            results.first("labels"),
        )
        last = results.over_seeds("loss", "FWNet")[:, -1]
        return [
            Curves("loss", "Loss", "Lower is better.", "step", "loss", series, log_y=True),
            Maps("maps", "Boundaries", "Smoother is better.", [panel, panel]),
            Table("end", "End", "", ("Method", "Loss", "n"), [["FWNet", float(last[0]), 1200]]),
        ]

    def findings(self, results: Results) -> Sequence[str]:
        return [f"{len(results.seeds)} seeds agree: 100 % of curves fall."]

    def claims(self, results: Results) -> Sequence[Claim]:
        last = results.over_seeds("loss", "FWNet")[:, -1]
        sentence, spread = f"The loss ends at {last.mean():.3g}.", f"± {last.std():.2g}"
        yes, no = (Comparison(2.0, ">", 1.0, "a / b"),), (Comparison(1.0, ">", 2.0, "a / b"),)
        holds, untuned, fails = Reading("area", yes), Reading("end", yes, no), Reading("end", no)

        def claim(question: str, words: str, *readings: Reading, untrained: str = "") -> Claim:
            paper, grid = "20 against 500", "lr 1e-4 … 1e-1"
            return Claim(question, words, paper, sentence, readings, spread, grid, untrained)

        return [
            claim("Q1", "Frank-Wolfe <networks> win", holds),
            claim("Q1", "this wins", holds, fails),
            claim("Q2", "less than half", untuned),
            claim("Q3", "a third", fails),
            claim("Q4", "all of it", holds, untrained="No training was better than its start."),
        ]

    def promises(self, results: Results) -> Sequence[Promise]:
        return [Promise("20 against <500>", 25.0, 7.5, "Adam, tuned", 12.5, float("nan"))]
