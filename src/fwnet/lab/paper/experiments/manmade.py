"""manmade: a convolutional deep SVM on two superclasses, its step size learned (Fig. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import Dataset, load, splits
from fwnet.lab.paper.claims import Claim, Promise, Reading
from fwnet.lab.paper.configs import MANMADE, ManmadeConfig
from fwnet.lab.paper.deep_methods import (
    ADAPTIVE,
    FWNET,
    GAMMA,
    GAMMA_KERNEL,
    HAND,
    SEARCH,
    TODAY,
    TUNED,
    hand_designed,
    learned,
    tuned,
)
from fwnet.lab.paper.deep_svm import DeepSVM, DeepTraining, decide
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, bands
from fwnet.lab.paper.judged import CRITERIA, Judged, judge
from fwnet.lab.paper.kernel_nets import image_kernel
from fwnet.lab.paper.measures import grid_text
from fwnet.lab.paper.methods import Method, Methods, draw_seed
from fwnet.lab.paper.simplex_runs import Descent, Reparameterised
from fwnet.lab.paper.updates import Adam
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed

ADAM, ADAM_TUNED = "Adam", "Adam, tuned"
UNTUNED, BEST = (*HAND, ADAM), (TUNED, ADAM_TUNED)


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
        hand = hand_designed(config) | {ADAM: _adam(config.lr)}
        held = _deep_svm(config, data, parts.optimizer, generator, 999)
        first = OptimizerRun(hand[SEARCH](held)).record(config.steps + 1)
        held = replace(held, levels=first[-1].loss.double().numpy())
        methods = Methods(hand, held, config.steps + 1)
        progress(0.0, "tuning on other images")
        adams = {f"lr = {lr:g}": _adam(lr) for lr in config.lr_grid}
        for name, choices in (tuned(config) | {ADAM_TUNED: adams}).items():
            methods.tune(name, choices)

        def draw(generator: torch.Generator) -> DeepSVM:
            rows = np.random.default_rng(draw_seed(generator))
            start = 1000 + draw_seed(generator)
            return _deep_svm(config, data, parts.optimizee, rows, start)

        for place, (name, version) in enumerate(learned(config, GAMMA, GAMMA_KERNEL).items()):
            progress(0.2 + 0.35 * place, f"training {name}")
            methods.learn(name, version, draw, config.meta, seed)
        svm = _deep_svm(config, data, parts.test, generator, seed)
        x, y = data.test(slice(config.test_points))
        x_test, y_test = torch.from_numpy(x).unsqueeze(0), _signs(config, y)
        runs, test = {}, {}
        for place, (name, method) in enumerate(methods.items()):
            progress(0.9 + 0.01 * place, f"training with {name}")
            run = OptimizerRun(method(svm))
            runs[name] = run.record(config.steps + 1)
            found = decide(run.state.nets, runs[name][-1], x_test).sign()[0]
            test[name] = float((found == y_test).float().mean())
        loss = {name: [float(step.loss) for step in run] for name, run in runs.items()}
        levels = {text: loss[name][-1] for text, name in ADAPTIVE.items()}
        return {
            "methods": {
                name: judge(loss[name], [levels["line search"]])
                | {
                    "count 2/(t+2)": judge(loss[name], [levels["2/(t+2)"]])["count"],
                    "test": test[name],
                    "accuracy": [float(step.accuracy) for step in run],
                    "step_size": [step.step_size for step in run],
                }
                for name, run in runs.items()
            },
            "chosen": methods.chosen,
            "training": methods.training,
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        judged = Judged(results)
        sizes = {name: judged.values(name, "step_size") for name in (*HAND, GAMMA)}
        test = {name: judged.typical(name, "test") for name in judged.names}
        names = (*UNTUNED, GAMMA, GAMMA_KERNEL, *BEST, TODAY)
        return [
            Curves(
                "loss",
                "Loss while training",
                "2P/(C n) with the α and the features of the iteration; mean and standard "
                "deviation over seeds.",
                "iteration",
                "loss of the SVM",
                judged.curves(names, (ADAM, *BEST)),
                log_y=True,
            ),
            Curves(
                "step_size",
                "Step sizes",
                "What the LSTM learned, beside the hand-designed rules.",
                "iteration",
                "step size γ",
                bands({name: found for name, found in sizes.items() if found.size}),
                log_y=True,
            ),
            judged.training(),
            judged.table(
                "Iterations to the loss at which FWNet with a line search ends, median over seeds; "
                "test accuracy on the whole test set after the last iteration, where the network "
                "has memorised its few training images.",
                {"test accuracy": test},
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)

    def promises(self, results: Results) -> Sequence[Promise]:
        judged = Judged(results)
        best = judged.best((TODAY, GAMMA, GAMMA_KERNEL), "count")
        rivals = (judged.best(names, "count") for names in (UNTUNED, BEST))
        words = "manmade: less than half of the iterations of hand-coded optimizers"
        return [judged.promise(words, 2.0, GAMMA, best, *rivals)]


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 7, measured."""
    judged, config = Judged(results), results.config
    grid = (
        f"{grid_text('lr', config['lr_grid'])}, FWNet × {grid_text('γ', config['step_sizes'])}; "
        f"L2LC {grid_text('meta lr', config['meta']['lrs'])}"
    )
    test = judged.values(FWNET, "test")
    larger = max(share(config), 1 - share(config))
    rival, best = (judged.best(names, "count") for names in (UNTUNED, BEST))
    harder = [
        Reading.of(
            text,
            judged.typical(GAMMA_KERNEL, key),
            ">",
            judged.typical(GAMMA, key),
            f"{GAMMA_KERNEL}, against {GAMMA}",
        )
        for key, text in CRITERIA.items()
    ]
    return [
        Claim(
            "Q3",
            "L2LC_γ outperforms hand-coded optimizers even with adaptive step size.",
            "(curves only)",
            f"At the end L2LC_γ has a loss of {judged.typical(GAMMA, 'end'):.3g}, the best "
            f"hand-coded one {judged.typical(judged.best(UNTUNED, 'end'), 'end'):.3g}, the best "
            f"tuned one {judged.typical(judged.best(BEST, 'end'), 'end'):.3g}.",
            judged.ahead(GAMMA, UNTUNED, BEST),
            judged.spread(GAMMA, "end", "seeds"),
            grid,
            judged.untrained(GAMMA),
        ),
        Claim(
            "Q3",
            "It requires less than half of the iterations to converge.",
            "less than half",
            "Iterations to the loss at which the line search ends: L2LC_γ "
            f"{judged.count(GAMMA)}; the fastest hand-coded one, {rival}, {judged.count(rival)}; "
            f"the fastest tuned one, {best}, {judged.count(best)}.",
            [
                Reading(
                    f"to the last loss of {ADAPTIVE[text]}",
                    (judged.fewer(GAMMA, judged.best(UNTUNED, key), ">", 2, key),),
                    (judged.fewer(GAMMA, judged.best(BEST, key), ">", 2, key),),
                )
                for text, key in (("2/(t+2)", "count 2/(t+2)"), ("line search", "count"))
            ],
            judged.spread(GAMMA, "count", "seeds"),
            grid,
            judged.untrained(GAMMA),
        ),
        Claim(
            "Q3",
            "Training also the kernel is harder as it is a non-convex problem.",
            "(no numbers)",
            f"With LSTMs for the step, the convolutional and the dense layers the loss ends at "
            f"{judged.typical(GAMMA_KERNEL, 'end'):.3g}, with the step alone at "
            f"{judged.typical(GAMMA, 'end'):.3g}; {len(judged.failed(GAMMA_KERNEL))} of "
            f"{len(results.seeds)} trainings failed. Harder means a larger loss.",
            harder,
            judged.spread(GAMMA_KERNEL, "end", "seeds"),
            grid,
        ),
        Claim(
            "Q2",
            "Convolutional SVMs can be trained end to end with an FWNet as the last layer.",
            "(curves only)",
            f"The test accuracy is {test.mean():.3f}, and {larger:.2f} of the images are in the "
            "larger class; five points above that count as trained.",
            [Reading.of("every seed", float(test.min()), ">", larger + 0.05, "test accuracy")],
            judged.spread(FWNET, "test", "seeds"),
            "the target is a number: no baseline",
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
    generator: np.random.Generator,
    seed: int,
) -> DeepSVM:
    """A deep SVM on a draw of the rows, its network drawn from the seed."""
    x, y = data.train(np.sort(generator.permutation(rows)[: config.points]))
    net: nn.Module = with_seed(partial(image_kernel, x.shape[1:], config.channels), seed)
    X, signs = torch.from_numpy(x), _signs(config, y)
    return DeepSVM(X.unsqueeze(0), signs.unsqueeze(0), [net], config.C)


def _adam(lr: float) -> Method:
    """α = softmax(θ) and the network, both by Adam."""
    return lambda svm: DeepTraining(svm, Descent(Reparameterised(), Adam(lr)), Adam(lr))
