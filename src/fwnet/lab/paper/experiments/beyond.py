"""beyond: the problems of the paper with what the library gives today."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fwnet import learned
from fwnet.data import load, splits
from fwnet.domains import Simplex, TraceNormBall
from fwnet.estimators import DeepSVC
from fwnet.lab.paper.configs import BEYOND, BeyondConfig, Cifar2Config, CirclesConfig, MnistConfig
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.experiments.cifar2 import Pairs, optimum
from fwnet.lab.paper.experiments.mnist import images as split_images
from fwnet.lab.paper.experiments.mnist import network
from fwnet.lab.paper.figures import Curves, Figure, PlottedLine, Table, bands
from fwnet.lab.paper.kernel_nets import rings_net
from fwnet.lab.paper.measures import median_text, reached
from fwnet.lab.paper.softmax_runs import Images
from fwnet.numerics.linear_maps import DenseMap
from fwnet.optim import FrankWolfe as FrankWolfeOptimizer
from fwnet.oracles import Softmin, SoftTraceNorm
from fwnet.problems import Quadratic, SVMDual
from fwnet.solvers import Corrective, FrankWolfe, PairwiseFrankWolfe
from fwnet.solvers.presets import Budgets
from fwnet.steps import OpenLoop

PAPERS = "FWNet of the paper"
LEVELS = (1e-1, 1e-2, 1e-4)
SHIPPED = {"simplex-step": True, "simplex-qp": False}  # for one problem from a cold start
_SEEN = ("digits", "circles")  # the shipped controllers were trained on these


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
        for name in (config.cifar2.data, config.mnist.data):
            load(name)  # missing data is an error now, not after minutes of work
        progress(0.0, "SVMs on pairs of classes")
        pairs = _pairs(config.cifar2, seed)
        progress(0.4, "deep SVMs on circles")
        rings = _rings(config.circles, seed)
        progress(0.7, "softmax layers in trace-norm balls")
        images = _images(config.mnist, seed)
        return {"pairs": pairs, "rings": rings, "images": images}

    def figures(self, results: Results) -> Sequence[Figure]:
        excess = {
            name: results.over_seeds("pairs", "excess", name)
            for name in results.first("pairs", "excess")
        }
        rows = [[name, *_counts(results, name)] for name in excess]
        rings = [
            PlottedLine(
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
        accuracy = results.by_name("images", "accuracy")
        return [
            Curves(
                "pairs",
                "SVMs on pairs of classes",
                "(f − f*)/f*, mean over pairs; the same problems as in cifar2.",
                "iteration",
                "(f − f*)/f*",
                bands(excess, (PAPERS,)),
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
                "by one Frank-Wolfe step an update as in the paper, or differentiated through ten; "
                "Adam 0.05 for all.",
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
            Curves(
                "images",
                "Dense layers in trace-norm balls",
                "Test accuracy with fwnet.optim.FrankWolfe: a soft trace-norm oracle and momentum, "
                "every dense matrix in a ball of radius 50; both learning rates tuned alike, in "
                f"{', '.join(f'{lr:g}' for lr in results.config['mnist']['grid'])}.",
                "iteration",
                "accuracy",
                bands(accuracy, ("Adam, tuned",), results.config["mnist"]["every"]),
            ),
        ]

    def findings(self, results: Results) -> Sequence[str]:
        excess = results.first("pairs", "excess")
        fastest = min(excess, key=lambda name: _last(results, name))
        said = [
            f"SVMs on pairs: to an excess of {LEVELS[-1]:g}, {fastest} takes "
            f"{_counts(results, fastest)[-1]} iterations, the paper's FWNet "
            f"{_counts(results, PAPERS)[-1]}.",
            "Deep SVMs: with the SVM solved exactly at every update, the network separates the "
            f"rings after {median_text(results.over_seeds('rings', 'exact', 'reached'))} updates.",
        ]
        if results.config["cifar2"]["data"] in _SEEN:
            said.append(
                "The shipped learned controllers are left out here: they were trained on digits "
                "and circles. The profiles paper and full run them on features of CIFAR-10."
            )
        return said


def _last(results: Results, name: str) -> float:
    """Mean iterations to the last level; infinity if a pair never gets there."""
    reach = results.over_seeds("pairs", "reach", name)[..., -1]
    return float(np.where(np.isnan(reach), np.inf, reach).mean())


def _counts(results: Results, name: str) -> list[str]:
    """Median iterations of a solver to each level."""
    reach = results.over_seeds("pairs", "reach", name)
    return [median_text(reach[..., k].ravel()) for k in range(len(LEVELS))]


def _pairs(config: Cifar2Config, seed: int) -> dict[str, Any]:
    """Solvers on the held-out pairs of cifar2, in double precision."""
    data = load(config.data)
    x = data.train()[0].reshape(len(data.y), -1).astype(np.float64)
    parts = splits(data.y, (0.3, 0.3, 0.4), seed=seed)
    pairs = list(combinations(range(len(data.classes)), 2))[1:][: config.pairs]
    problem = Pairs(config, x, data.y, parts.test).problem(pairs, np.random.default_rng(seed))
    best = optimum(problem)
    excess, reach = {}, {}
    for name, (solver, together) in _solvers(config).items():
        values = _values(problem, solver, together)  # (steps + 1, pairs)
        relative = np.maximum((values - best) / best, 1e-12)
        excess[name] = relative.mean(1)
        reach[name] = [[reached(r, level) for level in LEVELS] for r in relative.T]
    return {"excess": excess, "reach": reach}


def _solvers(config: Cifar2Config) -> dict[str, tuple[FrankWolfe, bool]]:
    """Solvers, and whether all pairs are solved in one batch: small programmes over hulls are not.

    The shipped controllers take part if they never saw the data.
    """
    simplex, soft = Simplex(), Softmin(10.0, relative=True, growth=0.5)
    every: Budgets = {"max_steps": config.steps, "tol": 0.0}
    few: Budgets = {"max_steps": min(config.steps, 40), "tol": 0.0}
    solvers: dict[str, tuple[FrankWolfe, bool]] = {
        PAPERS: (FrankWolfe(simplex, oracle=Softmin(config.beta), **every), True),
        "FWNet, relative annealed β": (
            FrankWolfe(simplex, OpenLoop(30.0), oracle=soft, **every),
            True,
        ),
        "pairwise, second order": (PairwiseFrankWolfe(simplex, second_order=True, **every), True),
        "corrective": (Corrective(simplex, **few), False),
    }
    if config.data not in _SEEN:
        for name, together in SHIPPED.items():
            budget = every if together else few
            steered = learned.load(name).solver(simplex, **budget)
            solvers[f"learned: {name}"] = (steered, together)
    return solvers


def _values(
    problem: SVMDual, solver: FrankWolfe, together: bool
) -> np.ndarray:  # (steps + 1, pairs)
    """f at every iterate, in one batch or one problem after the other."""
    if together:
        return solver(problem).trace.column("value")
    kernel = problem.form.matrix
    assert isinstance(kernel, DenseMap)
    columns = [solver(Quadratic(Q)).trace.column("value") for Q in kernel.matrix]
    steps = max(map(len, columns))  # a stalled run stays where it is
    return np.stack([np.pad(c, (0, steps - len(c)), mode="edge") for c in columns], 1)


def _rings(config: CirclesConfig, seed: int) -> dict[str, Any]:
    """DeepSVC in its three modes."""
    data = load("circles", seed=seed)
    x, y = data.x[: config.points], data.y[: config.points]
    updates = config.steps // 5  # an exact solve is worth many steps
    out = {}
    for mode in ("exact", "forward", "unrolled"):
        fit = DeepSVC(
            rings_net, mode=mode, lr=0.05, max_iter=updates, check_every=5, random_state=seed
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


def _images(config: MnistConfig, seed: int) -> dict[str, Any]:
    """fwnet.optim against Adam, each with the learning rate that was best on other images."""
    meta, held, train, test = split_images(config, seed)
    held, net = held.head(config.test_points), network(config, meta, seed)
    makers: dict[str, Callable[[nn.Module, float], torch.optim.Optimizer]] = {
        "fwnet.optim, tuned": _soft_trace_norm,
        "Adam, tuned": lambda net, lr: torch.optim.Adam(net.parameters(), lr=lr),
    }
    out = {}
    for name, make in makers.items():
        scores = {
            lr: float(np.mean(_accuracies(config, net, make, lr, meta, held, 0)))
            for lr in config.grid
        }
        best = max(scores, key=lambda lr: scores[lr])
        accuracy = _accuracies(config, net, make, best, train, test, seed)
        out[name] = {"accuracy": accuracy, "lr": best}
    return out


def _soft_trace_norm(net: nn.Module, lr: float) -> torch.optim.Optimizer:
    """Every dense matrix in a ball of radius 50, everything else by the optimizer's own Adam."""
    dense = [p for p in net.parameters() if p.ndim == 2]
    rest = [p for p in net.parameters() if p.ndim != 2]
    ball: dict[str, Any] = {
        "params": dense,
        "domain": TraceNormBall(50.0),
        "oracle": SoftTraceNorm(1.0),
        "rescale": "diameter",
    }
    return FrankWolfeOptimizer([ball, {"params": rest}], lr=lr)


def _accuracies(
    config: MnistConfig,
    net: nn.Module,
    make: Callable[[nn.Module, float], torch.optim.Optimizer],
    lr: float,
    train: Images,
    test: Images,
    seed: int,
) -> list[float]:
    """Accuracy on the test images at 0, every, 2·every, …"""
    net, generator = copy.deepcopy(net), torch.Generator().manual_seed(seed)
    optimizer, seen = make(net, lr), []
    for t in range(config.steps + 1):
        if t % config.every == 0:
            with torch.no_grad():
                seen.append((net(test.X).argmax(1) == test.y).float().mean().item())
        rows = torch.randint(len(train.y), (config.batch,), generator=generator)
        optimizer.zero_grad()
        cross_entropy(net(train.X[rows]), train.y[rows]).backward()
        optimizer.step()
    return seen
