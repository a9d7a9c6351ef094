"""cifar2: neural SVMs on pairs of classes, learned on one pair, tested on the others (Fig. 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, final

import numpy as np
import torch

from fwnet.data import load, splits
from fwnet.directions import Direction
from fwnet.domains import Simplex
from fwnet.lab.paper.configs import CIFAR2, Cifar2Config
from fwnet.lab.paper.experiment import Claim, Experiment, Profile, Progress, Results, Verdict
from fwnet.lab.paper.figures import Curves, Figure, Table, band
from fwnet.lab.paper.measures import grid_text, median_text, range_text, reached, times, verdict
from fwnet.lab.paper.meta import Trained, meta_train, seeded
from fwnet.lab.paper.simplex_runs import (
    Coordinates,
    DescentRun,
    FrankWolfeRun,
    Lagrangian,
    Reparameterised,
    curve,
    no_denormals,
)
from fwnet.lab.paper.updates import Adam, GradientDescent, Updates
from fwnet.learned import LSTMDirection, LSTMStep, LSTMUpdates
from fwnet.numerics.linear_maps import DenseMap
from fwnet.oracles import Softmin
from fwnet.problems import SVMDual
from fwnet.quadratic.solve import simplex_qp
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant, LineSearch, OpenLoop, StepRule

FWNETS = ("FWNet γ = 0.01", "FWNet 2/(t+2)", "FWNet adaptive", "L2LC_γ", "L2LC_∇")
UNTUNED = ("GD", "Adam reparameterised", "Adam Lagrangian")
TUNED = ("GD, tuned", "Adam reparameterised, tuned", "Adam Lagrangian, tuned", "L2L")
OURS_TUNED = "FWNet, tuned"
LEVEL = 0.5  # of the start's excess over f*

Run = DescentRun | FrankWolfeRun
Make = Callable[[SVMDual], Run]
Learned = tuple[list[torch.nn.Module], Make]  # what is trained, and runs with it


@final
class Pairs:
    """Problems of pairs of classes, from one part of the rows."""

    def __init__(self, config: Cifar2Config, x: np.ndarray, y: np.ndarray, rows: np.ndarray):
        self.config, self.x, self.y, self.rows = config, x, y, rows
        counts = [int((y[rows] == label).sum()) for label in np.unique(y)]
        self.per_class = min(config.per_class, *counts)

    def problem(self, pairs: Sequence[tuple[int, int]], generator: np.random.Generator) -> SVMDual:
        """One SVM a pair, each on a fresh draw of its rows."""
        kernels, signs = [], np.repeat([1.0, -1.0], self.per_class)
        for pair in pairs:
            chosen = [
                generator.permutation(self.rows[self.y[self.rows] == label])[: self.per_class]
                for label in pair
            ]
            x = torch.from_numpy(self.x[np.concatenate(chosen)])
            kernels.append(x @ x.T)
        labels = torch.tensor(signs, dtype=torch.float32).expand(len(pairs), -1)
        return SVMDual(torch.stack(kernels), labels, C=self.config.C)


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
        """Ten where it matters: what an LSTM learns from one pair scatters."""
        return 10 if profile is Profile.PAPER else profile.seeds

    def run(self, config: Cifar2Config, seed: int, progress: Progress) -> dict[str, Any]:
        with no_denormals():
            return self._run(config, seed, progress)

    def _run(self, config: Cifar2Config, seed: int, progress: Progress) -> dict[str, Any]:
        data = load(config.data)
        x = data.train()[0].reshape(len(data.y), -1)
        parts = splits(data.y, (0.3, 0.3, 0.4), seed=seed)  # raises unless disjoint
        generator = np.random.default_rng(seed)
        first = (0, 1)
        validation = Pairs(config, x, data.y, parts.optimizer).problem([first], generator)
        pairs = list(combinations(range(len(data.classes)), 2))[1:]
        if config.pairs is not None:
            pairs = pairs[: config.pairs]
        tested = Pairs(config, x, data.y, parts.test)
        test = tested.problem(pairs, generator)
        training = Pairs(config, x, data.y, parts.optimizee)
        arms: dict[str, Make] = {
            "FWNet γ = 0.01": _fwnet(config, Constant(0.01)),
            "FWNet 2/(t+2)": _fwnet(config, OpenLoop()),
            "FWNet adaptive": _fwnet(config, LineSearch()),
            "GD": _descent(Reparameterised(), GradientDescent(config.lr)),
            "Adam reparameterised": _descent(Reparameterised(), Adam(config.lr)),
            "Adam Lagrangian": _descent(Lagrangian(), Adam(config.lr)),
        }
        chosen: dict[str, str] = {}
        for name, choices in _grids(config).items():
            best = min(choices, key=lambda key: _final(choices[key], validation, config.steps))
            arms[name], chosen[name] = choices[best], best
        histories: dict[str, dict[str, Trained]] = {}
        for place, (name, versions) in enumerate(_learned(config, seed).items()):
            progress(0.1 + 0.2 * place, f"meta-training {name}")
            found = histories[name] = {
                text: _trained(modules, make, training, validation, generator)
                for text, (modules, make) in versions.items()
            }
            best = min(found, key=lambda text: found[text].best)
            arms[name] = versions[best][1]
            chosen[name] = f"{best}meta lr = {found[best].lr:g}"
        progress(0.7, "solving the held-out pairs")
        best_value = optimum(test)
        losses, excess, reach = {}, {}, {}
        for name, make in arms.items():
            values = curve(make(test), config.steps)  # (steps + 1, pairs)
            relative = (values - best_value) / best_value
            losses[name] = values.mean(1)
            excess[name] = relative.T  # (pairs, steps + 1)
            level = LEVEL * relative[0]
            reach[name] = [reached(r / s, 1.0) for r, s in zip(relative.T, level, strict=True)]
        return {
            "loss": losses,
            "excess": {name: values.mean(0) for name, values in excess.items()},
            "spread": {name: values.std(0) for name, values in excess.items()},
            "reach": reach,
            "chosen": chosen,
            "meta": {
                name: {text: each.scores for text, each in found.items()}
                for name, found in histories.items()
            },
            "pairs": len(pairs),
            "n": 2 * tested.per_class,
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        names = list(results.first("loss"))
        steps = list(range(len(results.first("loss", names[0]))))
        ours = (*FWNETS, OURS_TUNED)
        loss = [
            band(name, steps, results.over_seeds("loss", name), baseline=name not in ours)
            for name in (*FWNETS, *UNTUNED, "L2L")
        ]
        excess = [
            band(name, steps, results.over_seeds("excess", name), baseline=name not in ours)
            for name in (*ours, *TUNED)
        ]
        rows = [
            [
                name,
                float(results.over_seeds("excess", name)[:, -1].mean()),
                float(results.over_seeds("spread", name)[:, -1].mean()),
                median_text(results.over_seeds("reach", name).ravel()),
                ", ".join(sorted({str(r.metrics["chosen"].get(name, "")) for r in results.seeds})),
            ]
            for name in names
        ]
        pairs, n = results.first("pairs"), results.first("n")
        return [
            Curves(
                "loss",
                f"Loss on {pairs} pairs that no learned optimizer saw",
                "The paper's settings. Mean over pairs; the band is a standard deviation over "
                "seeds.",
                "iteration",
                "½ αᵀKα",
                loss,
                log_y=True,
            ),
            Curves(
                "excess",
                "Distance from the optimum, beside tuned baselines",
                "(f − f*)/f*, f* from an exact quadratic programme; mean over pairs.",
                "iteration",
                "(f − f*)/f*",
                excess,
                log_y=True,
            ),
            Table(
                "table",
                f"After the last iteration; n = {n} points a pair",
                "Excess and its standard deviation over pairs; iterations until the excess is "
                f"{LEVEL:g} of the start's (median over pairs); what tuning chose on validation.",
                ("method", "(f − f*)/f*", "std over pairs", "iterations", "chosen"),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def optimum(problem: SVMDual) -> np.ndarray:  # (batch,)
    """f* of each problem, exactly, by the library's quadratic programmes."""
    kernel = problem.form.matrix
    assert isinstance(kernel, DenseMap)
    Q = kernel.matrix.double()
    best = simplex_qp(Q)
    return (0.5 * torch.einsum("bi,bij,bj->b", best, Q, best)).numpy()


def claims(results: Results) -> list[Claim]:
    """What the paper says of Fig. 4, measured."""
    end = {name: results.over_seeds("excess", name)[:, -1] for name in results.first("excess")}
    ours = min(FWNETS, key=lambda name: end[name].mean())
    rival = min(UNTUNED, key=lambda name: end[name].mean())
    tuned = min((*UNTUNED, *TUNED), key=lambda name: end[name].mean())
    beaten = [name for name in UNTUNED if end[ours].mean() < end[name].mean()]
    config = results.config
    learning = grid_text("meta lr", config["meta"]["lrs"])
    l2l = f"{grid_text('L2L lr', config['l2l_grid'])} × {learning}"
    grid = (
        f"{grid_text('GD lr', config['gd_grid'])}; {grid_text('Adam lr', config['adam_grid'])}; "
        f"{l2l}; untuned lr = {config['lr']:g}"
    )
    better = Claim(
        "Q1",
        "FWNets and L2LC outperformed the other baselines.",
        "(curves only)",
        f"excess over f* at the end: {ours} {end[ours].mean():.3g}; untuned {rival} "
        f"{end[rival].mean():.3g}; best of all baselines, {tuned}, {end[tuned].mean():.3g}; "
        f"{OURS_TUNED} {end[OURS_TUNED].mean():.3g}",
        f"{ours} {range_text(end[ours])}",
        grid,
        verdict(end[ours].mean() < end[rival].mean(), end[ours].mean() < end[tuned].mean()),
        f"At the end {ours} is ahead of {len(beaten)} of {len(UNTUNED)} untuned baselines"
        f"{': ' if beaten else ''}{', '.join(beaten)}.",
    )
    area = {
        name: results.over_seeds("excess", name).mean(1)
        for name in ("FWNet adaptive", "L2LC_γ", "L2L")
    }
    ratio = area["L2LC_γ"] / area["FWNet adaptive"]
    similar = Claim(
        "Q3",
        "FWNets with an adaptive step size can be slightly faster than L2LC_γ, but the LSTM "
        "learns to control FW in a similar way.",
        "(curves only)",
        f"mean excess over all iterations, L2LC_γ / adaptive: {ratio.mean():.3g}",
        range_text(ratio),
        f"the line search has nothing to tune; L2LC_γ {learning}",
        Verdict.HOLDS if 0.8 <= ratio.mean() <= 1.25 else Verdict.FAILS,
        "Holds if the ratio lies between 0.8 and 1.25.",
    )
    spread = {
        name: results.over_seeds("spread", name).mean(1) for name in ("FWNet adaptive", "L2LC_γ")
    }
    share = spread["L2LC_γ"] / spread["FWNet adaptive"]
    variance = Claim(
        "Q3",
        "The LSTM shows a much smaller variance than the adaptive step size.",
        "(bands only)",
        f"standard deviation of the excess over pairs, L2LC_γ / adaptive: {share.mean():.3g}",
        range_text(share),
        f"the line search has nothing to tune; L2LC_γ {learning}",
        Verdict.HOLDS if share.mean() <= 0.5 else Verdict.FAILS,
        "Holds if the ratio is at most 0.5.",
    )
    reach = {name: results.over_seeds("reach", name).ravel() for name in ("L2LC_γ", "L2L")}
    factor = times(reach["L2L"], reach["L2LC_γ"])
    faster = Claim(
        "Q3",
        "L2LC can be faster than L2LG.",
        "(curves only)",
        f"iterations until the excess is {LEVEL:g} of the start's: L2LC_γ "
        f"{median_text(reach['L2LC_γ'])}, L2L {median_text(reach['L2L'])}; at the end "
        f"{end['L2LC_γ'].mean():.3g} against {end['L2L'].mean():.3g}",
        range_text(reach["L2LC_γ"], "pairs"),
        f"{l2l}; L2LC_γ {learning}; both learned on the same pair",
        Verdict.HOLDS
        if factor > 1 and end["L2LC_γ"].mean() <= end["L2L"].mean()
        else Verdict.FAILS,
        "Holds if L2LC_γ gets there first and ends no worse.",
    )
    return [better, similar, variance, faster]


def _fwnet(
    config: Cifar2Config,
    rule: StepRule,
    beta: float | None = None,
    direction: Direction | None = None,
) -> Make:
    oracle = Softmin(config.beta if beta is None else beta)
    solver = FrankWolfe(Simplex(), rule, oracle=oracle, direction=direction)
    return lambda problem: FrankWolfeRun(problem, solver)


def _descent(coordinates: Coordinates, updates: Updates) -> Make:
    return lambda problem: DescentRun(problem, coordinates, updates)


def _grids(config: Cifar2Config) -> dict[str, dict[str, Make]]:
    """What each tuned run chooses from, by a text that says which."""
    rules = {"2/(t+2)": OpenLoop(), "line search": LineSearch()}
    return {
        OURS_TUNED: {
            f"β = {beta:g}, {text}": _fwnet(config, rule, beta)
            for beta in config.betas
            for text, rule in rules.items()
        },
        "GD, tuned": {
            f"lr = {lr:g}": _descent(Reparameterised(), GradientDescent(lr))
            for lr in config.gd_grid
        },
        "Adam reparameterised, tuned": {
            f"lr = {lr:g}": _descent(Reparameterised(), Adam(lr)) for lr in config.adam_grid
        },
        "Adam Lagrangian, tuned": {
            f"lr = {lr:g}": _descent(Lagrangian(), Adam(lr)) for lr in config.adam_grid
        },
    }


def _learned(config: Cifar2Config, seed: int) -> dict[str, dict[str, Learned]]:
    """The modules that are trained and runs with them, by a text that tells versions apart."""
    step, direction = seeded(LSTMStep, seed), seeded(lambda: LSTMDirection(preprocess=True), seed)
    l2l: dict[str, Learned] = {}
    for scale in config.l2l_grid:
        updates = seeded(partial(LSTMUpdates, scale=scale), seed)
        l2l[f"lr = {scale:g}, "] = ([updates], _descent(Reparameterised(), updates))
    return {
        "L2LC_γ": {"": ([step], _fwnet(config, step))},
        "L2LC_∇": {"": ([direction], _fwnet(config, OpenLoop(), direction=direction))},
        "L2L": l2l,
    }


def _trained(
    modules: list[torch.nn.Module],
    make: Make,
    training: Pairs,
    validation: SVMDual,
    generator: np.random.Generator,
) -> Trained:
    """Meta-train on fresh draws of the first pair."""
    batch = [(0, 1)] * training.config.meta_batch
    return meta_train(
        modules,
        lambda episode: make(training.problem(batch, generator)),
        lambda: make(validation),
        training.config.meta,
    )


def _final(make: Make, problem: SVMDual, steps: int) -> float:
    value = float(curve(make(problem), steps)[-1].mean())
    return value if np.isfinite(value) else float("inf")
