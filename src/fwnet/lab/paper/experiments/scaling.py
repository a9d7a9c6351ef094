"""scaling: what a rank-1 step costs as the matrix grows (Q4; a sentence of the paper)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, final

import numpy as np
import torch

from fwnet.lab.paper.claims import Claim, Comparison, Reading
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, band
from fwnet.lab.paper.measures import range_text
from fwnet.lab.paper.updates import Adam
from fwnet.numerics.singular import power_iteration

POWER, SVD, ADAM = "five power iterations", "full SVD", "Adam's update"


@final
@dataclass(frozen=True)
class ScalingConfig:
    """Arguments:
    sides: of the square matrices.
    repeats: timings of each, interleaved; the median counts.
    """

    sides: tuple[int, ...]
    repeats: int = 7


@final
class Scaling(Experiment[ScalingConfig]):
    """Seconds of one step of a softmax layer on its matrix, by three oracles."""

    name = "scaling"
    title = "What a rank-1 step costs"
    paper = "text, no figure"
    question = "Do rank-1 steps scale to large softmax layers, where a full SVD does not?"

    def config(self, profile: Profile) -> ScalingConfig:
        sides = (64, 128, 256, 512, 1024)
        return ScalingConfig(sides[:-1] if profile is Profile.QUICK else sides)

    def seeds(self, profile: Profile) -> int:
        return 1

    def run(self, config: ScalingConfig, seed: int, progress: Progress) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        seconds: dict[str, list[float]] = {POWER: [], SVD: [], ADAM: []}
        for place, side in enumerate(config.sides):
            progress(place / len(config.sides), f"matrices of {side} × {side}")
            G, W = torch.randn(2, side, side, generator=generator)
            taken = _interleaved(_steps(G, W, generator), config.repeats)
            for name, found in taken.items():
                seconds[name].append(found)
        return {"seconds": seconds}

    def figures(self, results: Results) -> Sequence[Figure]:
        sides = results.config["sides"]
        return [
            Curves(
                "seconds",
                "One step of a square softmax matrix",
                "Median of interleaved processor times on one thread. A rank-1 step is five power "
                "iterations and the move to the vertex.",
                "rows and columns",
                "seconds",
                [
                    band(name, sides, seconds, name != POWER)
                    for name, seconds in results.by_name("seconds").items()
                ],
                log_x=True,
                log_y=True,
            )
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        seconds = {name: found.mean(0) for name, found in results.by_name("seconds").items()}
        ratio = seconds[SVD] / seconds[POWER]
        slope = np.polyfit(np.log(results.config["sides"]), np.log(seconds[POWER]), 1)[0]
        side = results.config["sides"][-1]
        return [
            Claim(
                "Q4",
                "The subproblems can be solved by a single approximate eigenvector computation "
                "instead of a complete SVD, which is much more efficient, especially if the matrix "
                "dimensions are large.",
                "(no numbers)",
                f"At {side} × {side} a full SVD takes {ratio[-1]:.0f} times as long as five power "
                f"iterations, at the smallest size {ratio[0]:.1f} times as long; the time of a "
                f"step grows as the side to the power {slope:.1f}. Ten times counts as much more "
                "efficient.",
                [
                    Reading(
                        "the largest matrix",
                        (
                            Comparison(float(ratio[-1]), ">", 10.0, "SVD / power, seconds"),
                            Comparison(
                                float(ratio[-1]), ">", float(ratio[0]), "largest against smallest"
                            ),
                        ),
                    )
                ],
                range_text(ratio, "sizes"),
                "nothing to tune",
            )
        ]


def _steps(
    G: torch.Tensor, W: torch.Tensor, generator: torch.Generator
) -> dict[str, Callable[[], object]]:
    start = torch.randn(G.shape[-1], generator=generator)
    start = start / start.norm()
    adam, weights = Adam(0.001), {"W": W}
    memory = adam.init(weights)

    def power() -> torch.Tensor:
        u, _, v = power_iteration(G, start, 5)
        return torch.lerp(W, -50 * u.unsqueeze(-1) * v.unsqueeze(-2), 0.001)

    def svd() -> torch.Tensor:
        u, _, vt = torch.linalg.svd(G)
        return torch.lerp(W, -50 * u[:, :1] * vt[:1], 0.001)

    return {POWER: power, SVD: svd, ADAM: lambda: adam(weights, {"W": G}, memory)}


def _interleaved(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each; the first round, which warms up, is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            taken[name].append(time.process_time() - start)
    return {name: median(found[1:]) for name, found in taken.items()}
