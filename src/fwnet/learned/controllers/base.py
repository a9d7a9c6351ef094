"""Learned: what has weights to train; Controller: what all learned slots share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from fwnet.domains import Domain, Simplex
from fwnet.solvers import FrankWolfe
from fwnet.solvers.frank_wolfe import SLOTS

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from fwnet.solvers.presets import Budgets


class Learned(nn.Module):
    """A module that `meta_train` trains and a file can hold.

    Attributes:
        options: the arguments of its constructor, from which `load` builds it again.
        card: what its file says about it: data, horizon, validation, licence.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.card: dict[str, Any] = {}

    def fresh(self) -> Self:
        """A new one with the same options; torch's global generator draws its initial weights."""
        return type(self)(**self.options)

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


class Controller(Learned):
    """A slot with weights: a step rule, a direction, an oracle or a start that is learned.

    A controller of your own is a class with two bases, this one and the slot's (`StepRule`,
    `Direction`, `Oracle` or `Start`). It passes its arguments to `super().__init__` and answers as
    any such slot does. If it needs other slots than those of a plain `FrankWolfe`, it overrides
    `build_solver`.

        >>> class Scale(Controller, fwnet.StepRule):
        ...     domains = (Domain,)  # any
        ...
        ...     def __init__(self, first=1.0):
        ...         super().__init__(first=first)
        ...         self.scale = nn.Parameter(torch.tensor(first))
        ...
        ...     def init(self, problem, it):
        ...         return 0
        ...
        ...     def forward(self, problem, it, move, state):
        ...         return self.scale.to(it.x) * 2 / (state + 2), state + 1
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> Scale(0.5).solver(Simplex(), max_steps=3)(problem).status
        'max_steps'

    Attributes:
        domains: the kinds of domain it was made for.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (Simplex,)

    def solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        """The solver that this controller steers, with the other slots that it is made for.

        To combine it with other slots, use it as any slot: `FrankWolfe(domain, controller, …)`.
        """
        self.check_domain(domain)
        return self.build_solver(domain, **budgets)

    def build_solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        """The solver for a domain that is checked already: by default a plain `FrankWolfe`."""
        slot: Any = {slot_of(self): self}
        return FrankWolfe(domain, **slot, **budgets)

    def check_domain(self, domain: Domain) -> None:
        """Raise if it was not made for this domain, or a weight is not finite."""
        if not isinstance(domain, self.domains):
            made = " or ".join(kind.__name__ for kind in self.domains)
            raise TypeError(
                f"{type(self).__name__} was made for {made}; got {domain}. LearnedStep, "
                "LearnedPairwise and LSTMStep are for any domain; an l1 ball or a hull of few "
                "vertices can be written as a simplex, too."
            )
        self.check_weights()


def slot_of(controller: object) -> str:
    """The slot that a controller is for."""
    for slot, kind in SLOTS.items():
        if isinstance(controller, kind):
            return slot
    kinds = ", ".join(kind.__name__ for kind in SLOTS.values())
    raise TypeError(f"a controller must be a slot of a solver ({kinds}); got {controller!r}.")
