"""mnist: a softmax layer in a trace-norm ball against Adam (Fig. 8)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import nn

from fwnet.domains import TraceNormBall
from fwnet.lab.paper.claims import Claim, Comparison, Promise, Reading
from fwnet.lab.paper.configs import MNIST, MnistConfig
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, bands
from fwnet.lab.paper.judged import Judged, judge
from fwnet.lab.paper.kernel_nets import image_features
from fwnet.lab.paper.measures import grid_text, reached, smoothed
from fwnet.lab.paper.methods import Method, Methods, Version, draw_seed
from fwnet.lab.paper.softmax_runs import Images, curves, image_parts
from fwnet.lab.paper.updates import Adam, SplitUpdates, TorchUpdates, TraceNormSteps, into_ball
from fwnet.learned import LSTMUpdates
from fwnet.learned.controllers.entrywise import EntrywiseLSTM
from fwnet.learned.families.training_runs import NetworkTraining
from fwnet.learned.networks import Parameters, Updates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed
from fwnet.optim import FrankWolfe as FrankWolfeOptimizer
from fwnet.oracles import SoftTraceNorm

FWNET, NABLA, L2L, ADAM, SAME = "FWNet", "L2LC_∇", "L2L", "Adam 0.001", "Adam 0.001, FWNet's start"
TUNED, OURS_TUNED, TODAY = "Adam, tuned", "FWNet, tuned", "fwnet.optim, tuned"
SOFTMAX = ("1.weight",)  # the matrix in the ball
_WIDTH = 3  # tests that an accuracy is averaged over


class ImageTask(NamedTuple):
    """A network to train: images, initial weights by seed, order of minibatches by seed."""

    images: Images
    start: int
    order: int


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

    def seeds(self, profile: Profile) -> int:
        """Five in the paper's profile: what an LSTM learns varies."""
        return 5 if profile is Profile.PAPER else profile.seeds

    def run(self, config: MnistConfig, seed: int, progress: Progress) -> dict[str, Any]:
        meta, held, train, test = images(config, seed)
        methods = Methods(_hand(config, seed), ImageTask(held, 999, 0), config.steps)
        progress(0.0, "tuning on the optimizers' half")
        for name, choices in _grids(config, seed).items():
            methods.tune(name, choices)

        def draw(generator: torch.Generator) -> ImageTask:
            return ImageTask(meta, 1000 + draw_seed(generator), draw_seed(generator))

        for place, (name, version) in enumerate(_learned(config, seed).items()):
            progress(0.2 + 0.35 * place, f"training {name}")
            methods.learn(name, version, draw, config.meta, seed)
        out: dict[str, Any] = {}
        for place, (name, method) in enumerate(methods.items()):
            progress(0.9 + 0.01 * place, f"training with {name}")
            run = OptimizerRun(method(ImageTask(train, seed, seed)))
            seen = curves(run, run.recurrence.net, config.steps, config.every, test)  # type: ignore[attr-defined]
            W = run.state.parameters[SOFTMAX[0]]
            norm = float(torch.linalg.svdvals(W).sum())
            out[name] = judge(seen["loss"]) | seen | {"trace_norm": norm}
        level = smoothed(out[ADAM]["accuracy"], _WIDTH)[-1]
        for found in out.values():
            rising = smoothed(found["accuracy"], _WIDTH)
            found["count"] = [config.every * reached(-rising, -level)]
        return {"methods": out, "chosen": methods.chosen, "training": methods.training}

    def figures(self, results: Results) -> Sequence[Figure]:
        judged, every = Judged(results), results.config["every"]
        baselines = (ADAM, SAME, TUNED)
        extra = {
            "‖W‖_*": {name: judged.typical(name, "trace_norm") for name in judged.names},
            **{
                key: {name: _last(judged, name, key) for name in judged.names}
                for key in ("accuracy", "confidence")
            },
        }
        accuracy = {n: judged.values(n, "accuracy") for n in judged.names}
        return [
            Curves(
                "loss",
                "Loss on the test images",
                "Mean and standard deviation over seeds, the whole test set.",
                "iteration",
                "cross entropy",
                judged.curves(judged.names, baselines, every),
                log_y=True,
            ),
            Curves(
                "accuracy",
                "Top-1 accuracy on the test images",
                "Adam from FWNet's Gaussian start is the control: it has the start, not the steps.",
                "iteration",
                "share of images classified correctly",
                bands({n: a for n, a in accuracy.items() if a.size}, baselines, every),
            ),
            judged.training(),
            judged.table(
                "Area and end are of the test loss; iterations to the accuracy that Adam 0.001 has "
                "at the end; median over seeds. One number for FWNet's γ and the Adam of its other "
                "weights.",
                extra,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)

    def promises(self, results: Results) -> Sequence[Promise]:
        judged = Judged(results)
        best = judged.best((TODAY, FWNET, NABLA, OURS_TUNED), "count")
        surest = max((TODAY, NABLA), key=lambda name: _last(judged, name, "confidence"))
        sure = {n: _last(judged, n, "confidence") for n in (NABLA, surest, ADAM, TUNED)}
        return [
            judged.promise(
                "mnist: less than a third of Adam's iterations", 3.0, NABLA, best, ADAM, TUNED
            ),
            Promise(
                "mnist: a higher confidence than Adam's (ratio of the mean largest probabilities)",
                1.0,
                sure[NABLA] / sure[ADAM],
                surest,
                sure[surest] / sure[ADAM],
                sure[surest] / sure[TUNED],
            ),
        ]


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 8, and its abstract, measured."""
    judged, config = Judged(results), results.config
    top = {name: _last(judged, name, "accuracy") for name in judged.names}
    sure = {name: _last(judged, name, "confidence") for name in judged.names}
    end = {name: judged.typical(name, "end") for name in judged.names}
    grid = (
        f"{grid_text('Adam lr, FWNet γ = lr', config['grid'])}; "
        f"L2LC_∇ and L2L {grid_text('meta lr', config['meta']['lrs'])}"
    )

    def third(question: str, name: str) -> Claim:
        return Claim(
            question,
            f"{name} reaches Adam's top-1 accuracy in less than a third of the iterations.",
            "less than a third",
            "Iterations to the accuracy at which Adam with its rate of 0.001 ends: "
            f"{name} {judged.count(name)}, Adam {judged.count(ADAM)}, Adam from FWNet's start "
            f"{judged.count(SAME)}, tuned Adam {judged.count(TUNED)}.",
            [
                Reading(
                    "iterations to the accuracy at which Adam 0.001 ends",
                    (judged.fewer(name, ADAM, ">", 3),),
                    (judged.fewer(name, TUNED, ">", 3),),
                )
            ],
            judged.spread(name, "count", "seeds"),
            grid,
            judged.untrained(name),
        )

    def outperform(name: str) -> list[Reading]:
        accuracy = Reading(
            "accuracy at the end",
            (Comparison(top[name], ">", top[ADAM], f"{name}, against {ADAM}"),),
            (Comparison(top[name], ">", top[TUNED], f"{name}, against {TUNED}"),),
        )
        return [accuracy, *judged.ahead(name, (ADAM,), (TUNED,))]

    both = [
        Reading(first.name, first.numbers + second.numbers, first.tuned + second.tuned)
        for first, second in zip(outperform(FWNET), outperform(NABLA), strict=True)
    ]
    return [
        third("Q1, Q4", FWNET),
        third("Q3", NABLA),
        Claim(
            "Q1, Q4",
            "The sparse FWNet and L2LC_∇ outperformed ADAM, both in terms of convergence and "
            "predictive performance.",
            "(curves only)",
            f"After {config['steps']} iterations FWNet classifies {top[FWNET]:.1%} of the test "
            f"images correctly, L2LC_∇ {top[NABLA]:.1%}, Adam {top[ADAM]:.1%}, tuned Adam "
            f"{top[TUNED]:.1%}.",
            both,
            judged.spread(NABLA, "end", "seeds (test loss)"),
            grid,
            judged.untrained(NABLA),
        ),
        Claim(
            "Q4",
            "The classifier trained by L2LC_∇ has a much higher confidence, as the loss shows.",
            "(curves only)",
            f"The mean largest probability is {sure[NABLA]:.3f} with L2LC_∇, {sure[FWNET]:.3f} "
            f"with FWNet, {sure[ADAM]:.3f} with Adam; the test loss {end[NABLA]:.3g}, "
            f"{end[FWNET]:.3g}, {end[ADAM]:.3g}.",
            [
                Reading(
                    "confidence",
                    (
                        Comparison(
                            sure[NABLA],
                            ">",
                            max(sure[FWNET], sure[ADAM]),
                            "L2LC_∇, against the surer of FWNet and Adam",
                        ),
                    ),
                    (Comparison(sure[NABLA], ">", sure[TUNED], f"L2LC_∇, against {TUNED}"),),
                ),
                *judged.ahead(NABLA, (FWNET, ADAM), (TUNED,)),
            ],
            judged.spread(NABLA, "end", "seeds (test loss)"),
            grid,
            judged.untrained(NABLA),
        ),
        Claim(
            "abstract",
            "Our LSTM-learned optimizers outperform hand-designed as well as learned but "
            "unconstrained ones (training softmax classifiers).",
            "(no number)",
            f"The test loss ends at {end[NABLA]:.3g} with L2LC_∇, {end[L2L]:.3g} with L2L (LSTMs "
            f"for the convolutional and the dense layers), {end[FWNET]:.3g} with FWNet, "
            f"{end[ADAM]:.3g} with Adam 0.001, {end[TUNED]:.3g} with tuned Adam.",
            judged.ahead(NABLA, (FWNET, ADAM, L2L), (TUNED, OURS_TUNED)),
            judged.spread(L2L, "end", "seeds (test loss)"),
            grid,
            judged.untrained(NABLA),
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


def _method(config: MnistConfig, updates: Updates, gaussian: bool = False) -> Method:
    def begin(task: ImageTask) -> Any:
        net = network(config, task.images, task.start, gaussian)
        X, y = task.images.X, task.images.y
        return NetworkTraining(net, X, y, updates, config.batch, task.order)

    return begin


def _fw(config: MnistConfig, seed: int, lstm: EntrywiseLSTM | None = None) -> Method:
    steps = TraceNormSteps(config.radius, config.step_size, config.iterations, lstm, seed)
    return _method(config, SplitUpdates(SOFTMAX, steps, Adam(config.lr)), gaussian=True)


def _hand(config: MnistConfig, seed: int) -> dict[str, Method]:
    return {
        FWNET: _fw(config, seed),
        ADAM: _method(config, Adam(config.lr)),
        SAME: _method(config, Adam(config.lr), gaussian=True),
    }


def _grids(config: MnistConfig, seed: int) -> dict[str, dict[str, Method]]:
    kinds: dict[str, Callable[[float], Method]] = {
        TUNED: lambda lr: _method(config, Adam(lr)),
        OURS_TUNED: lambda lr: _fw(replace(config, step_size=lr, lr=lr), seed),
        TODAY: lambda lr: _method(config, TorchUpdates(partial(_soft_trace_norm, config, lr))),
    }
    return {name: {f"lr = {lr:g}": make(lr) for lr in config.grid} for name, make in kinds.items()}


def _learned(config: MnistConfig, seed: int) -> dict[str, Version]:
    """L2LC_∇ reshapes the softmax layer's gradient; L2L moves all layers by LSTMs."""
    lstm = partial(EntrywiseLSTM, 20, 2, preprocess=True)
    return {
        NABLA: (lstm, partial(_fw, config, seed)),
        L2L: (partial(LSTMUpdates, scale=0.01), partial(_method, config)),
    }


def _soft_trace_norm(
    config: MnistConfig, lr: float, parameters: Parameters
) -> torch.optim.Optimizer:
    """Every dense matrix in a ball of the radius, all else by the optimizer's own Adam."""
    dense = [p for p in parameters.values() if p.ndim == 2]
    rest = [p for p in parameters.values() if p.ndim != 2]
    ball: dict[str, Any] = {
        "params": dense,
        "domain": TraceNormBall(config.radius),
        "oracle": SoftTraceNorm(1.0),
        "rescale": "diameter",
    }
    return FrankWolfeOptimizer([ball, {"params": rest}], lr=lr)


def _last(judged: Judged, name: str, key: str) -> float:
    found = judged.values(name, key)
    return float(np.median(found[:, -1])) if found.size else float("nan")
