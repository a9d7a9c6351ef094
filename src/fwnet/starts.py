"""Start: where to begin; a slot that may hold weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.problems import Problem


class Start(nn.Module, ABC):
    """Chooses x_0, where a solver is given none."""

    @abstractmethod
    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        """A point of the domain, `(*batch, *shape)`."""
