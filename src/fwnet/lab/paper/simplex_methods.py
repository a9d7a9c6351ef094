"""The methods for SVM duals over the simplex that cifar2 compares, and its problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, final

import numpy as np
import torch

from fwnet import learned
from fwnet.data import load, splits
from fwnet.directions import Direction
from fwnet.domains import Simplex
from fwnet.lab.paper.configs import Cifar2Config
from fwnet.lab.paper.methods import Method, Version, draw_seed
from fwnet.lab.paper.simplex_runs import (
    Cell,
    Descent,
    Lagrangian,
    Reparameterised,
    SimplexDescent,
    SimplexTasks,
)
from fwnet.lab.paper.updates import Adam, GradientDescent
from fwnet.oracles import Softmin
from fwnet.problems import SVMDual
from fwnet.solvers import Corrective, FrankWolfe
from fwnet.steps import Constant, LineSearch, OpenLoop, StepRule

CONSTANT, OPEN, SEARCH = "FWNet γ = 0.01", "FWNet 2/(t+2)", "FWNet line search"
GAMMA, NABLA, L2L, L2L_LAGRANGIAN = "L2LC_γ", "L2LC_∇", "L2L", "L2L Lagrangian"
HAND = (CONSTANT, OPEN, SEARCH)
FWNETS = (*HAND, GAMMA, NABLA)
UNTUNED = ("GD", "Adam reparameterised", "Adam Lagrangian")
TUNED = ("GD, tuned", "Adam reparameterised, tuned", "Adam Lagrangian, tuned")
UNCONSTRAINED = (L2L, L2L_LAGRANGIAN)
OURS_TUNED = "FWNet, tuned"
TODAY = ("fwnet: corrective", "fwnet: learned direction")
ADAPTIVE = {"2/(t+2)": OPEN, "line search": SEARCH}  # two readings of "adaptive step size"
_SEEN = ("digits", "circles")  # the shipped controllers were trained on these
FIRST = (0, 1)  # the pair that optimizers are trained on


@final
class Pairs:
    """Problems of pairs of classes, from one part of the rows.

    Every second problem of the first pair, whose optimizers must do for all pairs, has some labels
    flipped: it is harder, with more support vectors, as a pair of classes that look alike.
    """

    def __init__(self, config: Cifar2Config, x: np.ndarray, y: np.ndarray, rows: np.ndarray):
        self.config, self.x, self.y, self.rows = config, x, y, rows
        counts = [int((y[rows] == label).sum()) for label in np.unique(y)]
        self.per_class = min(config.per_class, *counts)

    def problem(
        self, pairs: Sequence[tuple[int, int]], flipped: np.ndarray, generator: np.random.Generator
    ) -> SVMDual:
        """One SVM a pair, each on a fresh draw of its rows, a share of their labels flipped."""
        kernels, labels, signs = [], [], np.repeat([1.0, -1.0], self.per_class)
        for pair, share in zip(pairs, flipped, strict=True):
            chosen = [
                generator.permutation(self.rows[self.y[self.rows] == label])[: self.per_class]
                for label in pair
            ]
            x = torch.from_numpy(self.x[np.concatenate(chosen)])
            kernels.append(x @ x.T)
            labels.append(np.where(generator.random(len(signs)) < share, -signs, signs))
        y = torch.tensor(np.stack(labels), dtype=torch.float32)
        return SVMDual(torch.stack(kernels), y, C=self.config.C)

    def others(self, pairs: Sequence[tuple[int, int]], seed: int) -> SimplexTasks:
        """Problems of other pairs, with their optima."""
        generator = np.random.default_rng(seed)
        return SimplexTasks.solved(self.problem(pairs, np.zeros(len(pairs)), generator))

    def held(self, seed: int) -> SimplexTasks:
        """Problems of the first pair, with their optima."""
        count = self.config.held
        shares = np.linspace(0, self.config.flipped, count) * (np.arange(count) % 2)
        generator = np.random.default_rng(seed)
        return SimplexTasks.solved(self.problem([FIRST] * count, shares, generator))

    def draw(self, generator: torch.Generator) -> SimplexTasks:
        """An episode: fresh draws of the first pair; their optima are not needed."""
        rows, count = np.random.default_rng(draw_seed(generator)), self.config.batch
        shares = rows.uniform(0, self.config.flipped, count) * (np.arange(count) % 2)
        problem = self.problem([FIRST] * count, shares, rows)
        return SimplexTasks(problem, torch.ones(count, dtype=torch.float64))


def parts(config: Cifar2Config, seed: int) -> tuple[Pairs, SimplexTasks, SimplexTasks]:
    """Rows to train on; held-out problems of the first pair; the other pairs: no row in two."""
    data = load(config.data)
    x = data.train()[0].reshape(len(data.y), -1)
    rows = splits(data.y, (0.3, 0.3, 0.4), seed=seed)  # raises unless disjoint
    others = list(combinations(range(len(data.classes)), 2))[1:][: config.pairs]
    held = Pairs(config, x, data.y, rows.optimizer).held(seed)
    test = Pairs(config, x, data.y, rows.test).others(others, seed)
    return Pairs(config, x, data.y, rows.optimizee), held, test


def fwnet_method(
    config: Cifar2Config,
    rule: StepRule,
    beta: float | None = None,
    direction: Direction | None = None,
) -> Method:
    """Frank-Wolfe cells with the paper's softmin, or with another β."""
    oracle = Softmin(config.beta if beta is None else beta)
    cell = Cell(FrankWolfe(Simplex(), rule, oracle=oracle, direction=direction))
    return lambda tasks: SimplexDescent(tasks, cell)


def unconstrained(coordinates: Any, updates: Any) -> Method:
    """An optimizer in unconstrained coordinates of the simplex."""
    return lambda tasks: SimplexDescent(tasks, Descent(coordinates, updates))


def hand_designed(config: Cifar2Config) -> dict[str, Method]:
    """Methods with the paper's constants."""
    rules = {CONSTANT: Constant(0.01), OPEN: OpenLoop(), SEARCH: LineSearch()}
    return {name: fwnet_method(config, rule) for name, rule in rules.items()} | {
        "GD": unconstrained(Reparameterised(), GradientDescent(config.lr)),
        "Adam reparameterised": unconstrained(Reparameterised(), Adam(config.lr)),
        "Adam Lagrangian": unconstrained(Lagrangian(), Adam(config.lr)),
    }


def tuned(config: Cifar2Config) -> dict[str, dict[str, Method]]:
    """What each tuned run chooses from, by a text that says which."""
    rules = {"2/(t+2)": OpenLoop(), "line search": LineSearch()}
    baselines: tuple[tuple[Any, Callable[[float], Any], Sequence[float]], ...] = (
        (Reparameterised(), GradientDescent, config.gd_grid),
        (Reparameterised(), Adam, config.adam_grid),
        (Lagrangian(), Adam, config.adam_grid),
    )
    return {
        OURS_TUNED: {
            f"β = {beta:g}, {text}": fwnet_method(config, rule, beta)
            for beta in config.betas
            for text, rule in rules.items()
        }
    } | {
        name: {f"lr = {lr:g}": unconstrained(coordinates, kind(lr)) for lr in rates}
        for name, (coordinates, kind, rates) in zip(TUNED, baselines, strict=True)
    }


def trained(config: Cifar2Config) -> dict[str, Version]:
    """What is trained, and the method with it.

    L2L moves the logits of α, or θ of the Lagrangian, by an LSTM; both are directions that are
    taken at full length.
    """
    direction = partial(learned.LSTMDirection, preprocess=True, beta=config.beta)

    def with_direction(rule: StepRule) -> Callable[[Direction], Method]:
        return lambda found: fwnet_method(config, rule, direction=found)

    lagrangian = partial(learned.L2LLagrangian, multiplier=1.0)
    return {
        GAMMA: (partial(learned.LSTMStep, beta=config.beta), partial(fwnet_method, config)),
        NABLA: (direction, with_direction(OpenLoop())),
        L2L: (learned.L2LSoftmax, with_direction(Constant(1.0))),
        L2L_LAGRANGIAN: (lagrangian, with_direction(Constant(1.0))),
    }


def of_today(config: Cifar2Config) -> dict[str, FrankWolfe]:
    """What the library has for such problems: a hand-designed solver and a shipped controller."""
    budget: Any = {"max_steps": config.steps, "tol": 0.0}
    solvers: dict[str, FrankWolfe] = {TODAY[0]: Corrective(Simplex(), **budget)}
    if config.data not in _SEEN:
        solvers[TODAY[1]] = learned.load("simplex-qp").solver(Simplex(), **budget)
    return solvers


def values(solver: FrankWolfe, tasks: SimplexTasks) -> np.ndarray:  # (pairs, steps + 1)
    """(f − f*)/f* at every iterate; a run that ended early stays where it is."""
    values = solver(tasks.problem).trace.column("value").astype(np.float64)
    best = tasks.best.numpy()
    short = solver.max_steps + 1 - len(values)
    values = np.pad(values, ((0, max(0, short)), (0, 0)), mode="edge")[: solver.max_steps + 1]
    return ((values - best) / best).T


def descent(method: Method, tasks: SimplexTasks) -> SimplexDescent:
    """A run of a method on the tasks."""
    run = method(tasks)
    assert isinstance(run, SimplexDescent)
    return run
