"""Slots: learned slots of one solver, together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import nn

from fwnet.domains import Domain
from fwnet.learned.controllers.base import Controller, Learned
from fwnet.solvers import FrankWolfe
from fwnet.solvers.frank_wolfe import SLOTS
from fwnet.solvers.presets import Budgets


@final
class Slots(Learned):
    """Controllers in slots of a given solver, which `meta_train` trains together.

    Arguments:
        controllers: by slot, of "rule", "direction", "oracle" and "start".
        template: the solver; it keeps its budgets and the slots without a controller, and its own
            weights are not trained.

    Example:
        >>> from fwnet import learned
        >>> template = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(10.0), max_steps=5)
        >>> pair = learned.Slots(
        ...     {"rule": learned.LSTMStep(), "direction": learned.LSTMDirection()}, template
        ... )
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> pair.solver()(problem).status
        'max_steps'
    """

    def __init__(self, controllers: Mapping[str, Controller], template: FrankWolfe) -> None:
        super().__init__()
        if not isinstance(template, FrankWolfe):
            raise TypeError(
                "Slots(template), solver=... in meta_train, must be a FrankWolfe; got "
                f"{template!r}."
            )
        if not controllers:
            raise ValueError("Slots(controllers) must name at least one slot; got none.")
        for slot, controller in controllers.items():
            kind = SLOTS.get(slot)
            if kind is None:
                raise ValueError(f"a slot is one of {', '.join(SLOTS)}; got {slot!r}.")
            if not isinstance(controller, Controller) or not isinstance(controller, kind):
                raise TypeError(
                    f"the slot {slot!r} needs a Controller with the second base {kind.__name__}; "
                    f"got {controller!r}."
                )
        self.controllers = nn.ModuleDict(dict(controllers))
        vars(self)["template"] = template  # not as a submodule: its weights are not ours to train

    template: FrankWolfe

    def __getitem__(self, slot: str) -> Any:
        return self.controllers[slot]

    def fresh(self) -> Slots:
        return Slots({name: self[name].fresh() for name in self.controllers}, self.template)

    def solver(self, domain: Domain | None = None, **budgets: Any) -> FrankWolfe:
        """The template with the controllers in their slots.

        Arguments:
            domain: the template's if left out.
        """
        base = self.template
        domain = base.domain if domain is None else domain
        for controller in self.controllers.values():
            assert isinstance(controller, Controller)
            controller.check_domain(domain)
        slots = {name: getattr(base, name) for name in SLOTS} | dict(self.controllers.items())
        kept: Any = {name: getattr(base, name) for name in Budgets.__annotations__}
        return FrankWolfe(domain, slots.pop("rule"), **(kept | slots | budgets))
