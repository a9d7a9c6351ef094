"""beyond: the problems of the paper with what the library gives today."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, final

import numpy as np

from fwnet.data import load, splits
from fwnet.domains import Simplex
from fwnet.estimators import DeepSVC
from fwnet.oracles import Softmin
from fwnet.paper.configs import BEYOND, BeyondConfig, Cifar2Config, CirclesConfig
from fwnet.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.paper.experiments.cifar2 import Pairs, optimum
from fwnet.paper.figures import Curves, Figure, Series, Table, band
from fwnet.paper.kernel_nets import rings_net
from fwnet.paper.measures import median_text, reached
from fwnet.solvers import Corrective, FrankWolfe, PairwiseFrankWolfe
from fwnet.steps import OpenLoop

PAPERS = "FWNet of the paper"
LEVELS = (1e-1, 1e-2, 1e-4)


@final
class Beyond(Experiment[BeyondConfig]):
    """Corrective and pairwise solvers, exact deep SVMs, soft trace-norm steps."""

    name = "beyond"
    title = "The same problems with the library's own solvers"
    paper = "beyond the paper"
    question = "What should one use for these problems today?"

    def config(self, profile: Profile) -> BeyondConfig:
        return BEYOND[profile]

    def run(self, config: BeyondConfig, seed: int, progress: Progress) -> dict[str, Any]:
        progress(0.0, "SVMs on pairs of classes")
        pairs = _pairs(config.cifar2, seed)
        progress(0.4, "deep SVMs on circles")
        rings = _rings(config.circles, seed)
        return {"pairs": pairs, "rings": rings}

    def figures(self, results: Results) -> Sequence[Figure]:
        excess = results.first("pairs", "excess")
        curves = [
            band(
                name,
                list(range(len(excess[name]))),
                results.over_seeds("pairs", "excess", name),
                baseline=name == PAPERS,
            )
            for name in excess
        ]
        rows = [
            [
                name,
                *(
                    median_text(results.over_seeds("pairs", "reach", name)[..., k].ravel())
                    for k in range(len(LEVELS))
                ),
            ]
            for name in excess
        ]
        rings = [
            Series(
                f"{mode}, seed {r.seed}",
                r.metrics["rings"][mode]["t"],
                r.metrics["rings"][mode]["loss"],
                baseline=mode != "exact",
            )
            for mode in results.first("rings")
            for r in results.seeds[:1]
        ]
        fits = [
            [
                mode,
                median_text(results.over_seeds("rings", mode, "reached")),
                float(results.over_seeds("rings", mode, "test").min()),
                float(results.over_seeds("rings", mode, "gap").max()),
            ]
            for mode in results.first("rings")
        ]
        return [
            Curves(
                "pairs",
                "SVMs on pairs of classes",
                "(f − f*)/f*, mean over pairs; the same problems as in cifar2.",
                "iteration",
                "(f − f*)/f*",
                curves,
                log_y=True,
            ),
            Table(
                "pairs-table",
                "Iterations to a relative excess",
                "Median over pairs and seeds.",
                ("solver", *(f"{level:g}" for level in LEVELS)),
                rows,
            ),
            Curves(
                "rings",
                "Deep SVMs on circles",
                "2P*/(C n) with the SVM solved exactly, first seed: solved at every update, moved "
                "by one Frank-Wolfe step an update as in the paper, or differentiated through ten.",
                "update",
                "2P*/(C n)",
                rings,
                log_y=True,
            ),
            Table(
                "rings-table",
                "DeepSVC on circles",
                "Updates to a training accuracy of 0.99 (median), test accuracy of the worst "
                "seed, largest duality gap of the final SVM.",
                ("mode", "updates", "test accuracy", "gap"),
                fits,
            ),
        ]


def _pairs(config: Cifar2Config, seed: int) -> dict[str, Any]:
    """Solvers on the held-out pairs of cifar2, in double precision."""
    data = load(config.data)
    x = data.train()[0].reshape(len(data.y), -1).astype(np.float64)
    parts = splits(data.y, (0.3, 0.3, 0.4), seed=seed)
    pairs = list(combinations(range(len(data.classes)), 2))[1:][: config.pairs]
    problem = Pairs(config, x, data.y, parts.test).problem(pairs, np.random.default_rng(seed))
    steps = config.steps
    simplex = Simplex()
    solvers = {
        PAPERS: FrankWolfe(simplex, oracle=Softmin(config.beta), max_steps=steps, tol=0.0),
        "FWNet, relative annealed β": FrankWolfe(
            simplex,
            OpenLoop(30.0),
            oracle=Softmin(10.0, relative=True, growth=0.5),
            max_steps=steps,
            tol=0.0,
        ),
        "pairwise, second order": PairwiseFrankWolfe(
            simplex, second_order=True, max_steps=steps, tol=0.0
        ),
        "corrective": Corrective(simplex, max_steps=min(steps, 40), tol=0.0),
    }
    best = optimum(problem)
    excess, reach = {}, {}
    for name, solver in solvers.items():
        values = solver(problem).trace.column("value")  # (steps + 1, pairs)
        relative = np.maximum((values - best) / best, 1e-12)
        excess[name] = relative.mean(1)
        reach[name] = [[reached(r, level) for level in LEVELS] for r in relative.T]
    return {"excess": excess, "reach": reach}


def _rings(config: CirclesConfig, seed: int) -> dict[str, Any]:
    """DeepSVC in its three modes."""
    data = load("circles", seed=seed)
    x, y = data.x[: config.points], data.y[: config.points]
    out = {}
    for mode in ("exact", "forward", "unrolled"):
        fit = DeepSVC(
            rings_net, mode=mode, lr=0.05, max_iter=100, check_every=5, random_state=seed
        ).fit(x, y)
        history = fit.history_
        accuracy = [record.accuracy for record in history]
        first = reached(-np.array(accuracy), -0.99)
        out[mode] = {
            "t": [record.t for record in history],
            "loss": [record.loss for record in history],
            "reached": history[int(first)].t if np.isfinite(first) else float("inf"),
            "test": float(fit.score(data.x_test, data.y_test)),
            "gap": fit.duality_gap_,
        }
    return out
