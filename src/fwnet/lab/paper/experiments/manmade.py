"""manmade: a convolutional deep SVM on two superclasses, its step size learned (Fig. 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import Dataset, load, splits
from fwnet.domains import Simplex
from fwnet.lab.paper.configs import MANMADE, ManmadeConfig
from fwnet.lab.paper.deep_svm import Cell, DeepEpisode, DeepRun, DeepSVM, Descent, decide
from fwnet.lab.paper.experiment import Claim, Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Table, band
from fwnet.lab.paper.kernel_nets import image_kernel
from fwnet.lab.paper.measures import (
    fewer_text,
    grid_text,
    haste,
    median_text,
    range_text,
    reached,
    times,
    verdict,
)
from fwnet.lab.paper.meta import meta_train, seeded
from fwnet.lab.paper.simplex_runs import Reparameterised
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMStep
from fwnet.oracles import Softmin
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant, LineSearch, OpenLoop, StepRule

FWNET, OPEN, ADAPTIVE, GAMMA, ADAM = (
    "FWNet",
    "FWNet 2/(t+2)",
    "FWNet adaptive",
    "L2LC_γ",
    "Adam",
)
TUNED, ADAM_TUNED = "FWNet, tuned", "Adam, tuned"
HAND = (FWNET, OPEN, ADAPTIVE, ADAM)

Make = Callable[[DeepSVM], DeepRun]


@final
class Manmade(Experiment[ManmadeConfig]):
    """Loss of an SVM on top of a convolutional network, trained together."""

    name = "manmade"
    title = "A convolutional deep SVM: natural against manmade"
    paper = "Figure 7"
    question = (
        "Does a learned step size train a convolutional deep SVM in half the iterations of "
        "hand-designed ones?"
    )

    def config(self, profile: Profile) -> ManmadeConfig:
        return MANMADE[profile]

    def run(self, config: ManmadeConfig, seed: int, progress: Progress) -> dict[str, Any]:
        data = load(config.data)
        parts = splits(data.y, (0.4, 0.2, 0.4), seed=seed)  # raises unless disjoint
        generator = np.random.default_rng(seed)
        held = _deep_svm(config, data, parts.optimizer, config.points, generator, 999)
        adam = Adam(config.lr)
        arms: dict[str, Make] = {
            FWNET: _fwnet(config, Constant(config.step_size), adam),
            OPEN: _fwnet(config, OpenLoop(), adam),
            ADAPTIVE: _fwnet(config, LineSearch(), adam),
            ADAM: _adam(config.lr),
        }
        progress(0.0, "tuning on other images")
        chosen: dict[str, str] = {}
        level = _losses(arms[ADAPTIVE](held), config.steps)[-1]
        for name, choices in _grids(config).items():
            scores = {
                key: haste(_losses(make(held), config.steps), level)
                for key, make in choices.items()
            }
            best = min(choices, key=lambda key: scores[key])
            arms[name], chosen[name] = choices[best], best
        progress(0.4, "meta-training L2LC_γ")
        rule = seeded(LSTMStep, seed)
        arms[GAMMA] = make = _fwnet(config, rule, adam)
        draw = np.random.default_rng([seed, 1])
        trained = meta_train(
            [rule],
            lambda e: DeepEpisode(
                make(_deep_svm(config, data, parts.optimizee, config.meta_points, draw, 1000 + e))
            ),
            lambda: DeepEpisode(make(held)),
            config.meta,
        )
        chosen[GAMMA] = f"meta lr = {trained.lr:g}"
        svm = _deep_svm(config, data, parts.test, config.points, generator, seed)
        x, y = data.test(slice(config.test_points))
        x_test, y_test = torch.from_numpy(x), _signs(config, y)
        out: dict[str, Any] = {"loss": {}, "accuracy": {}, "step_size": {}, "test": {}}
        for place, (name, make_run) in enumerate(arms.items()):
            progress(0.6 + 0.05 * place, f"training with {name}")
            run = make_run(svm)
            with torch.no_grad():
                steps = [run.step() for _ in range(config.steps + 1)]
            out["loss"][name] = [step.loss for step in steps]
            out["accuracy"][name] = [step.accuracy for step in steps]
            out["step_size"][name] = [step.step_size for step in steps]
            found = decide(run.net, steps[-1], x_test).sign()
            out["test"][name] = float((found == y_test).float().mean())
        return {**out, "chosen": chosen, "meta": trained.scores}

    def figures(self, results: Results) -> Sequence[Figure]:
        names = list(results.first("loss"))
        steps = list(range(len(results.first("loss", FWNET))))
        baselines = (ADAM, ADAM_TUNED, TUNED)
        loss = [
            band(name, steps, results.over_seeds("loss", name), baseline=name in baselines)
            for name in names
        ]
        sizes = [
            band(name, steps, results.over_seeds("step_size", name))
            for name in (FWNET, OPEN, ADAPTIVE, GAMMA)
        ]
        counts = iterations(results)
        rows = [
            [
                name,
                median_text(counts[name]),
                float(results.over_seeds("loss", name)[:, -1].mean()),
                float(results.over_seeds("test", name).mean()),
                ", ".join(sorted({str(r.metrics["chosen"].get(name, "")) for r in results.seeds})),
            ]
            for name in names
        ]
        return [
            Curves(
                "loss",
                "Loss while training",
                "2P/(C n) with the α and the features of the iteration; mean and standard "
                "deviation over seeds.",
                "iteration",
                "2P/(C n)",
                loss,
                log_y=True,
            ),
            Curves(
                "step_size",
                "Step sizes",
                "What the LSTM learned, beside the hand-designed rules.",
                "iteration",
                "γ",
                sizes,
                log_y=True,
            ),
            Table(
                "table",
                "Iterations to the loss at which the adaptive FWNet ends",
                "Median over seeds; test accuracy after the last iteration, where the network has "
                "learned its few training images by heart.",
                ("method", "iterations", "last loss", "test accuracy", "chosen"),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def iterations(results: Results) -> dict[str, np.ndarray]:
    """For each method and seed, iterations to the loss at which the adaptive FWNet ends."""
    ends = results.over_seeds("loss", ADAPTIVE)[:, -1]
    return {
        name: np.array(
            [
                reached(run, level)
                for run, level in zip(results.over_seeds("loss", name), ends, strict=True)
            ]
        )
        for name in results.first("loss")
    }


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 7, measured."""
    counts = iterations(results)
    config = results.config
    untuned = {name: times(counts[name], counts[GAMMA]) for name in HAND}
    tuned = {name: times(counts[name], counts[GAMMA]) for name in (TUNED, ADAM_TUNED)}
    texts = ", ".join(f"{name} {median_text(counts[name])}" for name in (*HAND, TUNED, ADAM_TUNED))
    best = {
        "untuned": min(untuned, key=untuned.__getitem__),
        "tuned": min(tuned, key=tuned.__getitem__),
    }
    fewest = "".join(
        f"; than the best {kind} one{text}"
        for kind, name in best.items()
        if (text := fewer_text(counts[name], counts[GAMMA]))
    )
    half = Claim(
        "Q3",
        "L2LC_γ outperforms hand-coded optimizers even with adaptive step size, requiring less "
        "than half of the iterations to converge.",
        "less than half",
        f"iterations to the adaptive FWNet's last loss: L2LC_γ {median_text(counts[GAMMA])}; "
        f"{texts}{fewest}",
        range_text(counts[GAMMA]),
        f"{grid_text('lr', config['lr_grid'])}, FWNet × {grid_text('γ', config['step_sizes'])}; "
        f"L2LC_γ {grid_text('meta lr', config['meta']['lrs'])}",
        verdict(min(untuned.values()) > 2, min((*untuned.values(), *tuned.values())) > 2),
        "Holds if it takes less than half of the iterations of each of them.",
    )
    test = results.over_seeds("test", FWNET)
    untrained = max(share(config), 1 - share(config))
    trains = Claim(
        "Q2",
        "Convolutional SVMs can be trained end to end with an FWNet as the last layer.",
        "(curves only)",
        f"test accuracy {test.mean():.3f}, {untrained:.2f} being that of the larger class",
        range_text(test),
        "the bar is a number: no baseline",
        verdict(bool(test.min() > untrained + 0.05), bool(test.min() > untrained + 0.05)),
        "Holds if every seed is five points above the larger class.",
    )
    return [half, trains]


def share(config: dict[str, Any]) -> float:
    """The share of classes with label +1, all classes being equally frequent."""
    return len(config["positive"]) / 10


def _signs(config: ManmadeConfig, y: np.ndarray) -> Tensor:
    return torch.from_numpy(np.where(np.isin(y, config.positive), 1.0, -1.0)).float()


def _deep_svm(
    config: ManmadeConfig,
    data: Dataset,
    rows: np.ndarray,
    points: int,
    generator: np.random.Generator,
    seed: int,
) -> DeepSVM:
    """A deep SVM on a draw of the rows, its network drawn from the seed."""
    x, y = data.train(np.sort(generator.permutation(rows)[:points]))
    net: nn.Module = seeded(lambda: image_kernel(x.shape[1:], config.channels), seed)
    return DeepSVM(torch.from_numpy(x), _signs(config, y), net, config.C)


def _fwnet(config: ManmadeConfig, rule: StepRule, updates: Adam) -> Make:
    solver = FrankWolfe(Simplex(), rule, oracle=Softmin(config.beta))
    return lambda svm: DeepRun(svm, Cell(solver), updates)


def _adam(lr: float) -> Make:
    """α = softmax(θ) and the network, both by Adam."""
    return lambda svm: DeepRun(svm, Descent(Reparameterised(), Adam(lr)), Adam(lr))


def _grids(config: ManmadeConfig) -> dict[str, dict[str, Make]]:
    return {
        TUNED: {
            f"γ = {step:g}, lr = {lr:g}": _fwnet(config, Constant(step), Adam(lr))
            for step in config.step_sizes
            for lr in config.lr_grid
        },
        ADAM_TUNED: {f"lr = {lr:g}": _adam(lr) for lr in config.lr_grid},
    }


@torch.no_grad()
def _losses(run: DeepRun, steps: int) -> list[float]:
    return [run.step().loss for _ in range(steps + 1)]
