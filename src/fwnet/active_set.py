"""The active set: x as a convex combination of atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from fwnet.matrices import ImplicitMatrix
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
        values = self.atoms.inner(cost)
        barred = values.masked_fill(~self.used, -torch.inf if largest else torch.inf)
        best = barred.max(-1) if largest else barred.min(-1)
        return best.indices, best.values

    def weight_of(self, slot: Tensor) -> Tensor:
        """The weight in a slot: `(*batch,)`."""
        if slot.ndim == 0:
            return self.weights[slot]
        return self.weights.gather(-1, slot.unsqueeze(-1)).squeeze(-1)

    def holding(self, vertex: Vertex, curvature: Tensor | None = None) -> tuple[ActiveSet, Tensor]:
        """A set with a slot for `vertex`, and that slot: its own, or else a free one."""
        if type(vertex) is not type(self.atoms):
            vertex = as_dense(vertex)
            if type(vertex) is not type(self.atoms):
                return replace(self, atoms=as_dense(self.atoms)).holding(vertex, curvature)
        match = self.atoms.same_as(vertex)
        rank = torch.where(match, 2, (self.weights <= 0).to(torch.int8))
        slot = rank.argmax(-1)
        if bool((_pick(rank, slot) == 0).any()):
            return self._grown().holding(vertex, curvature)
        if bool(_pick(match, slot).all()):
            return self, slot
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

    def moved(
        self,
        scale: Tensor | float,
        terms: Sequence[tuple[Tensor, Tensor | float]],
        step_size: Tensor,
    ) -> ActiveSet:
        """The weights after a step: (1 + γ·scale) weights + γ Σ c_k e_slot(k)."""
        keep = 1 + scale * step_size
        weights = self.weights * (keep.unsqueeze(-1) if keep.ndim else keep)
        for slot, coefficient in terms:
            weights = weights.scatter_add(
                -1, slot.unsqueeze(-1), (step_size * coefficient).unsqueeze(-1)
            )
        # A dropped atom leaves rounding behind, of either sign: it must not come back as weight.
        floor = 4 * torch.finfo(weights.dtype).eps
        weights = torch.where(weights > floor, weights, 0.0)
        return ActiveSet(self.atoms, weights, self.curvatures)

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


def _pick(values: Tensor, slot: Tensor) -> Tensor:
    return values.gather(-1, slot.unsqueeze(-1)).squeeze(-1)


def _write(buffer: Tensor, row: Tensor, slot: Tensor) -> Tensor:
    """buffer with `row` at `slot` along the atom dimension; in place where no graph needs it."""
    axis = slot.ndim
    index = slot.reshape(*slot.shape, *(1,) * (buffer.ndim - axis))
    index = index.expand(*slot.shape, 1, *buffer.shape[axis + 1 :])
    if torch.is_grad_enabled():
        return buffer.scatter(axis, index, row)
    return buffer.scatter_(axis, index, row)
