"""circles: deep SVMs on two rings, whose step size and kernel are learned (Figs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.data import load
from fwnet.lab.paper.claims import Claim, Comparison, Promise, Reading
from fwnet.lab.paper.configs import CIRCLES, CirclesConfig
from fwnet.lab.paper.deep_methods import (
    FWNET,
    GAMMA,
    GAMMA_KERNEL,
    HAND,
    NABLA_KERNEL,
    TODAY,
    TODAY_KERNEL,
    TUNED,
    direction_and_kernel,
    hand_designed,
    learned,
    tuned,
)
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, ExactSVM, Iteration, decide
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Maps, Panel
from fwnet.lab.paper.judged import Judged, judge, readings
from fwnet.lab.paper.kernel_nets import rings_net
from fwnet.lab.paper.measures import grid_text, median_of_known
from fwnet.lab.paper.methods import Method, Methods
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed

LEARNED = (GAMMA_KERNEL, GAMMA, NABLA_KERNEL)
KERNEL = {"step and kernel": GAMMA_KERNEL, "direction and kernel": NABLA_KERNEL}
SHOWN = (FWNET, *LEARNED)  # boundaries
_TRAINING, _VALIDATION = 1_000_000, 2_000_000  # seeds of rings; runs have those below


@final
class Circles(Experiment[CirclesConfig]):
    """Iterations to one loss, and the boundaries there."""

    name = "circles"
    title = "Deep SVMs on concentric circles"
    paper = "Figures 5 and 6"
    question = (
        "How many iterations do a hand-set step size, a learned one, and a learned step with a "
        "learned kernel need for the same loss?"
    )

    def config(self, profile: Profile) -> CirclesConfig:
        return CIRCLES[profile]

    def run(self, config: CirclesConfig, seed: int, progress: Progress) -> dict[str, Any]:
        if not 0 <= seed < 100:  # so that no run sees the rings of another part
            raise ValueError(f"circles takes seeds from 0 to 99; got {seed!r}.")
        hand = hand_designed(config)
        first = _VALIDATION + 100 * seed
        held = rings(config, range(first, first + config.held))
        levels = np.min(losses(hand[FWNET], held, config.steps + 1), 1)
        methods = Methods(hand, replace(held, levels=levels), config.steps + 1)

        def draw(generator: torch.Generator) -> DeepSVM:
            seeds = torch.randint(_TRAINING, _VALIDATION, (config.meta_batch,), generator=generator)
            return rings(config.in_training, seeds.tolist())

        trained: dict[str, Any] = {}
        for place, (name, version) in enumerate(learned(config, GAMMA_KERNEL, GAMMA).items()):
            progress(0.25 * place, f"training {name}")
            trained[name] = methods.learn(name, version, draw, config.meta, seed)
        kernel = trained[GAMMA_KERNEL][1]
        methods[TODAY_KERNEL] = partial(DeepTraining, mover=ExactSVM(), updates=kernel)
        progress(0.5, f"training {NABLA_KERNEL}")
        both = direction_and_kernel(config, config.direction_step, kernel)
        methods.learn(NABLA_KERNEL, both, draw, config.meta, seed)
        progress(0.75, "tuning on other rings")
        for name, choices in tuned(config).items():
            methods.tune(name, choices)
        progress(0.85, "training on fresh rings")
        seeds = range(100 * seed, 100 * seed + config.starts)
        test = rings(config, seeds)
        runs = {n: OptimizerRun(m(test)).record(config.steps + 1) for n, m in methods.items()}
        levels = _curves(runs[FWNET]).min(1)
        return {
            "methods": {
                name: _measured(config, test, seeds, run, levels, name in SHOWN)
                for name, run in runs.items()
            },
            "chosen": methods.chosen,
            "scores": methods.scores,
            "training": methods.training,
            "levels": levels,
            "points": test.X[0, :300].numpy(),
            "labels": (test.y[0, :300] > 0).int().numpy(),
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        judged = Judged(results)
        first = results.first("methods")
        panels = [
            Panel(
                f"{name}, {_count(first[name]['count'][0])}",
                np.round(first[name]["map"], 3).tolist(),
                (-1.3, 1.3, -1.3, 1.3),
                results.first("points"),
                results.first("labels"),
            )
            for name in SHOWN
        ]
        extra = {
            "test accuracy": {n: _median(judged, n, "test") for n in judged.names},
            "roughness": {n: _median(judged, n, "roughness") for n in judged.names},
        }
        return [
            Curves(
                "loss",
                "Least loss so far",
                "2P/(C n) of the SVM with the α and the features of an iteration; mean over "
                f"{results.config['starts']} fresh starts a seed. The loss itself zigzags, because "
                "α follows features that move.",
                "iteration",
                "least loss so far",
                judged.curves((*HAND, *LEARNED, TUNED, TODAY, TODAY_KERNEL), (TUNED,)),
                log_y=True,
            ),
            Maps(
                "boundaries",
                "Boundaries at equal loss",
                "Each at the first iteration that reaches FWNet's least loss, or at its own least "
                "loss if it never does (first start of the first seed).",
                panels,
            ),
            judged.training(),
            judged.table(
                "Iterations to FWNet's least loss in 500, median over starts and seeds; roughness "
                "is the relative standard deviation of the boundary's radius over angles, 0 for a "
                "circle.",
                extra,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)

    def promises(self, results: Results) -> Sequence[Promise]:
        judged = Judged(results)
        best = judged.best((TODAY, TODAY_KERNEL, *LEARNED), "count")
        fastest = judged.best(KERNEL.values(), "count")
        rows = (
            ("circles: 200 iterations instead of 500, 2.5 times fewer", 2.5, GAMMA),
            ("circles: 20 iterations instead of 500, 25 times fewer", 25.0, fastest),
        )
        return [judged.promise(*row, best, FWNET, TUNED) for row in rows]


def claims(results: Results) -> list[Claim]:
    """What the paper says of Figs. 5 and 6, measured."""
    judged, config = Judged(results), results.config
    grid = (
        f"FWNet {grid_text('γ', config['step_sizes'])} × {grid_text('lr', config['lr_grid'])}; "
        f"L2LC {grid_text('meta lr', config['meta']['lrs'])}, "
        f"{config['meta']['restarts']} restarts"
    )

    def fewer(name: str, goal: float) -> tuple[tuple[Comparison], tuple[Comparison]]:
        return (
            (judged.fewer(name, FWNET, ">=", goal),),
            (judged.fewer(name, TUNED, ">=", goal),),
        )

    kernel = judged.best(KERNEL.values(), "count")
    order = sorted(KERNEL, key=lambda text: KERNEL[text] != kernel)  # the more favourable first
    rough = {name: _median(judged, name, "roughness") for name in SHOWN}
    test = judged.values(FWNET, "test")
    better, worse = judged.best(LEARNED, "area"), judged.worst(LEARNED, "area")
    return [
        Claim(
            "Q3",
            "When the LSTM controls the step size, the same loss takes 200 iterations.",
            "200 against 500 iterations, 2.5× fewer",
            f"Iterations to FWNet's least loss: L2LC_γ {judged.count(GAMMA)}, the tuned FWNet "
            f"{judged.count(TUNED)}, FWNet itself {judged.count(FWNET)}."
            + _without_kernel(results),
            [Reading("iterations to FWNet's least loss", *fewer(GAMMA, 2.5))],
            judged.spread(GAMMA, "count", "starts"),
            grid,
            judged.untrained(GAMMA),
        ),
        Claim(
            "Q3",
            "When also adapting the kernel, it just takes 20 iterations.",
            "20 against 500 iterations, 25× fewer",
            "Iterations to FWNet's least loss: a learned step and kernel "
            f"{judged.count(GAMMA_KERNEL)}, a learned direction and kernel "
            f"{judged.count(NABLA_KERNEL)}, the tuned FWNet {judged.count(TUNED)}, FWNet "
            f"{judged.count(FWNET)}.",
            [Reading(text, *fewer(KERNEL[text], 25.0)) for text in order],
            judged.spread(kernel, "count", "starts"),
            grid,
            judged.untrained(kernel),
        ),
        Claim(
            "Q3",
            "The learned optimizers outperformed the hand-coded ones.",
            "(curves only)",
            f"By the area under the curve of the least loss, {better} has "
            f"{judged.typical(better, 'area'):.3g}, the best hand-coded one "
            f"{judged.typical(judged.best(HAND, 'area'), 'area'):.3g}, the tuned one "
            f"{judged.typical(TUNED, 'area'):.3g}.",
            readings(
                ("the best of them", judged.ahead(better, HAND, (TUNED,))),
                ("each of them", judged.ahead(worse, HAND, (TUNED,))),
            ),
            judged.spread(better, "area", "starts"),
            grid,
            judged.untrained(better),
        ),
        Claim(
            "Q3",
            "The hyperplane is considerably smoother when the kernel is adapted too.",
            "(pictures only)",
            f"The roughness of the boundary at equal loss is {rough[GAMMA_KERNEL]:.3g} (step and "
            f"kernel), {rough[NABLA_KERNEL]:.3g} (direction and kernel) and {rough[FWNET]:.3g} "
            "(FWNet); at most 0.8 of FWNet's counts as smoother.",
            [
                Reading.of(
                    text, rough[KERNEL[text]], "<=", 0.8 * rough[FWNET], "roughness, 0.8 × FWNet"
                )
                for text in order
            ],
            judged.spread(kernel, "roughness", "starts"),
            f"FWNet as in the paper; {grid}",
            judged.untrained(kernel),
        ),
        Claim(
            "Q2",
            "Deep SVMs can be trained end to end with an FWNet as the last layer.",
            "(pictures only)",
            f"The median start classifies {np.median(test):.3f} of fresh points correctly, the "
            f"worst {test.min():.3f}; 0.95 counts as trained. The network minimises the SVM's "
            "primal: minimising the dual over the network, as the text reads, would shrink the "
            "margin.",
            [
                Reading.of("the median start", float(np.median(test)), ">=", 0.95, "test accuracy"),
                Reading.of("every start", float(test.min()), ">=", 0.95, "test accuracy"),
            ],
            judged.spread(FWNET, "test", "starts"),
            "the target is a number: no baseline",
        ),
    ]


def _without_kernel(results: Results) -> str:
    """What validation says of other ways to move α beside the Adam that L2LC_γ has.

    Empty where no choice has its rate, and for results that were stored without scores.
    """
    rate = f"lr = {results.config['lr']:g}"
    scores = results.seeds[0].metrics.get("scores", {})
    found = {
        text.removesuffix(f", {rate}").replace(rate, "an SVM that is solved exactly"): float(
            np.median(results.over_seeds("scores", name, text))
        )
        for name in (TUNED, TODAY)
        for text in scores.get(name, ())
        if text.endswith(rate)
    }
    if not found:
        return ""
    listed = ", ".join(f"{score:.0f} with {text}" for text, score in found.items())
    return (
        f" On validation rings the same Adam ({rate}) takes {listed}; a level that is never "
        f"reached counts as more than {results.config['steps']}."
    )


def _measured(
    config: CirclesConfig,
    svm: DeepSVM,
    seeds: Sequence[int],
    run: Sequence[Iteration],
    levels: np.ndarray,
    shown: bool,
) -> dict[str, Any]:
    """The criteria, and at every start the test accuracy and the boundary's roughness."""
    curves = _curves(run)
    found = judge(np.minimum.accumulate(curves, axis=1), levels)
    least = curves.argmin(1)
    at = [
        int(t) if np.isfinite(t) else int(best)
        for t, best in zip(found["count"], least, strict=True)
    ]
    accuracy = []
    for start, seed in enumerate(seeds):
        data = load("circles", seed=seed)
        signs = _decide_one(svm, run[least[start]], start, torch.tensor(data.x_test)).sign()
        accuracy.append(float((signs.numpy() == 2.0 * data.y_test - 1).mean()))
    found |= {
        "test": accuracy,
        "roughness": [
            roughness(partial(_decide_one, svm, run[t], start)) for start, t in enumerate(at)
        ],
        "step_size": [step.step_size for step in run],
    }
    if shown:
        found["map"] = _decide_one(svm, run[at[0]], 0, _grid(config)).reshape(config.resolution, -1)
    return found


def _median(judged: Judged, name: str, key: str) -> float:
    found = judged.values(name, key)
    return median_of_known(np.where(np.isinf(found), np.nan, found))


def rings(config: CirclesConfig, seeds: Sequence[int]) -> DeepSVM:
    """Rings and initial weights, one of each seed."""
    sets = [load("circles", seed=seed) for seed in seeds]
    x = torch.stack([torch.tensor(each.x[: config.points]) for each in sets])
    y = torch.stack([torch.tensor(2.0 * each.y[: config.points] - 1) for each in sets])
    return DeepSVM(x, y.float(), [with_seed(rings_net, seed) for seed in seeds], config.C)


def losses(method: Method, svm: DeepSVM, steps: int) -> np.ndarray:  # (batch, steps)
    """The losses of a run."""
    return _curves(OptimizerRun(method(svm)).record(steps))


def _curves(run: Sequence[Iteration]) -> np.ndarray:  # (batch, steps)
    return torch.stack([step.loss for step in run], 1).double().numpy()


def _grid(config: CirclesConfig) -> Tensor:
    side = torch.linspace(-1.3, 1.3, config.resolution)
    return torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)


def _decide_one(svm: DeepSVM, step: Iteration, start: int, points: Tensor) -> Tensor:
    """Decision values of one of the deep SVMs: `(n, 2)` -> `(n,)`."""
    every = points.expand(len(svm.nets), *points.shape)
    return decide(svm.nets, step, every)[start]


def roughness(decision: Callable[[Tensor], Tensor]) -> float:
    """Relative standard deviation of the radius of the boundary around 0, over angles.

    A circle has 0. Along a ray the boundary is the first change of sign; where more than a tenth
    of the rays meet none up to a radius of 2, the boundary does not close: NaN.
    """
    angles = torch.linspace(0, 2 * torch.pi, 181)[:-1]
    radii = torch.linspace(0, 2, 201)
    rays_xy = torch.stack([angles.cos(), angles.sin()], -1)
    points = radii[None, :, None] * rays_xy[:, None, :]
    inside = decision(points.reshape(-1, 2)).reshape(len(angles), -1) > 0
    changed = inside[:, 1:] != inside[:, :1]
    met = changed.any(1)
    if met.float().mean() < 0.9:
        return float("nan")
    radius = radii[1:][changed.float().argmax(1)][met]
    return float(radius.std() / radius.mean())


def _count(t: float | None) -> str:
    return "not reached" if t is None else f"{t:.0f} iterations"
