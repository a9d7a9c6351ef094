"""Start: where to begin."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.problems import Problem


class Start(nn.Module, ABC):
    """Chooses x_0 for a solve without a given one; a slot that may hold weights.

    Example:
        >>> class First(Start):
        ...     def forward(self, problem, domain):
        ...         return torch.eye(3)[0]
        ...
        >>> FrankWolfe(Simplex(), start=First(), max_steps=0)(Quadratic(torch.eye(3))).x
        tensor([1., 0., 0.])
    """

    @abstractmethod
    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        """A point of the domain, `(*batch, *shape)`."""
