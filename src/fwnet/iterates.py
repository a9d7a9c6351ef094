"""The iterate with its cached image, and the move that takes it to the next one.

One law moves the point, its image and its weights alike, because all three are linear in x:

    x       <- (1 + γ·scale) x       + γ Σ c_k v_k
    Ax      <- (1 + γ·scale) Ax      + γ Σ c_k A v_k
    weights <- (1 + γ·scale) weights + γ Σ c_k e_slot(k)

Toward a vertex: scale −1, c = 1. Away from an atom: scale +1, c = −1. Pairwise: scale 0, c = ±1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from fwnet.active_set import ActiveSet
from fwnet.numerics.scaling import expand, rescaled
from fwnet.vertices import Vertex


@final
@dataclass(frozen=True, eq=False)
class Iterate:
    """x, its image Ax (None where the problem has none), and the active set if one is kept."""

    x: Tensor  # (*batch, *shape)
    image: Tensor | None = None
    active: ActiveSet | None = None


@final
@dataclass(frozen=True, eq=False)
class Term:
    """c · v: a vertex in a move, its image, and its slot in the active set."""

    coefficient: Tensor | float
    vertex: Vertex
    image: Tensor | None = None
    slot: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Move:
    """A segment from an iterate: x + γ d for γ in [0, max_step], d = scale · x + Σ c_k v_k.

    Arguments:
        it: where it starts.
        scale: how much of x itself is in d: −1, 0, 1, or a tensor `(*batch,)`.
        terms: the vertices in d.
        value: f(x).
        slope: ⟨∇f(x), d⟩, negative for a descent direction.
        max_step: the largest feasible step size.
    """

    it: Iterate
    scale: Tensor | float
    terms: tuple[Term, ...]
    value: Tensor
    slope: Tensor
    max_step: Tensor | float = 1.0

    @property
    def direction(self) -> Tensor:
        """d as a tensor, computed once."""
        return self._make_direction() if torch.compiler.is_compiling() else self._direction

    @property
    def image(self) -> Tensor:
        """A d, from the images that are known, computed once."""
        return self._make_image() if torch.compiler.is_compiling() else self._image

    @cached_property
    def _direction(self) -> Tensor:  # a compiler shares equal terms, and cannot trace the cache
        return self._make_direction()

    @cached_property
    def _image(self) -> Tensor:
        return self._make_image()

    def _make_direction(self) -> Tensor:
        x = self.it.x
        batch = self.slope.ndim
        direction = expand(self.scale, x.ndim - batch) * x
        for term in self.terms:
            direction = term.vertex.add_to(direction, term.coefficient)
        return direction

    def _make_image(self) -> Tensor:
        z = self.it.image
        assert z is not None
        parts = [(term.coefficient, term.image) for term in self.terms]
        return _combination([*parts, (self.scale, z)], z.ndim - self.slope.ndim)

    def point(self, step_size: Tensor) -> Tensor:
        """x + γ d."""
        x = self.it.x
        dims = x.ndim - self.slope.ndim
        x = rescaled(x, self.scale, step_size, dims)
        for term in self.terms:
            plain = not isinstance(term.coefficient, Tensor) and term.coefficient == 1
            x = term.vertex.add_to(x, step_size if plain else step_size * term.coefficient)
        return x

    def trial(self, step_size: Tensor) -> Iterate:
        """The iterate at x + γ d with its image, for a rule that looks ahead."""
        z = self.it.image
        if z is not None:
            z = torch.addcmul(z, expand(step_size, z.ndim - self.slope.ndim), self.image)
        return Iterate(self.point(step_size), z)

    def arrive(self, step_size: Tensor) -> Iterate:
        """The iterate at x + γ d, with its image and its active set."""
        there, active = self.trial(step_size), self.it.active
        if active is None:
            return there
        slots = [(t.slot, t.coefficient) for t in self.terms if t.slot is not None]
        return Iterate(there.x, there.image, active.moved(self.scale, slots, step_size))


def _combination(parts: list[tuple[Tensor | float, Tensor | None]], dims: int) -> Tensor:
    """Σ c · tensor, without multiplying by 0 and ±1."""
    total: Tensor | None = None
    for coefficient, tensor in parts:
        assert tensor is not None
        if isinstance(coefficient, float) and coefficient == -1 and total is not None:
            total = total - tensor
        elif isinstance(coefficient, Tensor) or coefficient != 0:
            same = isinstance(coefficient, float) and coefficient == 1
            part = tensor if same else expand(coefficient, dims) * tensor
            total = part if total is None else total + part
    assert total is not None
    return total
