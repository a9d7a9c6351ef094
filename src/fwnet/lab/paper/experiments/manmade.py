"""manmade: a convolutional deep SVM on two superclasses, its step size learned (Fig. 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import Dataset, load, splits
from fwnet.domains import Simplex
from fwnet.lab.paper.claims import Claim, Comparison
from fwnet.lab.paper.configs import MANMADE, ManmadeConfig
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, decide
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Row, Table, bands
from fwnet.lab.paper.kernel_nets import image_kernel
from fwnet.lab.paper.measures import (
    fewer_text,
    grid_text,
    median_text,
    range_text,
    reached,
    times,
    tuning_order,
)
from fwnet.lab.paper.runs import chosen_text, draw_seed, losses, meta_scores, trained
from fwnet.lab.paper.simplex_runs import Cell, Descent, Reparameterised
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMStep
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed
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

Make = Callable[[DeepSVM], DeepTraining]


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
        level = losses(arms[ADAPTIVE](held), config.steps + 1)[-1]
        for name, choices in _grids(config).items():
            scores = {
                key: tuning_order(losses(make(held), config.steps + 1), level)
                for key, make in choices.items()
            }
            best = min(choices, key=lambda key: scores[key])
            arms[name], chosen[name] = choices[best], best
        progress(0.4, "meta-training L2LC_γ")

        def draw(rule: LSTMStep, generator: torch.Generator) -> DeepTraining:
            rows = np.random.default_rng(draw_seed(generator))
            start = 1000 + draw_seed(generator)
            other = _deep_svm(config, data, parts.optimizee, config.meta_points, rows, start)
            return _fwnet(config, rule, adam)(other)

        rule, history = trained(
            with_seed(LSTMStep, seed),
            draw,
            lambda rule: _fwnet(config, rule, adam)(held),
            config.meta,
            seed,
        )
        arms[GAMMA], chosen[GAMMA] = _fwnet(config, rule, adam), chosen_text(history)
        svm = _deep_svm(config, data, parts.test, config.points, generator, seed)
        x, y = data.test(slice(config.test_points))
        x_test, y_test = torch.from_numpy(x), _signs(config, y)
        out: dict[str, Any] = {"loss": {}, "accuracy": {}, "step_size": {}, "test": {}}
        for place, (name, make_run) in enumerate(arms.items()):
            progress(0.6 + 0.05 * place, f"training with {name}")
            run = OptimizerRun(make_run(svm))
            steps = run.record(config.steps + 1)
            out["loss"][name] = [step.loss for step in steps]
            out["accuracy"][name] = [step.accuracy for step in steps]
            out["step_size"][name] = [step.step_size for step in steps]
            found = decide(run.state.net, steps[-1], x_test).sign()
            out["test"][name] = float((found == y_test).float().mean())
        return {**out, "chosen": chosen, "meta": meta_scores(history)}

    def figures(self, results: Results) -> Sequence[Figure]:
        loss, test = results.by_name("loss"), results.by_name("test")
        sizes = {
            name: results.over_seeds("step_size", name) for name in (FWNET, OPEN, ADAPTIVE, GAMMA)
        }
        rows: list[Row] = [
            [
                name,
                median_text(count),
                float(loss[name][:, -1].mean()),
                float(test[name].mean()),
                results.chosen(name),
            ]
            for name, count in iterations(results).items()
        ]
        return [
            Curves(
                "loss",
                "Loss while training",
                "2P/(C n) with the α and the features of the iteration; mean and standard "
                "deviation over seeds.",
                "iteration",
                "2P/(C n)",
                bands(loss, (ADAM, ADAM_TUNED, TUNED)),
                log_y=True,
            ),
            Curves(
                "step_size",
                "Step sizes",
                "What the LSTM learned, beside the hand-designed rules.",
                "iteration",
                "γ",
                bands(sizes),
                log_y=True,
            ),
            Table(
                "table",
                "Iterations to the loss at which the adaptive FWNet ends",
                "Median over seeds; test accuracy after the last iteration, where the network has "
                "memorised its few training images.",
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
        name: np.array([reached(run, level) for run, level in zip(runs, ends, strict=True)])
        for name, runs in results.by_name("loss").items()
    }


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 7, measured."""
    counts, config = iterations(results), results.config
    untuned, tuned = (
        {name: times(counts[name], counts[GAMMA]) for name in group}
        for group in (HAND, (TUNED, ADAM_TUNED))
    )
    texts = ", ".join(f"{name} {median_text(counts[name])}" for name in (*untuned, *tuned))
    fewest = "".join(
        f"; than the best {kind} one{text}"
        for kind, factors in (("untuned", untuned), ("tuned", tuned))
        if (text := fewer_text(counts[min(factors, key=factors.__getitem__)], counts[GAMMA]))
    )
    test = results.over_seeds("test", FWNET)
    untrained = max(share(config), 1 - share(config))
    return [
        Claim(
            "Q3",
            "L2LC_γ outperforms hand-coded optimizers even with adaptive step size, requiring "
            "less than half of the iterations to converge.",
            "less than half",
            f"iterations to the adaptive FWNet's last loss: L2LC_γ {median_text(counts[GAMMA])}; "
            f"{texts}{fewest}",
            range_text(counts[GAMMA]),
            f"{grid_text('lr', config['lr_grid'])}, FWNet × "
            f"{grid_text('γ', config['step_sizes'])}; "
            f"L2LC_γ {grid_text('meta lr', config['meta']['lrs'])}",
            (Comparison(min(untuned.values()), ">", 2),),
            (Comparison(min(tuned.values()), ">", 2),),
            "Holds if it takes less than half of the iterations of each of them.",
        ),
        Claim(
            "Q2",
            "Convolutional SVMs can be trained end to end with an FWNet as the last layer.",
            "(curves only)",
            f"test accuracy {test.mean():.3f}, {untrained:.2f} being that of the larger class",
            range_text(test),
            "the target is a number: no baseline",
            (Comparison(test.min(), ">", untrained + 0.05),),
            why="Holds if every seed is five points above the larger class.",
        ),
    ]


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
    net: nn.Module = with_seed(lambda: image_kernel(x.shape[1:], config.channels), seed)
    return DeepSVM(torch.from_numpy(x), _signs(config, y), net, config.C)


def _fwnet(config: ManmadeConfig, rule: StepRule, updates: Adam) -> Make:
    solver = FrankWolfe(Simplex(), rule, oracle=Softmin(config.beta))
    return lambda svm: DeepTraining(svm, Cell(solver), updates)


def _adam(lr: float) -> Make:
    """α = softmax(θ) and the network, both by Adam."""
    return lambda svm: DeepTraining(svm, Descent(Reparameterised(), Adam(lr)), Adam(lr))


def _grids(config: ManmadeConfig) -> dict[str, dict[str, Make]]:
    return {
        TUNED: {
            f"γ = {step:g}, lr = {lr:g}": _fwnet(config, Constant(step), Adam(lr))
            for step in config.step_sizes
            for lr in config.lr_grid
        },
        ADAM_TUNED: {f"lr = {lr:g}": _adam(lr) for lr in config.lr_grid},
    }
