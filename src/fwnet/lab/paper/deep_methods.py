"""The methods for deep SVMs that circles and manmade share."""

from __future__ import annotations

import copy
import math
from functools import partial

from torch import nn

from fwnet.directions import Direction
from fwnet.domains import Simplex
from fwnet.lab.paper.configs import DeepConfig
from fwnet.lab.paper.deep_svm import DeepTraining, ExactSVM
from fwnet.lab.paper.methods import Method, Version
from fwnet.lab.paper.simplex_runs import Cell
from fwnet.lab.paper.updates import Adam
from fwnet.learned import LSTMDirection, LSTMStep, LSTMUpdates
from fwnet.learned.networks import Updates
from fwnet.oracles import Softmin
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant, LineSearch, OpenLoop, StepRule

FWNET, OPEN, SEARCH = "FWNet", "FWNet 2/(t+2)", "FWNet line search"
HAND = (FWNET, OPEN, SEARCH)
TUNED, TODAY = "FWNet, tuned", "fwnet: exact SVM"
TODAY_KERNEL = "fwnet: exact SVM, learned kernel"
GAMMA, GAMMA_KERNEL, NABLA_KERNEL = "L2LC_γ", "L2LC_γ + kernel", "L2LC_∇ + kernel"
ADAPTIVE = {"2/(t+2)": OPEN, "line search": SEARCH}  # two readings of "adaptive step size"


def deep_method(
    config: DeepConfig, rule: StepRule, updates: Updates, direction: Direction | None = None
) -> Method:
    """One Frank-Wolfe cell and one update of the networks an iteration."""
    solver = FrankWolfe(Simplex(), rule, oracle=Softmin(config.beta), direction=direction)
    return lambda svm: DeepTraining(svm, Cell(solver), updates)


def hand_designed(config: DeepConfig) -> dict[str, Method]:
    """The paper's FWNet, and two readings of an adaptive step size."""
    rules = (Constant(config.step_size), OpenLoop(), LineSearch())
    adam = Adam(config.lr)
    return {n: deep_method(config, rule, adam) for n, rule in zip(HAND, rules, strict=True)}


def tuned(config: DeepConfig) -> dict[str, dict[str, Method]]:
    """What the tuned FWNet and the library's own method choose from."""
    return {
        TUNED: {
            f"γ = {step:g}, lr = {lr:g}": deep_method(config, Constant(step), Adam(lr))
            for step in config.step_sizes
            for lr in config.lr_grid
        },
        TODAY: {
            f"lr = {lr:g}": partial(DeepTraining, mover=ExactSVM(), updates=Adam(lr))
            for lr in config.lr_grid
        },
    }


def learned(config: DeepConfig, *names: str) -> dict[str, Version]:
    """What is trained: the step size; it and the kernel."""

    def step() -> nn.Module:
        return step_near(config.step_size)

    every: dict[str, Version] = {
        GAMMA: (step, lambda rule: deep_method(config, rule, Adam(config.lr))),
        GAMMA_KERNEL: (
            lambda: nn.ModuleList([step(), LSTMUpdates(scale=config.scale)]),
            lambda two: deep_method(config, two[0], two[1]),
        ),
    }
    return {name: every[name] for name in names}


def direction_and_kernel(config: DeepConfig, step_size: float, kernel: nn.Module) -> Version:
    """The direction, with a constant γ, and the kernel, whose LSTM begins as one that is trained.

    That one was trained beside the step size, whose α is nearly uniform: it had to move the kernel
    farther for the same loss than it would beside a good direction.
    """

    def begin() -> nn.Module:
        direction = LSTMDirection(preprocess=True, beta=config.beta)
        return nn.ModuleList([direction, copy.deepcopy(kernel)])

    return begin, lambda two: deep_method(config, Constant(step_size), two[1], two[0])


def step_near(step_size: float) -> LSTMStep:
    """An LSTM that begins near the γ of FWNet: γ = σ(answer), and its bias is logit(γ)."""
    rule = LSTMStep()
    nn.init.constant_(rule.network.head.bias, math.log(step_size / (1 - step_size)))
    return rule
