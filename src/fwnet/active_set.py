"""The active set: x as a convex combination of atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import threshold

from fwnet.numerics.scaling import rescaled
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.vertices import Vertex, as_dense


@final
@dataclass(frozen=True, eq=False)
class ActiveSet:
    """x = Σ_k weights_k · atom_k, weights on the unit simplex, one set for each problem.

    A slot of weight 0 is free: the next new atom takes it.

    Arguments:
        atoms: `(*batch, K)`, one vertex object for all.
        weights: `(*batch, K)`.
        curvatures: ⟨v, ∇²f v⟩ of each atom, kept for the second-order choice of a partner.
    """

    atoms: Vertex
    weights: Tensor
    curvatures: Tensor | None = None

    @property
    def used(self) -> Tensor:
        """Which slots hold an atom: bool `(*batch, K)`."""
        return self.weights > 0

    def point(self) -> Tensor:
        """x, computed anew."""
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
        return _pick(self.weights, slot)

    def holding(self, vertex: Vertex, curvature: Tensor | None = None) -> tuple[ActiveSet, Tensor]:
        """A set with a slot for `vertex`, and that slot: its own, or else a free one."""
        if not _alike(self.atoms, vertex):
            vertex = as_dense(vertex)
            if not _alike(self.atoms, vertex):
                return replace(self, atoms=as_dense(self.atoms)).holding(vertex, curvature)
        match = self.atoms.same_as(vertex)
        found, slot = match.max(-1)
        if bool(found.all()):
            return self, slot
        free = self.weights.argmin(-1)
        slot = torch.where(found, slot, free)
        if bool((~found & (_pick(self.weights, slot) > 0)).any()):
            return self._grown().holding(vertex, curvature)
        fresh = vertex.as_atoms()
        atoms = type(self.atoms)(
            **{
                name: _write(value, getattr(fresh, name), slot)
                if name in self.atoms.tensors
                else value
                for name, value in vars(self.atoms).items()
            }
        )
        curvatures = self.curvatures
        if curvatures is not None and curvature is not None:
            curvatures = _write(curvatures, curvature.unsqueeze(-1), slot)
        return ActiveSet(atoms, self.weights, curvatures), slot

    def same(self, vertex: Vertex) -> Tensor:
        """Which slots hold this very vertex: bool `(*batch, K)`."""
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
            if slot.ndim == 0 and not torch.is_grad_enabled():
                weights[slot].add_(amount)
            else:
                weights = weights.scatter_add(-1, slot.unsqueeze(-1), amount.unsqueeze(-1))
        # A dropped atom leaves rounding behind, of either sign: it must not come back as weight.
        floor = 4 * torch.finfo(weights.dtype).eps
        return ActiveSet(self.atoms, threshold(weights, floor, 0.0), self.curvatures)

    def normalized(self) -> ActiveSet:
        """The same set with weights that sum to 1 to the last bit or two."""
        total = self.weights.sum(-1, keepdim=True)
        return ActiveSet(self.atoms, self.weights / total, self.curvatures)

    def _grown(self) -> ActiveSet:
        """Twice the slots, at least 8 more: the cost of growing is spread over the steps."""
        more = max(8, self.weights.shape[-1])

        def pad(tensor: Tensor, dims: int) -> Tensor:
            axis = tensor.ndim - dims - 1
            shape = (*tensor.shape[:axis], more, *tensor.shape[axis + 1 :])
            return torch.cat([tensor, tensor.new_zeros(shape)], axis)

        curvatures = None if self.curvatures is None else pad(self.curvatures, 0)
        return ActiveSet(self.atoms.each(pad), pad(self.weights, 0), curvatures)


def _alike(atoms: Vertex, vertex: Vertex) -> bool:
    """Whether they differ in their tensors only: not in type, nor in a radius or a place."""
    return type(vertex) is type(atoms) and all(
        getattr(vertex, name) == value
        for name, value in vars(atoms).items()
        if name not in atoms.tensors
    )


def _pick(values: Tensor, slot: Tensor) -> Tensor:
    if slot.ndim == 0:
        return values[slot]
    return values.gather(-1, slot.unsqueeze(-1)).squeeze(-1)


def _write(buffer: Tensor, row: Tensor, slot: Tensor) -> Tensor:
    """buffer with `row` at `slot` along the atom dimension; in place where no graph needs it."""
    if slot.ndim == 0 and not torch.is_grad_enabled():
        buffer[slot] = row[0]
        return buffer
    axis = slot.ndim
    index = slot.reshape(*slot.shape, *(1,) * (buffer.ndim - axis))
    index = index.expand(*slot.shape, 1, *buffer.shape[axis + 1 :])
    if torch.is_grad_enabled():
        return buffer.scatter(axis, index, row)
    return buffer.scatter_(axis, index, row)
