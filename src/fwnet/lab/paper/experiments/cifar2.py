"""cifar2: neural SVMs on pairs of classes, learned on one pair, tested on the others (Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from fwnet.lab.paper.claims import Claim, Promise, Reading
from fwnet.lab.paper.configs import CIFAR2, Cifar2Config
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure
from fwnet.lab.paper.judged import CRITERIA, Judged, judge, readings
from fwnet.lab.paper.measures import grid_text
from fwnet.lab.paper.methods import Methods, no_denormals
from fwnet.lab.paper.simplex_methods import (
    ADAPTIVE,
    FWNETS,
    GAMMA,
    HAND,
    NABLA,
    OPEN,
    OURS_TUNED,
    SEARCH,
    TODAY,
    TUNED,
    UNCONSTRAINED,
    UNTUNED,
    descent,
    hand_designed,
    of_today,
    parts,
    trained,
    tuned,
    values,
)
from fwnet.lab.paper.simplex_runs import curve


@final
class Cifar2(Experiment[Cifar2Config]):
    """Losses of hand-designed, learned and unconstrained optimizers on held-out pairs."""

    name = "cifar2"
    title = "Few-shot neural SVMs on pairs of classes"
    paper = "Figure 4"
    question = (
        "Do FWNets and learned conditional gradients, trained on one pair of classes, beat "
        "unconstrained optimizers on all other pairs?"
    )

    def config(self, profile: Profile) -> Cifar2Config:
        return CIFAR2[profile]

    def seeds(self, profile: Profile) -> int:
        """Five in the paper's profile: what an LSTM learns varies."""
        return 5 if profile is Profile.PAPER else profile.seeds

    @no_denormals()
    def run(self, config: Cifar2Config, seed: int, progress: Progress) -> dict[str, Any]:
        training, held, test = parts(config, seed)
        methods = Methods(hand_designed(config), held, config.steps)
        for name, choices in tuned(config).items():
            methods.tune(name, choices)
        for place, (name, version) in enumerate(trained(config).items()):
            progress(0.1 + 0.2 * place, f"training {name}")
            methods.learn(name, version, training.draw, config.meta, seed)
        progress(0.9, "solving the held-out pairs")
        runs = {
            name: curve(descent(method, test), config.steps) for name, method in methods.items()
        }
        runs |= {name: values(solver, test) for name, solver in of_today(config).items()}
        return {
            "methods": {
                name: judge(excess) | {"deviation": excess.std(0)} for name, excess in runs.items()
            },
            "chosen": methods.chosen,
            "training": methods.training,
            "pairs": len(test.best),
            "n": test.problem.form.matrix.shape[-1],
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        judged = Judged(results)
        deviation = {name: judged.values(name, "deviation") for name in judged.names}
        last = {name: float(d[:, -1].mean()) for name, d in deviation.items() if d.size}
        axes = ("iteration", "excess, (f − f*)/f*")
        return [
            Curves(
                "excess",
                f"Loss on {results.first('pairs')} pairs that no learned optimizer saw",
                "The paper's settings. Mean over pairs; the band is a standard deviation over "
                "seeds. f* is from an exact quadratic programme.",
                *axes,
                judged.curves((*FWNETS, *UNTUNED, *UNCONSTRAINED), (*UNTUNED, *UNCONSTRAINED)),
                log_y=True,
            ),
            Curves(
                "tuned",
                "Learned optimizers beside tuned baselines",
                "The same runs; the baselines' constants are those that were best on other rows of "
                "the first pair. The library's own solvers stand beside them.",
                *axes,
                judged.curves(
                    [
                        name
                        for name in (GAMMA, NABLA, OURS_TUNED, *TUNED, *TODAY)
                        if name in judged.names
                    ],
                    TUNED,
                ),
                log_y=True,
            ),
            judged.training(),
            judged.table(
                f"n = {results.first('n')} points a pair. Numbers are (f − f*)/f*: median over "
                "seeds of the mean over pairs.",
                {"deviation over pairs, end": last},
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)

    def promises(self, results: Results) -> Sequence[Promise]:
        judged = Judged(results)
        best = judged.best([name for name in TODAY if name in judged.names], "end")
        return [
            Promise(
                "a much smaller variance than the adaptive step size (2/(t+2)), "
                "at least twice as small",
                2.0,
                1 / _deviation(judged, GAMMA, OPEN)["area"],
                best,
                1 / _deviation(judged, best, OPEN)["area"],
                1 / _deviation(judged, best, OURS_TUNED)["area"],
            )
        ]


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 4, and its abstract, measured."""
    judged, config = Judged(results), results.config
    rate = grid_text("meta lr", config["meta"]["lrs"])
    grid = (
        f"{grid_text('GD lr', config['gd_grid'])}; {grid_text('Adam lr', config['adam_grid'])}; "
        f"L2LC and L2L {rate}; untuned lr = {config['lr']:g}"
    )
    every_baseline = (*UNTUNED, *UNCONSTRAINED)
    ours = judged.best(FWNETS, "end")
    worst = judged.worst(FWNETS, "end", untrained=-1)
    rival = judged.best(every_baseline, "end")
    learnt = judged.best((GAMMA, NABLA), "end")
    unconstrained = judged.best(UNCONSTRAINED, "end")
    tuned, strongest = judged.best(TUNED, "end"), judged.best((*TUNED, OURS_TUNED), "end")
    hand = judged.best((*HAND, *UNTUNED), "end")

    def above(name: str) -> str:
        return f"{100 * judged.typical(name, 'end'):.2g} %"

    def averaged(names: Sequence[str], others: Sequence[str]) -> str:
        first, second = judged.best(names, "area"), judged.best(others, "area")
        numbers = [f"{100 * judged.typical(name, 'area'):.2g} %" for name in (first, second)]
        return (
            f" Averaged over the iterations, {first} is {numbers[0]} above the optimum, {second} "
            f"{numbers[1]}."
        )

    similar = [
        Reading.of(
            f"adaptive is {text}; {criterion}",
            judged.typical(GAMMA, key) / judged.typical(name, key),
            "<=",
            1.25,
            f"{GAMMA} / {name}",
        )
        for text, name in ADAPTIVE.items()
        for key, criterion in CRITERIA.items()
    ]
    scatter = {text: _deviation(judged, GAMMA, name) for text, name in ADAPTIVE.items()}
    narrow = [
        Reading.of(
            f"adaptive is {text}; {CRITERIA[key]}",
            ratio,
            "<=",
            0.5,
            "deviation over pairs, L2LC_γ / adaptive",
        )
        for text, ratios in scatter.items()
        for key, ratio in ratios.items()
    ]
    return [
        Claim(
            "Q1",
            "FWNets and L2LC outperformed the other baselines.",
            "(curves only)",
            f"After {config['steps']} iterations the best of them, {ours}, is {above(ours)} above "
            f"the optimum; the best baseline, {rival}, is {above(rival)} above it; the best tuned "
            f"one, {tuned}, {above(tuned)}." + averaged(FWNETS, (*every_baseline, *TUNED)),
            readings(
                ("the best of them", judged.ahead(ours, every_baseline, TUNED)),
                ("each of them", judged.ahead(worst, every_baseline, TUNED)),
            ),
            judged.spread(ours, "end", "pairs and seeds"),
            grid,
        ),
        Claim(
            "Q3",
            "FWNets with an adaptive step size can be slightly faster than L2LC_γ, but the LSTM "
            "learns to control FW in a similar way.",
            "(curves only)",
            f"After {config['steps']} iterations L2LC_γ is {above(GAMMA)} above the optimum, "
            f"2/(t+2) {above(OPEN)}, the line search {above(SEARCH)}. At most 1.25 times "
            "the number of the adaptive rule counts as similar.",
            similar,
            judged.spread(GAMMA, "end", "pairs and seeds"),
            f"2/(t+2) and the line search have nothing to tune; L2LC_γ {rate}",
            judged.untrained(GAMMA),
        ),
        Claim(
            "Q3",
            "The LSTM shows a much smaller variance than the adaptive step size.",
            "(bands only)",
            "Averaged over the iterations, the loss of L2LC_γ deviates "
            f"{scatter['2/(t+2)']['area']:.2g} times as much between pairs as that of 2/(t+2), and "
            f"{scatter['line search']['area']:.2g} times as much as that of the line search. At "
            "most half as much counts as much smaller.",
            narrow,
            f"L2LC_γ {rate}, {len(results.seeds)} seeds",
            "2/(t+2) and the line search have nothing to tune",
            judged.untrained(GAMMA),
        ),
        Claim(
            "Q3",
            "L2LC can be faster than L2LG.",
            "(curves only)",
            f"Trained in the same way, the better L2LC, {learnt}, ends {above(learnt)} above the "
            f"optimum, and the better L2LG, {unconstrained}, {above(unconstrained)}."
            + averaged((GAMMA, NABLA), UNCONSTRAINED),
            judged.ahead(learnt, UNCONSTRAINED),
            judged.spread(unconstrained, "end", "pairs and seeds"),
            f"both {rate}, learned on the same pair",
            judged.untrained(learnt, unconstrained),
        ),
        Claim(
            "abstract",
            "Our LSTM-learned optimizers outperform hand-designed as well as learned but "
            "unconstrained ones (training support vector machines).",
            "(no number)",
            f"The better L2LC, {learnt}, ends {above(learnt)} above the optimum; the best "
            f"hand-designed method, {hand}, {above(hand)}; the better L2LG, {unconstrained}, "
            f"{above(unconstrained)}; the best tuned method, {strongest}, {above(strongest)}."
            + averaged((GAMMA, NABLA), (*HAND, *UNTUNED, *UNCONSTRAINED, *TUNED, OURS_TUNED)),
            judged.ahead(learnt, (*HAND, *UNTUNED, *UNCONSTRAINED), (*TUNED, OURS_TUNED)),
            judged.spread(learnt, "end", "pairs and seeds"),
            grid,
            judged.untrained(learnt),
        ),
    ]


def _deviation(judged: Judged, ours: str, other: str) -> dict[str, float]:
    """Ratio of the deviations over pairs: mean over iterations, and at the end."""
    pair = [judged.values(name, "deviation") for name in (ours, other)]
    if not all(found.size for found in pair):
        return dict.fromkeys(CRITERIA, float("nan"))
    area = [float(np.median(found.mean(1))) for found in pair]
    end = [float(np.median(found[:, -1])) for found in pair]
    return {"area": area[0] / area[1], "end": end[0] / end[1]}
