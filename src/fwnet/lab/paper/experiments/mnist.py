"""mnist: a softmax layer in a trace-norm ball against Adam (Fig. 8)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from torch import nn

from fwnet.lab.paper.claims import Claim, Comparison
from fwnet.lab.paper.configs import MNIST, MnistConfig
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Row, Table, bands
from fwnet.lab.paper.kernel_nets import image_features
from fwnet.lab.paper.measures import (
    fewer_text,
    grid_text,
    median_text,
    range_text,
    reached,
    smoothed,
    times,
)
from fwnet.lab.paper.runs import chosen_text, draw_seed, meta_scores, trained
from fwnet.lab.paper.softmax_runs import Images, curves, image_parts, training
from fwnet.lab.paper.updates import Adam, SplitUpdates, TraceNormSteps, into_ball
from fwnet.learned.controllers.lstm import EntrywiseLSTM
from fwnet.learned.families.training_runs import NetworkTraining
from fwnet.learned.networks import Updates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed

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
        progress(0.0, "meta-training L2LC_∇")
        first = with_seed(lambda: EntrywiseLSTM(20, 2, preprocess=True), seed)

        def unrolled(
            lstm: EntrywiseLSTM, images: Images, start: int, order: int
        ) -> NetworkTraining:
            net = network(config, images, start, gaussian=True)
            return training(net, images, _fw(config, seed, lstm), config.batch, order)

        lstm, history = trained(
            first,
            lambda lstm, draw: unrolled(lstm, meta, 1000 + draw_seed(draw), draw_seed(draw)),
            lambda lstm: unrolled(lstm, held, 999, 0),
            config.meta,
            seed,
        )
        learned = _fw(config, seed, lstm)
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
            run = OptimizerRun(training(net, train, updates, config.batch, seed))
            out[name] = curves(run, net, config.steps, config.every, test)
            W = run.state.parameters[SOFTMAX[0]]
            norms[name] = float(torch.linalg.svdvals(W).sum())
        return {
            "curves": out,
            "trace_norm": norms,
            "chosen": {name: f"{rate:g}" for name, rate in best.items()}
            | {NABLA: chosen_text(history)},
            "grid": scores,
            "meta": meta_scores(history),
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        every, baselines = results.config["every"], (ADAM, SAME, TUNED)
        loss, accuracy, confidence = (
            results.by_name("curves", key) for key in ("loss", "accuracy", "confidence")
        )
        rows: list[Row] = [
            [
                name,
                median_text(count),
                float(accuracy[name][:, -1].mean()),
                float(loss[name][:, -1].mean()),
                float(confidence[name][:, -1].mean()),
                float(results.over_seeds("trace_norm", name).mean()),
                results.chosen(name),
            ]
            for name, count in iterations(results).items()
        ]
        return [
            Curves(
                "loss",
                "Loss on the test images",
                "Mean and standard deviation over seeds.",
                "iteration",
                "cross entropy",
                bands(loss, baselines, every),
                log_y=True,
            ),
            Curves(
                "accuracy",
                "Top-1 accuracy on the test images",
                "Adam from FWNet's Gaussian start is the control: it has the start, not the steps.",
                "iteration",
                "accuracy",
                bands(accuracy, baselines, every),
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
        name: [smoothed(run, _WIDTH) for run in runs]
        for name, runs in results.by_name("curves", "accuracy").items()
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
    top, loss, sure = (
        {name: runs[:, -1] for name, runs in results.by_name("curves", key).items()}
        for key in ("accuracy", "loss", "confidence")
    )
    worse = min((FWNET, NABLA), key=lambda name: top[name].mean())
    grid = (
        f"{grid_text('Adam lr, FWNet γ = lr', results.config['grid'])}; "
        f"L2LC_∇ {grid_text('meta lr', results.config['meta']['lrs'])}"
    )

    def third(question: str, name: str) -> Claim:
        count = {each: median_text(values) for each, values in counts.items()}
        fewer = {each: fewer_text(counts[each], counts[name]) for each in (ADAM, SAME, TUNED)}
        return Claim(
            question,
            f"{name} reaches Adam's top-1 accuracy in less than a third of the iterations.",
            "less than a third",
            f"{count[name]} against {count[ADAM]} iterations of Adam 0.001{fewer[ADAM]}, "
            f"{count[SAME]} of Adam from FWNet's start{fewer[SAME]}, {count[TUNED]} of tuned "
            f"Adam{fewer[TUNED]}; {OURS_TUNED} {count[OURS_TUNED]}",
            range_text(counts[name]),
            grid,
            (Comparison(times(counts[ADAM], counts[name]), ">", 3),),
            (Comparison(times(counts[TUNED], counts[name]), ">", 3),),
            "Holds if the factor is above 3. Adam from FWNet's Gaussian start shows what the "
            "start gives without the steps.",
        )

    return [
        third("Q1, Q4", FWNET),
        third("Q3", NABLA),
        Claim(
            "Q1, Q4",
            "FWNet and L2LC_∇ outperformed Adam in predictive performance.",
            "(curves only)",
            "top-1 accuracy at the end: "
            + ", ".join(f"{name} {values.mean():.3f}" for name, values in top.items()),
            f"{worse} {range_text(top[worse])}",
            grid,
            (Comparison(top[worse].mean(), ">", top[ADAM].mean()),),
            (Comparison(top[worse].mean(), ">", top[TUNED].mean()),),
            "Holds if both are ahead of Adam.",
        ),
        Claim(
            "Q4",
            "The classifier trained by L2LC_∇ has a much higher confidence, as the loss shows.",
            "(curves only)",
            f"mean largest probability: L2LC_∇ {sure[NABLA].mean():.3f}, FWNet "
            f"{sure[FWNET].mean():.3f}, Adam {sure[ADAM].mean():.3f}; test loss "
            f"{loss[NABLA].mean():.3g}, {loss[FWNET].mean():.3g}, {loss[ADAM].mean():.3g}, "
            f"tuned Adam {loss[TUNED].mean():.3g}",
            range_text(sure[NABLA]),
            grid,
            (
                Comparison(sure[NABLA].mean(), ">", max(sure[FWNET].mean(), sure[ADAM].mean())),
                Comparison(loss[NABLA].mean(), "<", min(loss[FWNET].mean(), loss[ADAM].mean())),
            ),
            (Comparison(loss[NABLA].mean(), "<", loss[TUNED].mean()),),
            "Holds if both confidence and loss are better than the others'.",
        ),
    ]


def images(config: MnistConfig, seed: int) -> tuple[Images, Images, Images, Images]:
    """Images for meta-training, for choices, for the runs, and for tests: no image in two."""
    return image_parts(config.data, config.rows, (0.4, 0.1, 0.5), config.test_points, seed)


def network(config: MnistConfig, like: Images, seed: int, gaussian: bool = False) -> nn.Module:
    """The network; `gaussian` starts the softmax matrix as the paper's algorithm does, N(0, 1)."""
    classes = 10

    def build() -> nn.Module:
        body = image_features(tuple(like.X.shape[1:]), config.channels, config.width)
        return nn.Sequential(body, nn.Linear(config.width, classes))

    net = with_seed(build, seed)
    if not gaussian:
        return net
    net = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(seed)
    weight = into_ball(torch.randn(classes, config.width, generator=generator), config.radius)
    net.load_state_dict({**net.state_dict(), SOFTMAX[0]: weight})
    return net


def _fw(config: MnistConfig, seed: int, lstm: EntrywiseLSTM | None = None) -> Updates:
    steps = TraceNormSteps(config.radius, config.step_size, config.iterations, lstm, seed)
    return SplitUpdates(SOFTMAX, steps, Adam(config.lr))


def _tuning(
    config: MnistConfig, net: nn.Module, meta: Images, held: Images, updates: Updates
) -> float:
    """Mean accuracy lost over a run on the optimizers' half, so that speed counts."""
    run = OptimizerRun(training(net, meta, updates, config.batch, 0))
    every = max(config.every, config.steps // 10)
    seen = curves(run, net, config.steps, every, held.head(config.test_points))["accuracy"]
    return 1 - float(np.mean(seen))
