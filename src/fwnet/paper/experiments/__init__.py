"""One file an experiment. `EXPERIMENTS` is the list that the command line and the page go by."""

from __future__ import annotations

from typing import Any

from fwnet.paper.experiment import Experiment
from fwnet.paper.experiments.beyond import Beyond
from fwnet.paper.experiments.cifar2 import Cifar2
from fwnet.paper.experiments.circles import Circles
from fwnet.paper.experiments.core import Core
from fwnet.paper.experiments.density import Density
from fwnet.paper.experiments.manmade import Manmade
from fwnet.paper.experiments.mnist import Mnist

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Cifar2(),
    Circles(),
    Manmade(),
    Mnist(),
    Density(),
    Beyond(),
    Core(),
)
