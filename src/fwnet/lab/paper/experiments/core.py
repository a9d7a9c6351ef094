"""The core of the library on five problems: every answer with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from fwnet.lab.paper.core_problems import EXAMPLES, Budgeted
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, PlottedLine, Table


@final
@dataclass(frozen=True)
class CoreConfig:
    """Arguments:
    share: of the full budget of steps.
    """

    share: float


@final
class Core(Experiment[CoreConfig]):
    """Five problems, each by several solvers."""

    name = "core"
    title = "The solvers on five problems"
    paper = "beyond the paper"
    question = (
        "What do the solvers of fwnet do on real problems? The gap bounds how far f(x) is above "
        "the minimum, and every answer comes with it."
    )

    def config(self, profile: Profile) -> CoreConfig:
        return CoreConfig(share=0.5 if profile is Profile.QUICK else 1.0)

    def seeds(self, profile: Profile) -> int:
        return 1

    def run(self, config: CoreConfig, seed: int, progress: Progress) -> dict[str, Any]:
        problems = []
        for i, example in enumerate(EXAMPLES):
            started = partial(progress, i / len(EXAMPLES))
            problems.append(example(Budgeted(config.share, seed, started)).facts())
        return {"problems": problems}

    def figures(self, results: Results) -> Sequence[Figure]:
        problems = results.first("problems")
        keys = ("solver", "steps", "gap", "seconds", "status")
        rows = [
            [problem["title"], *(run[key] for key in keys)]
            for problem in problems
            for run in problem["runs"]
        ]
        table = Table(
            "summary",
            "Solvers and their certificates",
            "Converged: the gap fell to the tolerance. Max steps: the budget was used up first.",
            ("Problem", "Solver", "Steps", "Gap", "Seconds", "Status"),
            rows,
        )
        return [*(_curves(problem) for problem in problems), table]


def _curves(problem: dict[str, Any]) -> Curves:
    caption = " ".join([problem["question"], problem["formula"] + ".", *problem["findings"]])
    return Curves(
        problem["name"],
        problem["title"],
        caption,
        "step",
        "duality gap",
        [PlottedLine(run["solver"], run["at"], run["curve"]) for run in problem["runs"]],
        log_x=True,
        log_y=True,
    )
