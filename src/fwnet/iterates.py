"""The iterate with its cached image, and the move that takes it to the next one.

One law moves the point, its image and its weights, because all three are linear in x:

    x       <- (1 + γ·scale) x       + γ Σ c_k v_k
    Ax      <- (1 + γ·scale) Ax      + γ Σ c_k A v_k
    weights <- (1 + γ·scale) weights + γ Σ c_k e_slot(k)

Toward a vertex: scale −1, c = 1. Away from an atom: scale +1, c = −1. Pairwise: scale 0, c = ±1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import threshold

from fwnet.numerics.tensors import (
    ImplicitMatrix,
    expand,
    is_plain,
    is_read,
    once,
    rescaled,
    taken,
)
from fwnet.vertices import Vertex, as_dense


@final
@dataclass(frozen=True, eq=False)
class ActiveSet:
    """x = Σ_k weights_k · atom_k, weights on the unit simplex, one set for each problem.

    A slot of weight 0 is free for the next new atom.

    Arguments:
        atoms: `(*batch, K)`, all in one vertex object.
        weights: `(*batch, K)`.
        curvatures: ⟨v, ∇²f v⟩ of each atom, kept for the second-order choice of a partner.
        spare: how many slots are certainly free, where looking for one would wait for a device.

    Example:
        >>> problem = LeastSquares(torch.eye(3), torch.tensor([0.5, 0.5, -1.0]))
        >>> result = PairwiseFrankWolfe(Simplex(), tol=1e-4)(problem)
        >>> result.active.weights[result.active.used]
        tensor([0.5000, 0.5000])
        >>> result.active.point()
        tensor([0.5000, 0.5000, 0.0000])
    """

    atoms: Vertex
    weights: Tensor
    curvatures: Tensor | None = None
    spare: int = 0

    @property
    def used(self) -> Tensor:
        """Which slots hold an atom: bool `(*batch, K)`."""
        return self.weights > 0

    def point(self) -> Tensor:
        """x, recomputed from the atoms."""
        return self.atoms.combine(self.weights)

    def extreme(self, cost: Tensor | ImplicitMatrix, largest: bool) -> tuple[Tensor, Tensor]:
        """Slot and ⟨cost, atom⟩ of the atom with the largest (or smallest) inner product."""
        values = self.atoms.inner(cost).masked_fill(
            self.weights <= 0, -torch.inf if largest else torch.inf
        )
        best = values.max(-1) if largest else values.min(-1)
        return best.indices, best.values

    def weight_of(self, slot: Tensor) -> Tensor:
        """The weight in a slot: `(*batch,)`."""
        return taken(self.weights, slot)

    def holding(self, vertex: Vertex, curvature: Tensor | None = None) -> tuple[ActiveSet, Tensor]:
        """A set with a slot for `vertex`, and that slot: the one that holds it, or a free one."""
        if not _alike(self.atoms, vertex):
            vertex = as_dense(vertex)
            if not _alike(self.atoms, vertex):
                return replace(self, atoms=as_dense(self.atoms)).holding(vertex, curvature)
        match = self.atoms.same_as(vertex)
        found, slot = match.max(-1)
        if is_read(found):
            if bool(found.all()):
                return self, slot
            slot = torch.where(found, slot, self.weights.argmin(-1))
            if bool((~found & (taken(self.weights, slot) > 0)).any()):
                return self._grown().holding(vertex, curvature)
        elif self.spare == 0:
            return self._counted().holding(vertex, curvature)
        else:
            slot = torch.where(found, slot, self.weights.argmin(-1))
        atoms = self.atoms.each(lambda kept, _, new: _write(kept, new, slot), vertex.as_atoms())
        curvatures = self.curvatures
        if curvatures is not None and curvature is not None:
            curvatures = _write(curvatures, curvature.unsqueeze(-1), slot)
        return ActiveSet(atoms, self.weights, curvatures, max(0, self.spare - 1)), slot

    def same(self, vertex: Vertex) -> Tensor:
        """Which slots hold exactly this vertex: bool `(*batch, K)`."""
        if _alike(self.atoms, vertex):
            return self.atoms.same_as(vertex)
        return as_dense(self.atoms).same_as(as_dense(vertex))

    def moved(
        self,
        scale: Tensor | float,
        terms: Sequence[tuple[Tensor, Tensor | float]],
        step_size: Tensor,
    ) -> ActiveSet:
        """The weights after a step: (1 + γ·scale) weights + γ Σ c_k e_slot(k)."""
        weights = rescaled(self.weights, scale, step_size, 1)
        for slot, coefficient in terms:
            amount = step_size * coefficient
            if is_plain(slot):
                weights[slot].add_(amount)
            else:
                weights = weights.scatter_add(-1, slot.unsqueeze(-1), amount.unsqueeze(-1))
        # A dropped atom leaves a rounding error of either sign, which must not remain as a weight.
        floor = 4 * torch.finfo(weights.dtype).eps
        return replace(self, weights=threshold(weights, floor, 0.0))

    def normalized(self) -> ActiveSet:
        """The same set with weights that sum to 1 up to rounding."""
        total = self.weights.sum(-1, keepdim=True)
        return replace(self, weights=self.weights / total)

    def _counted(self) -> ActiveSet:
        """The same set with its free slots counted; with more, if less than half of them are free.

        So the device is read once for as many new atoms as a quarter of the slots.
        """
        slots = self.weights.shape[-1]
        spare = int((self.weights <= 0).sum(-1).min())
        counted = replace(self, spare=spare)
        return counted if spare >= 4 and 2 * spare >= slots else counted._grown()

    def _grown(self) -> ActiveSet:
        """Twice the slots, at least 8 more, so that the cost of growing is amortised."""
        more = max(8, self.weights.shape[-1])

        def pad(tensor: Tensor, dims: int) -> Tensor:
            axis = tensor.ndim - dims - 1
            shape = (*tensor.shape[:axis], more, *tensor.shape[axis + 1 :])
            return torch.cat([tensor, tensor.new_zeros(shape)], axis)

        curvatures = None if self.curvatures is None else pad(self.curvatures, 0)
        return ActiveSet(self.atoms.each(pad), pad(self.weights, 0), curvatures, self.spare + more)


@final
@dataclass(frozen=True, eq=False)
class Iterate:
    """x, its image Ax (None where the problem has none), and the active set if one is kept."""

    x: Tensor  # (*batch, *shape)
    image: Tensor | None = None
    active: ActiveSet | None = None


def image_of(it: Iterate) -> Tensor:
    """The iterate's image, which `Problem.at` has computed."""
    assert it.image is not None, "make iterates with problem.at(x)"
    return it.image


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
        it: the iterate where it starts.
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

    @once
    def direction(self) -> Tensor:
        """d as a tensor, computed once."""
        x = self.it.x
        batch = self.slope.ndim
        direction = expand(self.scale, x.ndim - batch) * x
        for term in self.terms:
            direction = term.vertex.add_to(direction, term.coefficient)
        return direction

    @once
    def image(self) -> Tensor:
        """A d, from the images of x and the vertices, computed once."""
        z = self.it.image
        assert z is not None
        parts = [(term.coefficient, term.image) for term in self.terms]
        return _combination([*parts, (self.scale, z)], z.ndim - self.slope.ndim)

    def clamped(self, step_size: Tensor | float) -> Tensor:
        """The step size as a tensor `(*batch,)`, clamped to [0, max_step]."""
        slope = self.slope
        if not isinstance(step_size, Tensor):
            step_size = min(step_size, torch.finfo(slope.dtype).max)  # float32 refuses 1e39
            if not isinstance(self.max_step, Tensor):
                return torch.full_like(slope, min(max(step_size, 0.0), self.max_step))
            step_size = torch.full_like(slope, step_size)
        elif step_size.shape != slope.shape:
            step_size = step_size.expand(slope.shape)
        if isinstance(self.max_step, Tensor):
            return torch.minimum(step_size.clamp_min(0.0), self.max_step)
        return step_size.clamp(0.0, self.max_step)

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


def _alike(atoms: Vertex, vertex: Vertex) -> bool:
    """Whether the two differ only in their tensors, not in type, radius or position."""
    return type(vertex) is type(atoms) and all(
        getattr(vertex, name) == value
        for name, value in vars(atoms).items()
        if name not in atoms.tensors
    )


def _write(buffer: Tensor, row: Tensor, slot: Tensor) -> Tensor:
    """buffer with `row` at `slot` along the atom dimension; in place if no gradient is needed."""
    if is_plain(slot):
        buffer[slot] = row[0]
        return buffer
    axis = slot.ndim
    index = slot.reshape(*slot.shape, *(1,) * (buffer.ndim - axis))
    index = index.expand(*slot.shape, 1, *buffer.shape[axis + 1 :])
    if torch.is_grad_enabled():
        return buffer.scatter(axis, index, row)
    return buffer.scatter_(axis, index, row)
