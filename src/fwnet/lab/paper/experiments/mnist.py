"""mnist: a softmax layer in a trace-norm ball against Adam (Fig. 8)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from torch import nn

from fwnet.data import load, splits
from fwnet.lab.paper.configs import MNIST, MnistConfig
from fwnet.lab.paper.experiment import Claim, Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Table, band
from fwnet.lab.paper.kernel_nets import image_features
from fwnet.lab.paper.measures import (
    fewer_text,
    grid_text,
    median_text,
    range_text,
    reached,
    smoothed,
    times,
    verdict,
)
from fwnet.lab.paper.meta import meta_train, seeded
from fwnet.lab.paper.softmax_runs import Images, SoftmaxRun, Split, TraceNormSteps, curves
from fwnet.lab.paper.updates import Adam, Updates
from fwnet.learned.controllers.lstm import EntrywiseLSTM

FWNET, NABLA, ADAM, SAME, TUNED, OURS_TUNED = (
    "FWNet",
    "L2LC_∇",
    "Adam 0.001",
    "Adam 0.001, FWNet's start",
    "Adam, tuned",
    "FWNet, tuned",
)
SOFTMAX = ("1.weight",)  # the matrix in the ball
_WIDTH = 3  # tests that an accuracy is averaged over


@final
class Mnist(Experiment[MnistConfig]):
    """Learning curves of a small network, its softmax layer by Frank-Wolfe or by Adam."""

    name = "mnist"
    title = "Sparse neural softmax classifiers"
    paper = "Figure 8"
    question = (
        "Does a softmax layer that moves by rank-1 Frank-Wolfe steps, hand-designed or learned, "
        "reach Adam's accuracy in a third of the iterations?"
    )

    def config(self, profile: Profile) -> MnistConfig:
        return MNIST[profile]

    def run(self, config: MnistConfig, seed: int, progress: Progress) -> dict[str, Any]:
        meta, held, train, test = images(config, seed)
        plain, wide = network(config, meta, seed), network(config, meta, seed, gaussian=True)
        lstm = seeded(lambda: EntrywiseLSTM(20, 2, preprocess=True), seed)
        progress(0.0, "meta-training L2LC_∇")
        learned = _fw(config, seed, lstm)
        trained = meta_train(
            [lstm],
            lambda e: SoftmaxRun(
                network(config, meta, 1000 + 997 * seed + e, gaussian=True),
                meta,
                learned,
                config.batch,
                e,
            ),
            lambda: SoftmaxRun(network(config, held, 999, gaussian=True), held, learned, 64, 0),
            config.meta,
        )
        progress(0.4, "tuning on the optimizers' half")
        grids: dict[str, tuple[nn.Module, Callable[[float], Updates]]] = {
            TUNED: (plain, Adam),
            OURS_TUNED: (wide, lambda rate: _fw(replace(config, step_size=rate, lr=rate), seed)),
        }
        scores = {
            name: {rate: _tuning(config, net, meta, held, make(rate)) for rate in config.grid}
            for name, (net, make) in grids.items()
        }
        best = {name: min(found, key=lambda rate: found[rate]) for name, found in scores.items()}
        arms: dict[str, tuple[nn.Module, Updates]] = {
            FWNET: (wide, _fw(config, seed)),
            NABLA: (wide, learned),
            ADAM: (plain, Adam(config.lr)),
            SAME: (wide, Adam(config.lr)),
            **{name: (net, make(best[name])) for name, (net, make) in grids.items()},
        }
        out: dict[str, Any] = {}
        norms = {}
        for place, (name, (net, updates)) in enumerate(arms.items()):
            progress(0.6 + 0.06 * place, f"training with {name}")
            run = SoftmaxRun(net, train, updates, config.batch, seed)
            out[name] = curves(run, config.steps, config.every, test)
            W = run.parameters[SOFTMAX[0]]
            norms[name] = float(torch.linalg.svdvals(W).sum())
        return {
            "curves": out,
            "trace_norm": norms,
            "chosen": {name: f"{rate:g}" for name, rate in best.items()}
            | {NABLA: f"meta lr = {trained.lr:g}"},
            "grid": scores,
            "meta": trained.scores,
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        names = list(results.first("curves"))
        every = results.config["every"]
        count = len(results.first("curves", FWNET, "loss"))
        where = [float(every * k) for k in range(count)]

        def drawn(measure: str) -> list[Any]:
            return [
                band(
                    name,
                    where,
                    results.over_seeds("curves", name, measure),
                    baseline=name in (ADAM, SAME, TUNED),
                )
                for name in names
            ]

        counts = iterations(results)
        rows = [
            [
                name,
                median_text(counts[name]),
                float(results.over_seeds("curves", name, "accuracy")[:, -1].mean()),
                float(results.over_seeds("curves", name, "loss")[:, -1].mean()),
                float(results.over_seeds("curves", name, "confidence")[:, -1].mean()),
                float(results.over_seeds("trace_norm", name).mean()),
                ", ".join(sorted({r.metrics["chosen"].get(name, "") for r in results.seeds})),
            ]
            for name in names
        ]
        return [
            Curves(
                "loss",
                "Loss on the test images",
                "Mean and standard deviation over seeds.",
                "iteration",
                "cross entropy",
                drawn("loss"),
                log_y=True,
            ),
            Curves(
                "accuracy",
                "Top-1 accuracy on the test images",
                "Adam from FWNet's Gaussian start is the control: it has the start, not the steps.",
                "iteration",
                "accuracy",
                drawn("accuracy"),
            ),
            Table(
                "table",
                "To the accuracy that Adam 0.001 has at the end",
                "Median iterations over seeds; what tuning chose on the optimizers' half: a rate "
                "of Adam, for FWNet one number for γ and for the Adam of the other weights.",
                ("method", "iterations", "accuracy", "loss", "confidence", "‖W‖_*", "chosen"),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def iterations(results: Results) -> dict[str, np.ndarray]:
    """For each method and seed, iterations to the accuracy at which Adam 0.001 ends."""
    every = results.config["every"]
    accuracy = {
        name: [smoothed(run, _WIDTH) for run in results.over_seeds("curves", name, "accuracy")]
        for name in results.first("curves")
    }
    levels = [run[-1] for run in accuracy[ADAM]]
    return {
        name: np.array(
            [every * reached(-run, -level) for run, level in zip(runs, levels, strict=True)]
        )
        for name, runs in accuracy.items()
    }


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 8, measured."""
    counts = iterations(results)
    grid = (
        f"{grid_text('Adam lr, FWNet γ = lr', results.config['grid'])}; "
        f"L2LC_∇ {grid_text('meta lr', results.config['meta']['lrs'])}"
    )
    found = []
    for question, name in (("Q1, Q4", FWNET), ("Q3", NABLA)):
        untuned, tuned = times(counts[ADAM], counts[name]), times(counts[TUNED], counts[name])
        fewer = {each: fewer_text(counts[each], counts[name]) for each in (ADAM, SAME, TUNED)}
        found.append(
            Claim(
                question,
                f"{name} reaches Adam's top-1 accuracy in less than a third of the iterations.",
                "less than a third",
                f"{median_text(counts[name])} against {median_text(counts[ADAM])} iterations of "
                f"Adam 0.001{fewer[ADAM]}, {median_text(counts[SAME])} of Adam from "
                f"FWNet's start{fewer[SAME]}, {median_text(counts[TUNED])} of tuned "
                f"Adam{fewer[TUNED]}; {OURS_TUNED} {median_text(counts[OURS_TUNED])}",
                range_text(counts[name]),
                grid,
                verdict(untuned > 3, tuned > 3),
                "Holds if the factor is above 3. Adam from FWNet's Gaussian start shows what the "
                "start alone gives.",
            )
        )
    top = {n: results.over_seeds("curves", n, "accuracy")[:, -1] for n in results.first("curves")}
    worse = min((FWNET, NABLA), key=lambda name: top[name].mean())
    predictive = Claim(
        "Q1, Q4",
        "FWNet and L2LC_∇ outperformed Adam in predictive performance.",
        "(curves only)",
        "top-1 accuracy at the end: "
        + ", ".join(f"{name} {top[name].mean():.3f}" for name in (*top,)),
        f"{worse} {range_text(top[worse])}",
        grid,
        verdict(
            bool(top[worse].mean() > top[ADAM].mean()), bool(top[worse].mean() > top[TUNED].mean())
        ),
        "Holds if both are ahead of Adam.",
    )
    loss = {n: results.over_seeds("curves", n, "loss")[:, -1] for n in results.first("curves")}
    sure = {n: results.over_seeds("curves", n, "confidence")[:, -1] for n in (FWNET, NABLA, ADAM)}
    better = bool(sure[NABLA].mean() > max(sure[FWNET].mean(), sure[ADAM].mean()))
    confident = Claim(
        "Q4",
        "The classifier trained by L2LC_∇ has a much higher confidence, as the loss shows.",
        "(curves only)",
        f"mean largest probability: L2LC_∇ {sure[NABLA].mean():.3f}, FWNet "
        f"{sure[FWNET].mean():.3f}, Adam {sure[ADAM].mean():.3f}; test loss "
        f"{loss[NABLA].mean():.3g}, {loss[FWNET].mean():.3g}, {loss[ADAM].mean():.3g}, tuned Adam "
        f"{loss[TUNED].mean():.3g}",
        range_text(sure[NABLA]),
        grid,
        verdict(
            better and loss[NABLA].mean() < min(loss[FWNET].mean(), loss[ADAM].mean()),
            bool(loss[NABLA].mean() < loss[TUNED].mean()),
        ),
        "Holds if both confidence and loss are better than the others'.",
    )
    return [*found, predictive, confident]


def images(config: Any, seed: int) -> tuple[Images, Images, Images, Images]:
    """Images for meta-training, for choices, for the runs, and for tests: no image in two."""
    data = load(config.data)
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(data.y))[: config.rows]
    parts = splits(data.y[chosen], (0.4, 0.1, 0.5), seed=seed)  # raises unless disjoint

    def part(rows: np.ndarray) -> Images:
        x, y = data.train(np.sort(chosen[rows]))
        return Images(torch.from_numpy(x), torch.from_numpy(y.copy()))

    x, y = data.test(slice(config.test_points))
    test = Images(torch.from_numpy(x), torch.from_numpy(y.copy()))
    return part(parts.optimizee), part(parts.optimizer), part(parts.test), test


def network(config: MnistConfig, like: Images, seed: int, gaussian: bool = False) -> nn.Module:
    """The network; `gaussian` starts the softmax matrix as the paper's algorithm does, N(0, 1)."""
    classes = 10

    def build() -> nn.Module:
        body = image_features(tuple(like.X.shape[1:]), config.channels, config.width)
        return nn.Sequential(body, nn.Linear(config.width, classes))

    net = seeded(build, seed)
    if not gaussian:
        return net
    net = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, config.width, generator=generator)
    size = torch.linalg.svdvals(weight).sum()
    weight = weight * min(1.0, config.radius / size)  # inside the ball
    net.load_state_dict({**net.state_dict(), SOFTMAX[0]: weight})
    return net


def _fw(config: MnistConfig, seed: int, lstm: EntrywiseLSTM | None = None) -> Updates:
    steps = TraceNormSteps(config.radius, config.step_size, config.iterations, lstm, seed)
    return Split(SOFTMAX, steps, Adam(config.lr))


def _tuning(
    config: MnistConfig, net: nn.Module, meta: Images, held: Images, updates: Updates
) -> float:
    """Mean accuracy lost over a run on the optimizers' half, so that speed counts."""
    run = SoftmaxRun(net, meta, updates, config.batch, 0)
    every = max(config.every, config.steps // 10)
    seen = curves(run, config.steps, every, held.head(config.test_points))["accuracy"]
    return 1 - float(np.mean(seen))
