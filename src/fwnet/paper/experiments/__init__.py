"""One file an experiment. `EXPERIMENTS` is the list that the command line and the page go by."""

from __future__ import annotations

from typing import Any

from fwnet.paper.experiment import Experiment
from fwnet.paper.experiments.core import Core

EXPERIMENTS: tuple[Experiment[Any], ...] = (Core(),)
