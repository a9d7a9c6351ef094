"""Away, Pairwise and Blended: directions that know which atoms x is made of.

Each writes its move as one formula with a switch per problem, so a batch takes different kinds
of step side by side:

    d = scale · x + Σ c_k v_k
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from fwnet.directions.base import Direction, image_if_kept
from fwnet.domains import Domain
from fwnet.iterates import ActiveSet, Iterate, Move, Term
from fwnet.numerics.tensors import is_read, taken
from fwnet.oracles import Linearization
from fwnet.problems import Problem


@final
class Away(Direction):
    """Toward the best vertex, or away from the worst atom, whichever promises more.

        d = s − x  or  x − a,   a = argmax over atoms of ⟨∇f(x), a⟩,   γ <= λ_a / (1 − λ_a)

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> FrankWolfe(Simplex(), LineSearch(), direction=Away(), tol=1e-4)(problem).status
        'converged'

    Reference: Guélat and Marcotte (1986); Lacoste-Julien and Jaggi (2015).
    """

    keeps_atoms = True
    line_search = True

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.active is not None
        worst, cost = it.active.extreme(lin.gradient, largest=True)
        retreat = cost - lin.along  # ⟨g, a − x⟩
        weight = it.active.weight_of(worst)
        rest = 1 - weight
        # Away from an atom that is nearly all of x: (x − λa) / (1 − λ) would be rounding.
        whole = rest < torch.finfo(weight.dtype).eps ** (1 / 3)
        forward = (lin.decrease >= retreat) | whole
        limit = weight / torch.where(whole, 1.0, rest)
        switch = _Switch(problem, it, lin)
        switch.toward(forward)
        switch.atom(worst, ~forward, -1.0)
        slope = -torch.where(forward, lin.decrease, retreat)
        return switch.move(slope, torch.where(forward, 1.0, limit), along_x=~forward), state


@final
class Pairwise(Direction):
    """From the worst atom straight to the best vertex.

        d = s − a,   γ <= λ_a

    Arguments:
        second_order: choose a by the decrease that its own line search would give, as SMO does,
            instead of by the gradient only. Needs a quadratic problem.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> direction = Pairwise(second_order=True)
        >>> FrankWolfe(Simplex(), LineSearch(), direction=direction, tol=1e-4)(problem).status
        'converged'

    Reference: Lacoste-Julien and Jaggi (2015); Fan, Chen and Lin (2005) for the second order.
    """

    keeps_atoms = True
    line_search = True

    def __init__(self, second_order: bool = False) -> None:
        super().__init__()
        self.second_order = second_order

    def extra_repr(self) -> str:
        return f"second_order={self.second_order}"

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        if self.second_order and not problem.quadratic:
            raise TypeError(
                f"Pairwise(second_order=True) needs a quadratic problem; {type(problem).__name__} "
                "is not. Use second_order=False."
            )

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.active is not None
        switch = _Switch(problem, it, lin)
        best = lin.along - lin.decrease  # ⟨g, s⟩
        if self.second_order:
            worst, cost = self._partner(problem, switch, best)
        else:
            worst, cost = it.active.extreme(lin.gradient, largest=True)
        limit = it.active.weight_of(worst)
        switch.vertex(1.0)
        switch.atom(worst, None, -1.0)
        return switch.move(best - cost, limit), state

    def _partner(self, problem: Problem, switch: _Switch, best: Tensor) -> tuple[Tensor, Tensor]:
        """argmax over atoms a of the decrease of f along s − a, at its best feasible step."""
        lin, active = switch.lin, switch.active
        image = switch.vertex_image()
        product = problem.hessian_vertex(lin.vertex, image)
        assert product is not None
        if active.curvatures is None:
            active = replace(active, curvatures=problem.curvatures(active.atoms))
        assert active.curvatures is not None
        own = lin.vertex.inner(product)
        costs = active.atoms.inner(lin.gradient)
        curvature = active.curvatures + own.unsqueeze(-1) - 2 * active.atoms.inner(product)
        gain = (costs - best.unsqueeze(-1)).clamp_min(0)
        step = torch.minimum(gain / curvature.clamp_min(1e-30), active.weights)
        decrease = step * (gain - 0.5 * step * curvature)
        # An atom is never its own partner; rounding could make its gain look positive.
        barred = ~active.used | active.same(lin.vertex)
        slot = decrease.masked_fill(barred, -1.0).argmax(-1)
        switch.active, switch.curvature = active, own
        return slot, taken(costs, slot)


@final
class Blended(Direction):
    """Pairwise steps among the atoms while they promise enough, else a new vertex.

        ⟨g, a − l⟩ >= gap:  d = l − a, both atoms;   else  d = s − x

    Sparser than pairwise: a vertex joins only when the atoms are used up.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> FrankWolfe(Simplex(), LineSearch(), direction=Blended(), tol=1e-4)(problem).status
        'converged'

    Reference: Tsuji, Tanaka and Pokutta, Pairwise conditional gradients without swap steps (2022).
    """

    keeps_atoms = True
    line_search = True

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        assert it.active is not None
        gradient = lin.gradient
        worst, high = it.active.extreme(gradient, largest=True)
        local, low = it.active.extreme(gradient, largest=False)
        swap = high - low >= lin.decrease
        switch = _Switch(problem, it, lin)
        switch.toward(~swap)
        switch.atom(local, swap, 1.0)
        switch.atom(worst, swap, -1.0)
        slope = -torch.where(swap, high - low, lin.decrease)
        limit = torch.where(swap, it.active.weight_of(worst), 1.0)
        return switch.move(slope, limit), state


class _Switch:
    """Collects the terms of a move, some of which only some problems of a batch take."""

    def __init__(self, problem: Problem, it: Iterate, lin: Linearization) -> None:
        assert it.active is not None
        self.problem, self.it, self.lin = problem, it, lin
        self.active: ActiveSet = it.active
        self.scale: Tensor | float = 0.0
        self.terms: list[Term] = []
        self.curvature: Tensor | None = None
        self._image: Tensor | None = None

    def vertex_image(self) -> Tensor | None:
        """A s, once."""
        if self._image is None:
            self._image = image_if_kept(self.problem, self.it, self.lin.vertex)
        return self._image

    def vertex(self, coefficient: Tensor | float) -> None:
        """The oracle's vertex, given a slot in the active set."""
        self.active, slot = self.active.holding(self.lin.vertex, self.curvature)
        self.terms.append(Term(coefficient, self.lin.vertex, self.vertex_image(), slot))

    def toward(self, where: Tensor) -> None:
        """+ s − x where the switch is on."""
        if where.ndim == 0 and is_read(where):  # one problem: take the branch
            if bool(where):
                self.scale = -1.0
                self.vertex(1.0)
        elif not is_read(where) or bool(where.any()):
            self.scale = -where.to(self.it.x.dtype)
            self.vertex(where.to(self.it.x.dtype))

    def atom(self, slot: Tensor, where: Tensor | None, sign: float) -> None:
        """± an atom of the set where the switch is on."""
        coefficient: Tensor | float = sign
        if where is not None:
            if is_read(where) and not bool(where.any()):
                return
            if where.ndim or not is_read(where):
                coefficient = sign * where.to(self.it.x.dtype)
        atom = self.it.active.atoms.select(slot) if self.it.active else None
        assert atom is not None
        self.terms.append(Term(coefficient, atom, image_if_kept(self.problem, self.it, atom), slot))

    def move(self, slope: Tensor, limit: Tensor | float, along_x: Tensor | None = None) -> Move:
        """The move; `along_x` says where +x is part of the direction."""
        scale = self.scale
        if along_x is not None:
            one = along_x.ndim == 0 and is_read(along_x)
            if not one:
                scale = scale + along_x.to(self.it.x.dtype)
            elif bool(along_x):
                scale = 1.0
        it = replace(self.it, active=self.active)
        return Move(it, scale, tuple(self.terms), self.lin.value, slope, limit)
