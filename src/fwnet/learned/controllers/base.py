"""Controller: what all learned slots share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from fwnet.domains import Domain, Simplex
from fwnet.solvers import FrankWolfe

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets


class Controller(nn.Module, ABC):
    """A slot with weights: a step rule, a direction, an oracle or a start that is learned.

    Attributes:
        domains: the kinds of domain it was made for.
        options: the arguments it was built from, which is how a file builds it again.
        card: what its file says about it: data, horizon, validation, licence.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (Simplex,)

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.card: dict[str, Any] = {}

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        """The solver that this controller steers, with its other slots as in training."""
        self.check_domain(domain)
        return self._solver(domain, **budgets)

    @abstractmethod
    def _solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        """The same, for a domain that fits."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def check_weights(self) -> None:
        """Raise if a weight is NaN or infinite: no step could be trusted."""
        for name, weight in self.named_parameters():
            if not bool(torch.isfinite(weight).all()):
                raise ValueError(
                    f"{type(self).__name__} has a NaN or infinite weight in {name!r}; load it "
                    "again, or train it anew with a smaller learning rate."
                )

    def check_domain(self, domain: Domain) -> None:
        """Raise if it was not made for this domain, or its weights are broken."""
        if not isinstance(domain, self.domains):
            made = " or ".join(kind.__name__ for kind in self.domains)
            raise TypeError(
                f"{type(self).__name__} was made for {made}; got {domain}. Use a hand-designed "
                "slot there, or meta_train one."
            )
        self.check_weights()
