"""Recipes of `paper-step` and `paper-direction`: the trainings of `cifar2`, the paper's Fig. 4.

Each is the training of the page's first seed, so nothing was chosen by the pairs of classes that
judge it. Training and validation see the first two of CIFAR-10's classes, with rows of their own;
the card has the 44 other pairs, with the rows of the test part. `python -m fwnet.lab.recipes
--judge paper-step` computes the card's numbers anew.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fwnet.lab.paper.configs import CIFAR2
from fwnet.lab.paper.experiment import Profile
from fwnet.lab.paper.methods import Methods, no_denormals
from fwnet.lab.paper.simplex_methods import (
    GAMMA,
    NABLA,
    OPEN,
    SEARCH,
    descent,
    hand_designed,
    parts,
    trained,
)
from fwnet.lab.paper.simplex_runs import curve
from fwnet.lab.recipes.base import SEED, Recipe
from fwnet.learned.controllers import Controller

CONFIG = CIFAR2[Profile.PAPER]
SIZE = 2 * CONFIG.per_class
TRAINED_ON = (
    f"SVM duals (linear kernel, C = {CONFIG.C:g}, {CONFIG.per_class} points of each class) of "
    "Inception features of CIFAR-10's first two classes, in every second one with up to "
    f"{CONFIG.flipped:.0%} of the labels flipped; validated on other images of these classes"
)
JUDGED = (
    "mean of (f − f*)/f* over the 44 other pairs of classes, at the end of "
    f"{CONFIG.steps} iterations and over all of them; the softmin has β = {CONFIG.beta:g}"
)


@no_denormals()
def _trained(name: str, seed: int) -> Controller:
    """The training of the page's experiment `cifar2`, of the same seed."""
    training, held, _ = parts(CONFIG, seed)
    methods = Methods({}, held, CONFIG.steps)
    found = methods.learn(name, trained(CONFIG)[name], training.draw, CONFIG.meta, seed)
    assert isinstance(found, Controller)
    return found


def _judge(name: str, controller: Controller) -> dict[str, Any]:
    """The learned optimizer against 2/(t+2) and the line search, with the same softmin."""
    test, hand = parts(CONFIG, SEED)[2], hand_designed(CONFIG)
    _, method = trained(CONFIG)[name]
    made = {"learned": method(controller), "2/(t+2)": hand[OPEN], "line search": hand[SEARCH]}
    table = {}
    for text, each in made.items():
        away = curve(descent(each, test), CONFIG.steps).mean(0)
        table[text] = {"end": round(away[-1].item(), 4), "area": round(away.mean().item(), 4)}
    return table


def _recipe(name: str, how: str) -> Recipe:
    horizon, size = (CONFIG.steps, CONFIG.steps), (SIZE, SIZE)
    train, judge = partial(_trained, name), partial(_judge, name)
    return Recipe(how, train, judge, TRAINED_ON, horizon, size, JUDGED, CONFIG.meta)


THROUGH = "Back-propagation of Σ f(x_t) through 20 of 200 steps, "
RECIPES = {
    "paper-step": _recipe(GAMMA, THROUGH + "with the softmin of β = 10."),
    "paper-direction": _recipe(NABLA, THROUGH + "γ = 2/(t + 2)."),
}
