"""cifar2: neural SVMs on pairs of classes, learned on one pair, tested on the others (Fig. 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, final

import numpy as np
import torch
from torch import nn

from fwnet.data import load, splits
from fwnet.directions import Direction
from fwnet.domains import Simplex
from fwnet.lab.paper.claims import Claim, Comparison
from fwnet.lab.paper.configs import CIFAR2, Cifar2Config
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Row, Table, bands
from fwnet.lab.paper.measures import grid_text, median_text, range_text, reached, times
from fwnet.lab.paper.runs import chosen_text, draw_seed, meta_scores, no_denormals, trained
from fwnet.lab.paper.simplex_runs import (
    Cell,
    Descent,
    Lagrangian,
    Mover,
    Reparameterised,
    SimplexDescent,
    curve,
)
from fwnet.lab.paper.updates import Adam, GradientDescent
from fwnet.learned import LSTMDirection, LSTMStep, LSTMUpdates, MetaHistory
from fwnet.learned.training.tasks import with_seed
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

Make = Callable[[Any], Mover]
Version = tuple[nn.Module, Make]  # what is trained, and what moves α with it


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
        """Ten in the paper's profile: what an LSTM learns from one pair varies."""
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
        arms: dict[str, Mover] = {
            "FWNet γ = 0.01": _fwnet(config, Constant(0.01)),
            "FWNet 2/(t+2)": _fwnet(config, OpenLoop()),
            "FWNet adaptive": _fwnet(config, LineSearch()),
            "GD": Descent(Reparameterised(), GradientDescent(config.lr)),
            "Adam reparameterised": Descent(Reparameterised(), Adam(config.lr)),
            "Adam Lagrangian": Descent(Lagrangian(), Adam(config.lr)),
        }
        chosen: dict[str, str] = {}
        for name, choices in _grids(config).items():
            best = min(choices, key=lambda key: _final(choices[key], validation, config.steps))
            arms[name], chosen[name] = choices[best], best
        histories: dict[str, dict[str, dict[str, list[float]]]] = {}
        for place, (name, versions) in enumerate(_learned(config, seed).items()):
            progress(0.1 + 0.2 * place, f"meta-training {name}")
            found = {
                text: (make, *_trained(module, make, training, validation, seed))
                for text, (module, make) in versions.items()
            }
            best = min(found, key=lambda text: min(found[text][2].validations))
            make, module, history = found[best]
            arms[name], chosen[name] = make(module), best + chosen_text(history)
            histories[name] = {text: meta_scores(each) for text, (_, _, each) in found.items()}
        progress(0.7, "solving the held-out pairs")
        best_value = optimum(test)
        losses, excess, reach = {}, {}, {}
        for name, mover in arms.items():
            values = curve(SimplexDescent(test, mover), config.steps)  # (steps + 1, pairs)
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
            "meta": histories,
            "pairs": len(pairs),
            "n": 2 * tested.per_class,
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        ours = (*FWNETS, OURS_TUNED)
        loss, excess, spread = (results.by_name(key) for key in ("loss", "excess", "spread"))
        baselines = set(loss) - set(ours)
        paper = {name: loss[name] for name in (*FWNETS, *UNTUNED, "L2L")}
        tuned = {name: excess[name] for name in (*ours, *TUNED)}
        rows: list[Row] = [
            [
                name,
                float(excess[name][:, -1].mean()),
                float(spread[name][:, -1].mean()),
                median_text(reach.ravel()),
                results.chosen(name),
            ]
            for name, reach in results.by_name("reach").items()
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
                bands(paper, baselines),
                log_y=True,
            ),
            Curves(
                "excess",
                "Distance from the optimum, beside tuned baselines",
                "(f − f*)/f*, f* from an exact quadratic programme; mean over pairs.",
                "iteration",
                "(f − f*)/f*",
                bands(tuned, baselines),
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
    excess, spread, reach = (results.by_name(key) for key in ("excess", "spread", "reach"))
    last = {name: values[:, -1] for name, values in excess.items()}
    end = {name: float(values.mean()) for name, values in last.items()}
    ours = min(FWNETS, key=end.__getitem__)
    rival = min(UNTUNED, key=end.__getitem__)
    tuned = min((*UNTUNED, *TUNED), key=end.__getitem__)
    beaten = [name for name in UNTUNED if end[ours] < end[name]]
    area = excess["L2LC_γ"].mean(1) / excess["FWNet adaptive"].mean(1)
    scatter = spread["L2LC_γ"].mean(1) / spread["FWNet adaptive"].mean(1)
    gamma, l2l = reach["L2LC_γ"].ravel(), reach["L2L"].ravel()
    config = results.config
    learning = grid_text("meta lr", config["meta"]["lrs"])
    l2l_grid = f"{grid_text('L2L lr', config['l2l_grid'])} × {learning}"
    return [
        Claim(
            "Q1",
            "FWNets and L2LC outperformed the other baselines.",
            "(curves only)",
            f"excess over f* at the end: {ours} {end[ours]:.3g}; untuned {rival} "
            f"{end[rival]:.3g}; best of all baselines, {tuned}, {end[tuned]:.3g}; "
            f"{OURS_TUNED} {end[OURS_TUNED]:.3g}",
            f"{ours} {range_text(last[ours])}",
            f"{grid_text('GD lr', config['gd_grid'])}; "
            f"{grid_text('Adam lr', config['adam_grid'])}; {l2l_grid}; "
            f"untuned lr = {config['lr']:g}",
            (Comparison(end[ours], "<", end[rival]),),
            (Comparison(end[ours], "<", end[tuned]),),
            f"At the end {ours} is ahead of {len(beaten)} of {len(UNTUNED)} untuned baselines"
            f"{': ' if beaten else ''}{', '.join(beaten)}.",
        ),
        Claim(
            "Q3",
            "FWNets with an adaptive step size can be slightly faster than L2LC_γ, but the LSTM "
            "learns to control FW in a similar way.",
            "(curves only)",
            f"mean excess over all iterations, L2LC_γ / adaptive: {area.mean():.3g}",
            range_text(area),
            f"the line search has nothing to tune; L2LC_γ {learning}",
            (Comparison(area.mean(), ">=", 0.8), Comparison(area.mean(), "<=", 1.25)),
            why="Holds if the ratio lies between 0.8 and 1.25.",
        ),
        Claim(
            "Q3",
            "The LSTM shows a much smaller variance than the adaptive step size.",
            "(bands only)",
            f"standard deviation of the excess over pairs, L2LC_γ / adaptive: {scatter.mean():.3g}",
            range_text(scatter),
            f"the line search has nothing to tune; L2LC_γ {learning}",
            (Comparison(scatter.mean(), "<=", 0.5),),
            why="Holds if the ratio is at most 0.5.",
        ),
        Claim(
            "Q3",
            "L2LC can be faster than L2LG.",
            "(curves only)",
            f"iterations until the excess is {LEVEL:g} of the start's: L2LC_γ "
            f"{median_text(gamma)}, L2L {median_text(l2l)}; at the end "
            f"{end['L2LC_γ']:.3g} against {end['L2L']:.3g}",
            range_text(gamma, "pairs"),
            f"{l2l_grid}; L2LC_γ {learning}; both learned on the same pair",
            (Comparison(times(l2l, gamma), ">", 1), Comparison(end["L2LC_γ"], "<=", end["L2L"])),
            why="Holds if L2LC_γ is there first and ends no worse.",
        ),
    ]


def _fwnet(
    config: Cifar2Config,
    rule: StepRule,
    beta: float | None = None,
    direction: Direction | None = None,
) -> Mover:
    oracle = Softmin(config.beta if beta is None else beta)
    return Cell(FrankWolfe(Simplex(), rule, oracle=oracle, direction=direction))


def _grids(config: Cifar2Config) -> dict[str, dict[str, Mover]]:
    """What each tuned run chooses from, by a text that says which."""
    rules = {"2/(t+2)": OpenLoop(), "line search": LineSearch()}
    return {
        OURS_TUNED: {
            f"β = {beta:g}, {text}": _fwnet(config, rule, beta)
            for beta in config.betas
            for text, rule in rules.items()
        },
        "GD, tuned": {
            f"lr = {lr:g}": Descent(Reparameterised(), GradientDescent(lr)) for lr in config.gd_grid
        },
        "Adam reparameterised, tuned": {
            f"lr = {lr:g}": Descent(Reparameterised(), Adam(lr)) for lr in config.adam_grid
        },
        "Adam Lagrangian, tuned": {
            f"lr = {lr:g}": Descent(Lagrangian(), Adam(lr)) for lr in config.adam_grid
        },
    }


def _learned(config: Cifar2Config, seed: int) -> dict[str, dict[str, Version]]:
    """What is trained and what moves α with it, by a text that names the version."""
    step = with_seed(LSTMStep, seed)
    direction = with_seed(lambda: LSTMDirection(preprocess=True, beta=config.beta), seed)
    l2l: dict[str, Version] = {}
    for scale in config.l2l_grid:
        updates = with_seed(partial(LSTMUpdates, scale=scale), seed)
        l2l[f"lr = {scale:g}, "] = (updates, partial(Descent, Reparameterised()))
    return {
        "L2LC_γ": {"": (step, partial(_fwnet, config))},
        "L2LC_∇": {"": (direction, lambda d: _fwnet(config, OpenLoop(), direction=d))},
        "L2L": l2l,
    }


def _trained(
    module: nn.Module, make: Make, training: Pairs, validation: SVMDual, seed: int
) -> tuple[nn.Module, MetaHistory]:
    """Meta-train on fresh draws of the first pair."""
    batch = [(0, 1)] * training.config.meta_batch

    def draw(module: nn.Module, generator: torch.Generator) -> SimplexDescent:
        rows = np.random.default_rng(draw_seed(generator))
        return SimplexDescent(training.problem(batch, rows), make(module))

    def held(module: nn.Module) -> SimplexDescent:
        return SimplexDescent(validation, make(module))

    return trained(module, draw, held, training.config.meta, seed)


def _final(mover: Mover, problem: SVMDual, steps: int) -> float:
    value = float(curve(SimplexDescent(problem, mover), steps)[-1].mean())
    return value if np.isfinite(value) else float("inf")
