"""One file an experiment. `EXPERIMENTS` is the list that the command line and the page go by."""

from __future__ import annotations

from typing import Any

from fwnet.lab.paper.experiment import Experiment
from fwnet.lab.paper.experiments.cifar2 import Cifar2
from fwnet.lab.paper.experiments.circles import Circles
from fwnet.lab.paper.experiments.core import Core
from fwnet.lab.paper.experiments.density import Density
from fwnet.lab.paper.experiments.graphs import Graphs
from fwnet.lab.paper.experiments.manmade import Manmade
from fwnet.lab.paper.experiments.mnist import Mnist
from fwnet.lab.paper.experiments.quadrature import Quadrature
from fwnet.lab.paper.experiments.scaling import Scaling

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Cifar2(),
    Circles(),
    Manmade(),
    Mnist(),
    Density(),
    Scaling(),
    Graphs(),
    Quadrature(),
    Core(),
)
