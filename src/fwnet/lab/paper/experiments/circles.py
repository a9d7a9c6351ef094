"""circles: deep SVMs on two rings, whose step size and kernel are learned (Figs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import load
from fwnet.domains import Simplex
from fwnet.lab.paper.claims import Claim, Comparison
from fwnet.lab.paper.configs import CIRCLES, CirclesConfig
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, Iteration, decide
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Maps, Panel, Table, bands
from fwnet.lab.paper.kernel_nets import rings_net
from fwnet.lab.paper.measures import (
    fewer_text,
    grid_text,
    median_of_known,
    median_text,
    range_text,
    reached,
    times,
    tuning_order,
)
from fwnet.lab.paper.runs import chosen_text, draw_seed, losses, meta_scores, trained
from fwnet.lab.paper.simplex_runs import Cell
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMDirection, LSTMStep, LSTMUpdates, MetaHistory
from fwnet.learned.networks import Updates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed
from fwnet.oracles import Softmin
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant, LineSearch, OpenLoop, StepRule

FWNET, TUNED, GAMMA, NABLA = "FWNet", "FWNet, tuned", "L2LC_γ", "L2LC_∇"
HAND = (FWNET, "FWNet 2/(t+2)", "FWNet adaptive")
PAPER = {FWNET: 500, GAMMA: 200, NABLA: 20}  # iterations at equal loss, Fig. 6
_TRAINING, _VALIDATION = 1_000_000, 2_000_000  # seeds of rings; runs have 0 to 99

Make = Callable[[DeepSVM], DeepTraining]


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
        adam = Adam(config.lr)
        arms: dict[str, Make] = {
            FWNET: _make(config, Constant(config.step_size), adam),
            HAND[1]: _make(config, OpenLoop(), adam),
            HAND[2]: _make(config, LineSearch(), adam),
        }
        held = _rings(config, _VALIDATION + seed, config.meta_points)
        choices = {
            f"γ = {step:g}, lr = {lr:g}": _make(config, Constant(step), Adam(lr))
            for step in config.step_sizes
            for lr in config.lr_grid
        }
        level = min(losses(arms[FWNET](held), config.steps + 1))
        scores = {
            key: tuning_order(losses(make(held), config.steps + 1), level)
            for key, make in choices.items()
        }
        best = min(scores, key=scores.__getitem__)
        arms[TUNED], chosen = choices[best], {TUNED: best}
        direction = with_seed(lambda: LSTMDirection(preprocess=True, beta=config.beta), seed)
        both = nn.ModuleList([direction, with_seed(LSTMUpdates, seed)])
        learned: dict[str, tuple[nn.Module, Callable[[Any], Make]]] = {
            GAMMA: (with_seed(LSTMStep, seed), lambda rule: _make(config, rule, adam)),
            NABLA: (both, lambda two: _make(config, OpenLoop(), two[1], two[0])),
        }
        histories = {}
        for place, (name, (first, make)) in enumerate(learned.items()):
            progress(0.15 + 0.35 * place, f"meta-training {name}")
            module, history = _trained(config, first, make, seed)
            histories[name], chosen[name] = meta_scores(history), chosen_text(history)
            arms[name] = make(module)
        progress(0.85, "training on fresh rings")
        svm = _rings(config, seed, config.points)
        runs = {
            name: OptimizerRun(make(svm)).record(config.steps + 1) for name, make in arms.items()
        }
        return {"chosen": chosen, "meta": histories, **_summary(config, svm, seed, runs)}

    def figures(self, results: Results) -> Sequence[Figure]:
        loss = results.by_name("loss")
        best = {name: np.minimum.accumulate(runs, axis=1) for name, runs in loss.items()}
        panels = [
            Panel(
                f"{name}, {_count(results.first('at', name, 't'))} iterations",
                results.first("at", name, "values"),
                tuple(results.first("extent")),
                results.first("points"),
                results.first("labels"),
            )
            for name in (FWNET, GAMMA, NABLA)
        ]
        rows = [
            [
                name,
                PAPER.get(name),
                median_text(results.over_seeds("at", name, "t")),
                float(np.median(loss[name][:, -1])),
                float(np.median(results.over_seeds("test", name))),
                median_of_known(results.over_seeds("at", name, "roughness")),
                results.chosen(name),
            ]
            for name in loss
        ]
        return [
            Curves(
                "loss",
                "Least loss so far",
                "2P/(C n) of the SVM with the α and the features of an iteration; mean over seeds. "
                "The loss itself zigzags, because α follows features that move.",
                "iteration",
                "least 2P/(C n)",
                bands(best, (TUNED,)),
                log_y=True,
            ),
            Maps(
                "boundaries",
                "Boundaries at equal loss",
                "Each at the first iteration that reaches FWNet's least loss, or at its own least "
                "loss if it never does (first seed).",
                panels,
            ),
            Table(
                "table",
                "Iterations to the same loss",
                "Median over seeds; roughness is the relative standard deviation of the "
                "boundary's radius over angles, 0 for a circle; test accuracy where the training "
                "loss is least; what tuning chose on other rings.",
                ("method", "paper", "ours", "last loss", "test accuracy", "roughness", "chosen"),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def claims(results: Results) -> list[Claim]:
    """What the paper says of Figs. 5 and 6, measured."""
    at = results.by_name("at", "t")
    lost = {
        name: np.minimum.accumulate(loss, axis=1).mean(1)
        for name, loss in results.by_name("loss").items()
    }
    mean = {name: float(values.mean()) for name, values in lost.items()}
    hand, learned = (min(group, key=mean.__getitem__) for group in (HAND, (GAMMA, NABLA)))
    worse = max(mean[GAMMA], mean[NABLA])
    rough = {name: results.over_seeds("at", name, "roughness") for name in (FWNET, NABLA)}
    middle = {name: median_of_known(values) for name, values in rough.items()}
    closed = int(np.isfinite(rough[NABLA]).sum())
    test = results.over_seeds("test", FWNET)
    config = results.config
    learning = f"L2LC {grid_text('meta lr', config['meta']['lrs'])}"
    grid = (
        f"FWNet {grid_text('γ', config['step_sizes'])} × {grid_text('lr', config['lr_grid'])}; "
        f"{learning}"
    )

    def fewer(name: str, words: str) -> Claim:
        goal = PAPER[FWNET] / PAPER[name]
        text = {each: fewer_text(at[each], at[name]) for each in (FWNET, TUNED)}
        return Claim(
            "Q3",
            words,
            f"{PAPER[name]} against {PAPER[FWNET]} iterations, {goal:g}× fewer",
            f"{median_text(at[name])} against {median_text(at[FWNET])}{text[FWNET]}; "
            f"against {median_text(at[TUNED])} of the tuned FWNet{text[TUNED]}",
            range_text(at[name]),
            grid,
            (Comparison(times(at[FWNET], at[name]), ">=", goal),),
            (Comparison(times(at[TUNED], at[name]), ">=", goal),),
            f"Holds if the factor is at least the paper's, {goal:g}.",
        )

    return [
        fewer(GAMMA, "When the LSTM controls the step size, the same loss takes 200 iterations."),
        fewer(NABLA, "When also adapting the kernel, it just takes 20 iterations."),
        Claim(
            "Q3",
            "The learned optimizers outperformed the hand-coded ones.",
            "(curves only)",
            f"least loss so far, mean over iterations: L2LC_γ {mean[GAMMA]:.3g}, L2LC_∇ "
            f"{mean[NABLA]:.3g}; best hand-coded one, {hand}, {mean[hand]:.3g}; "
            f"{TUNED} {mean[TUNED]:.3g}",
            f"{learned} {range_text(lost[learned])}",
            grid,
            (Comparison(worse, "<", mean[hand]),),
            (Comparison(worse, "<", mean[TUNED]),),
            "Holds if both learned ones have the smaller mean.",
        ),
        Claim(
            "Q3",
            "The hyperplane of L2LC_∇ is considerably smoother.",
            "(pictures only)",
            f"roughness of the boundary at equal loss: L2LC_∇ {middle[NABLA]:.3g} ({closed} of "
            f"{len(rough[NABLA])} boundaries close), FWNet {middle[FWNET]:.3g}",
            range_text(rough[NABLA]),
            f"FWNet as in the paper; {learning}",
            (Comparison(middle[NABLA], "<=", 0.8 * middle[FWNET]),),
            why="Holds if it is at most 0.8 of FWNet's.",
        ),
        Claim(
            "Q2",
            "Deep SVMs can be trained end to end with an FWNet as the last layer.",
            "(pictures only)",
            f"test accuracy {np.median(test):.3f}",
            range_text(test),
            "the target is a number: no baseline",
            (Comparison(test.min(), ">=", 0.95),),
            why="Holds if every seed classifies 95 % of fresh points at its least training loss. "
            "The network minimises the SVM's primal; minimising the dual over the network, as the "
            "text reads, would shrink the margin.",
        ),
    ]


def _make(
    config: CirclesConfig,
    rule: StepRule,
    updates: Updates,
    direction: LSTMDirection | None = None,
) -> Make:
    solver = FrankWolfe(Simplex(), rule, oracle=Softmin(config.beta), direction=direction)
    return lambda svm: DeepTraining(svm, Cell(solver), updates)


def _rings(config: CirclesConfig, seed: int, points: int) -> DeepSVM:
    """Rings and first weights of one seed."""
    data = load("circles", seed=seed)
    x, y = torch.tensor(data.x[:points]), torch.tensor(2.0 * data.y[:points] - 1)
    return DeepSVM(x, y.float(), with_seed(rings_net, seed), config.C)


def _trained(
    config: CirclesConfig, first: nn.Module, make: Callable[[Any], Make], seed: int
) -> tuple[nn.Module, MetaHistory]:
    """Meta-train on rings of other seeds."""
    held = _rings(config, _VALIDATION + seed, config.meta_points)

    def draw(module: nn.Module, generator: torch.Generator) -> DeepTraining:
        other = _TRAINING + draw_seed(generator, _VALIDATION - _TRAINING)
        return make(module)(_rings(config, other, config.meta_points))

    return trained(first, draw, lambda module: make(module)(held), config.meta, seed)


def _summary(
    config: CirclesConfig, svm: DeepSVM, seed: int, runs: dict[str, list[Iteration]]
) -> dict[str, Any]:
    """Curves, and every method at FWNet's best loss."""
    data = load("circles", seed=seed)
    x_test = torch.tensor(data.x_test)
    y_test = torch.tensor(2.0 * data.y_test - 1)
    loss = {name: np.array([step.loss for step in run]) for name, run in runs.items()}
    level = float(loss[FWNET].min())
    side = torch.linspace(-1.3, 1.3, config.resolution)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)
    at: dict[str, dict[str, Any]] = {}
    test = {}
    for name, run in runs.items():
        t = reached(loss[name], level)
        step = run[int(t) if np.isfinite(t) else int(loss[name].argmin())]
        at[name] = {"t": t, "roughness": roughness(partial(decide, svm.net, step))}
        if name in PAPER:
            values = decide(svm.net, step, grid).reshape(config.resolution, -1)
            at[name]["values"] = values.numpy().round(3)
        found = decide(svm.net, run[int(loss[name].argmin())], x_test).sign()
        test[name] = float((found == y_test).float().mean())
    return {
        "loss": loss,
        "accuracy": {name: [step.accuracy for step in run] for name, run in runs.items()},
        "step_size": {name: [step.step_size for step in run] for name, run in runs.items()},
        "level": level,
        "at": at,
        "test": test,
        "extent": (-1.3, 1.3, -1.3, 1.3),
        "points": svm.X[:300].numpy(),
        "labels": (svm.y[:300] > 0).int().numpy(),
    }


def roughness(decision: Callable[[Tensor], Tensor], rays: int = 180) -> float:
    """Relative standard deviation of the radius of the boundary around 0, over angles.

    A circle has 0. Along a ray the boundary is the first change of sign; where more than a tenth
    of the rays meet none up to a radius of 2, the boundary does not close: NaN.
    """
    angles = torch.linspace(0, 2 * torch.pi, rays + 1)[:-1]
    radii = torch.linspace(0, 2, 201)
    rays_xy = torch.stack([angles.cos(), angles.sin()], -1)
    points = radii[None, :, None] * rays_xy[:, None, :]
    inside = decision(points.reshape(-1, 2)).reshape(rays, -1) > 0
    changed = inside[:, 1:] != inside[:, :1]
    met = changed.any(1)
    if met.float().mean() < 0.9:
        return float("nan")
    radius = radii[1:][changed.float().argmax(1)][met]
    return float(radius.std() / radius.mean())


def _count(t: float | None) -> str:
    return "not in all" if t is None else f"{t:.0f}"
